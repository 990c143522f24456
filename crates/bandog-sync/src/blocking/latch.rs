//! The count-down latch for code without async.

use std::time::Duration;

use super::calls::blocking_calls;

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

impl Latch {
    pub(super) fn new(latch: crate::Latch) -> Self {
        Self { latch }
    }

    blocking_calls! { Latch.latch:
        /// Creates the latch with this count, if it does not exist. Returns false if it exists; then nothing changes.
        fn set(count: u64) -> bool;

        /// Subtracts 1 from the count. Returns the new count, which is 0 if the latch is open now or was open before.
        fn count_down() -> u64;

        /// Subtracts this number from the count. Returns the new count. If the number is greater than the count, the new
        /// count is 0.
        fn count_down_by(number: u64) -> u64;

        /// The present count. It is 0 if the latch is open.
        fn count() -> u64;

        /// Waits until the latch is open. Returns immediately if it is open now.
        fn wait() -> ();

        /// Waits until the latch is open, for at most `limit`. The maximum is 365 days. Returns whether the latch is open.
        /// If `limit` is zero, the call polls the count once.
        fn wait_for(limit: Duration) -> bool;

        /// Deletes the latch, which opens it. Returns whether it existed.
        fn delete() -> bool;
    }
}
