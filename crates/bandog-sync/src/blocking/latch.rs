//! The count-down latch for code without async.

use std::time::Duration;

use bandog_core::{LatchRow, Pattern, Result};

use super::{Client, thread, wait::wait};

/// A count-down latch: a counter in the store. Calls wait until the counter has reached zero. See [`crate::Latch`].
///
/// ```
/// # fn main() -> bandog::Result<()> {
/// let client = bandog::blocking::connect("memory:")?;
/// let loaded = client.latch("shards-loaded");
/// loaded.set(2)?;
/// std::thread::scope(|threads| {
///     for _shard in 0..2 {
///         threads.spawn(|| loaded.count_down());
///     }
///     loaded.wait() // until both shards have counted down
/// })
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Latch {
    latch: crate::Latch,
}

impl Client {
    /// The count-down latch with this name. If the name is not allowed, each call of the latch returns
    /// `ErrorKind::Misused`. This call is cheap and does no I/O.
    pub fn latch(&self, name: impl AsRef<str>) -> Latch {
        Latch { latch: self.to_async().latch(name) }
    }

    /// The latches that are not open and whose names match the pattern, sorted by name. On Redis this call scans all
    /// keys of the server; see [`crate::Client::list_latches`].
    ///
    /// # Errors
    /// As [`crate::Client::list_latches`], and `ErrorKind::Misused` in async code.
    pub fn list_latches(&self, pattern: Pattern) -> Result<Vec<LatchRow>> {
        thread::may_block("list")?;
        wait(self.to_async().list_latches(pattern))
    }
}

impl Latch {
    /// Creates the latch with this count, if it does not exist. Returns false if it exists; then nothing changes.
    ///
    /// # Errors
    /// As [`crate::Latch::set`], and `ErrorKind::Misused` in async code.
    pub fn set(&self, count: u64) -> Result<bool> {
        thread::may_block("set_latch")?;
        wait(self.latch.set(count))
    }

    /// Subtracts 1 from the count. Returns the new count, which is 0 if the latch is open now or was open before.
    ///
    /// # Errors
    /// As [`crate::Latch::set`], and `ErrorKind::Misused` in async code.
    pub fn count_down(&self) -> Result<u64> {
        self.count_down_by(1)
    }

    /// Subtracts this number from the count. Returns the new count. If the number is greater than the count, the new
    /// count is 0.
    ///
    /// # Errors
    /// As [`crate::Latch::count_down_by`], and `ErrorKind::Misused` in async code.
    pub fn count_down_by(&self, number: u64) -> Result<u64> {
        thread::may_block("count_down")?;
        wait(self.latch.count_down_by(number))
    }

    /// The present count. It is 0 if the latch is open.
    ///
    /// # Errors
    /// As [`crate::Latch::count`], and `ErrorKind::Misused` in async code.
    pub fn count(&self) -> Result<u64> {
        thread::may_block("latch_count")?;
        wait(self.latch.count())
    }

    /// Waits until the latch is open. Returns immediately if it is open now.
    ///
    /// # Errors
    /// As [`crate::Latch::wait`], and `ErrorKind::Misused` in async code.
    pub fn wait(&self) -> Result<()> {
        thread::may_block("wait")?;
        wait(self.latch.wait())
    }

    /// Waits until the latch is open, for at most `limit`. The maximum is 365 days. Returns whether the latch is open.
    ///
    /// # Errors
    /// As [`crate::Latch::wait_for`], and `ErrorKind::Misused` in async code.
    pub fn wait_for(&self, limit: Duration) -> Result<bool> {
        thread::may_block("wait")?;
        wait(self.latch.wait_for(limit))
    }

    /// Deletes the latch, which opens it. Returns whether it existed.
    ///
    /// # Errors
    /// As [`crate::Latch::delete`], and `ErrorKind::Misused` in async code.
    pub fn delete(&self) -> Result<bool> {
        thread::may_block("delete_latch")?;
        wait(self.latch.delete())
    }
}
