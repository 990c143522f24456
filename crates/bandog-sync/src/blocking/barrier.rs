//! The barrier, for code without async.

use std::time::Duration;

use bandog_core::Result;

use super::{
    thread,
    wait::{wait, wait_at_most},
};
use crate::Arrival;

/// A barrier: a number of calls of [`Barrier::wait`] wait for each other, across threads, processes and machines. See
/// [`crate::Barrier`].
///
/// ```
/// # fn main() -> bandog::Result<()> {
/// let client = bandog::blocking::connect("memory:")?;
/// let threads = [(); 3].map(|()| {
///     let phase = client.barrier("phase", 3);
///     std::thread::spawn(move || phase.wait())
/// });
/// let mut leaders = 0;
/// for thread in threads {
///     leaders += usize::from(thread.join().unwrap()?.is_leader());
/// }
/// assert_eq!(leaders, 1);
/// # client.close() }
/// ```
#[derive(Debug, Clone)]
pub struct Barrier {
    barrier: crate::Barrier,
}

impl Barrier {
    pub(super) fn new(barrier: crate::Barrier) -> Self {
        Self { barrier }
    }

    /// The same barrier with this ttl instead of the client's ttl. See [`crate::Barrier::watchdog`].
    #[must_use]
    pub fn watchdog(self, ttl: Duration) -> Self {
        Self { barrier: self.barrier.watchdog(ttl) }
    }

    /// Waits until the barrier opens, which is when as many parties wait as the barrier has.
    ///
    /// # Errors
    /// As [`crate::Barrier::wait`], and `ErrorKind::Misused` in async code.
    pub fn wait(&self) -> Result<Arrival> {
        thread::may_block("wait")?;
        wait(self.barrier.wait())
    }

    /// Waits until the barrier opens, for at most `limit`. Returns `None` if it has not opened by then. In that case
    /// this party leaves the barrier.
    ///
    /// # Errors
    /// As [`Barrier::wait`].
    pub fn wait_for(&self, limit: Duration) -> Result<Option<Arrival>> {
        thread::may_block("wait")?;
        wait_at_most(self.barrier.wait(), limit, self.barrier.clock()).transpose()
    }
}
