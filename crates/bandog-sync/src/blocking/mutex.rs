//! The mutex of threads.

use std::time::Duration;

use bandog_core::Result;

use super::{Guard, lock};
use crate::lock::Lock;

/// A named lock: one thread at a time, across all processes that share the store.
///
/// A thread that holds it gets it again at once, counted, and on the first lease's terms; the last guard releases it.
/// It is re-entrant like Java's locks, and unlike those of `std::sync`.
///
/// It is a handle: making one is cheap and does no I/O, and clones are the same lock. Without [`Mutex::lease`] the
/// watchdog renews the hold as long as its guard lives, whatever this thread does meanwhile.
#[derive(Debug, Clone)]
pub struct Mutex {
    lock: Lock,
}

impl Mutex {
    pub(super) fn new(mutex: crate::Mutex) -> Self {
        Self { lock: mutex.lock }
    }

    /// The same lock with a fixed lease: no watchdog renews it, and it is lost after `ttl` (100 ms to 365 days).
    ///
    /// A ttl out of bounds is an error of the first call that locks.
    #[must_use]
    pub fn lease(self, ttl: Duration) -> Self {
        Self { lock: self.lock.lease(ttl) }
    }

    /// The same lock with a maximum hold time (100 ms to 365 days): then it is lost even if it is renewed, so that a
    /// thread that hangs does not keep it forever. See [`crate::Mutex::max_hold`]. Default: no limit.
    #[must_use]
    pub fn max_hold(self, time: Duration) -> Self {
        Self { lock: self.lock.max_hold(time) }
    }

    /// Waits until no other thread holds the lock, and takes it.
    ///
    /// Calls of one client are served in their order. An async guard has no owner thread: if the thread that must
    /// release it waits here for the same lock, it waits forever.
    ///
    /// # Errors
    /// `Misused` for a bad name or lease, and in async code. `Denied` when the store refuses. `Unavailable` when the
    /// store has not answered this client at all for 5 s; after a first answer the call waits through outages. `Lost`
    /// for a thread whose earlier guards are lost and not dropped yet. `Overloaded` when too many calls of this client
    /// wait. `Closed` after [`super::Client::close`].
    pub fn lock(&self) -> Result<Guard> {
        lock::acquire(&self.lock)
    }

    /// Takes the lock if no other thread holds it now.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// # let client = bandog::blocking::connect("memory:")?;
    /// let Some(guard) = client.mutex("orders").try_lock()? else {
    ///     return Ok(()); // another thread has it, perhaps on another machine
    /// };
    /// # guard.release() }
    /// ```
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `Unavailable` when the store does not answer within one request timeout.
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        lock::try_acquire_for(&self.lock, Duration::ZERO)
    }

    /// Waits for the lock, for at most this time (365 days at most). With zero it is [`Mutex::try_lock`].
    ///
    /// `None` means that the store reported another holder. A store that gave no answer is an error.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `Unavailable` when the store gave no answer in this time.
    pub fn try_lock_for(&self, limit: Duration) -> Result<Option<Guard>> {
        lock::try_acquire_for(&self.lock, limit)
    }

    /// Locks, runs the body and releases the lock, also when the body panics.
    ///
    /// A loss of the lock does not stop the body: a long body checks [`Guard::is_lost`].
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// # let client = bandog::blocking::connect("memory:")?;
    /// let swept = client.mutex("orders").run(|guard| guard.fence().get() + 1)?;
    /// assert!(swept > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Mutex::lock`]; `Lost` when the lock was lost before the body had finished: another holder may have done the
    /// same work.
    pub fn run<T>(&self, body: impl FnOnce(&Guard) -> T) -> Result<T> {
        lock::run(&self.lock, body)
    }
}
