//! The barrier, for code without async.

use std::time::Duration;

use super::calls::blocking_calls;
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

    blocking_calls! { Barrier.barrier:
        /// Waits until the barrier opens, which is when as many parties wait as the barrier has.
        fn wait() -> Arrival;

        /// Waits until the barrier opens, for at most `limit`. The maximum is 365 days. Returns `None` if it has not
        /// opened by then. If `limit` is zero, the call opens the barrier if only this party is missing.
        fn wait_for(limit: Duration) -> Option<Arrival>;
    }
}
