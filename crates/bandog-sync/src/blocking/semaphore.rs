//! The semaphore for code without async.

use std::time::Duration;

use bandog_core::Result;

use super::{Guard, calls::blocking_calls, lock};
use crate::{SharedHold, lock::Lock, lock_options::lock_options};

/// A named number of permits, among all processes that share the store. See [`crate::Semaphore`].
///
/// A thread that has permits can take further permits; there is no re-entry.
///
/// ```
/// # fn main() -> bandog::Result<()> {
/// # let client = bandog::blocking::connect("memory:")?;
/// let gpus = client.semaphore("gpu", 2);
/// let (one, two) = (gpus.acquire()?, gpus.acquire()?);
/// assert!(gpus.try_acquire()?.is_none());
/// # drop(one);
/// two.release()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Semaphore {
    pub(super) semaphore: crate::Semaphore,
}

impl Semaphore {
    pub(super) fn new(semaphore: crate::Semaphore) -> Self {
        Self { semaphore }
    }

    fn map(self, change: impl Fn(Lock) -> Lock) -> Self {
        Self { semaphore: self.semaphore.map(change) }
    }

    lock_options!(lease, watchdog, max_hold, max_waiters);

    /// The same semaphore, but each call takes this number of permits. See [`crate::Semaphore::permits`].
    #[must_use]
    pub fn permits(self, number: u32) -> Self {
        Self { semaphore: self.semaphore.permits(number) }
    }

    /// Waits until enough permits are free, and takes them.
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire`], and `ErrorKind::Misused` in async code.
    pub fn acquire(&self) -> Result<Guard<SharedHold>> {
        lock::acquire(&self.semaphore.lock)
    }

    /// Takes the permits if they are free now. Otherwise returns `None`.
    ///
    /// # Errors
    /// As [`crate::Semaphore::try_acquire`], and `ErrorKind::Misused` in async code.
    pub fn try_acquire(&self) -> Result<Option<Guard<SharedHold>>> {
        self.try_acquire_for(Duration::ZERO)
    }

    /// Waits for the permits, for at most `limit`. The maximum is 365 days.
    ///
    /// # Errors
    /// As [`crate::Semaphore::try_acquire_for`], and `ErrorKind::Misused` in async code.
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<Guard<SharedHold>>> {
        lock::try_acquire_for(&self.semaphore.lock, limit)
    }

    /// Takes the permits, runs the body and releases the permits, also if the body panics. A loss does not stop the body.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`], and `ErrorKind::Lost` if the permits were lost before the body ended.
    pub fn run<T>(&self, body: impl FnOnce(&Guard<SharedHold>) -> T) -> Result<T> {
        lock::run(&self.semaphore.lock, body)
    }

    blocking_calls! { Semaphore.semaphore:
        /// Changes the limit, and returns the limit before.
        fn set_limit(limit: u32) -> Option<u32>;
    }
}
