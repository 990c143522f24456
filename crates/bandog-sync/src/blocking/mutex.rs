//! The mutex for code without async.

use std::time::Duration;

use bandog_core::{Kind, Result};

use super::{Guard, lock};
use crate::{Owner, lock::Lock, lock_options::lock_options};

/// A named lock. Among all processes that share the store, only one thread at a time holds the lock.
///
/// The lock is re-entrant, like Java's locks and unlike those of `std::sync`. A thread that holds the lock and locks it
/// again gets another guard immediately. The lock is released when the last of these guards is dropped. The ttl and the
/// other terms of the first call apply.
///
/// This type is a handle. It is cheap to create, creating it does no I/O, and its clones are the same lock.
///
/// By default the client renews a held lock until its guard is dropped (the *watchdog*), even if the thread is busy or
/// blocked. [`Mutex::lease`] turns that off.
#[derive(Debug, Clone)]
pub struct Mutex {
    pub(super) lock: Lock,
}

impl Mutex {
    pub(super) fn new(mutex: crate::Mutex) -> Self {
        Self { lock: mutex.lock }
    }

    fn map(self, change: impl Fn(Lock) -> Lock) -> Self {
        Self { lock: change(self.lock) }
    }

    lock_options!(lease, watchdog, max_hold, max_waiters);

    /// The same name as a fair mutex: all waiting calls, of all clients, get the lock in the order in which they began
    /// to wait at the store. See [`crate::Mutex::fair`].
    #[must_use]
    pub fn fair(self) -> Self {
        self.map(|lock| lock.of_kind(|_| Ok(Kind::Fair)))
    }

    /// The same lock, but each call takes the lock for this owner instead of the calling thread. See [`crate::Mutex::by`].
    #[must_use]
    pub fn by(self, owner: &Owner) -> Self {
        self.map(|lock| lock.by(owner))
    }

    /// Waits until no other thread holds the lock, and takes it.
    ///
    /// Waiting calls of one client get the lock in the order in which they were made.
    ///
    /// A guard of the async API belongs to no thread. If a thread keeps such a guard and calls this function for the
    /// same lock, the thread waits forever.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name or a time is not allowed, or the call was made in async code.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unavailable`: the store did not answer within 5 s, and has never answered this client. After the
    ///   store's first answer, calls wait through outages instead.
    /// - `ErrorKind::Lost`: the thread has lost this lock, but has not dropped all of its guards yet.
    /// - `ErrorKind::Overloaded`: too many calls wait ([`Mutex::max_waiters`], [`crate::ClientOptions::max_waiting`]).
    /// - `ErrorKind::Deadlock`: the call is part of a deadlock of owners ([`crate::Owner`]).
    /// - `ErrorKind::Closed`: the client was closed with [`super::Client::close`].
    pub fn lock(&self) -> Result<Guard> {
        lock::acquire(&self.lock)
    }

    /// Takes the lock if no other thread holds it now. Otherwise returns `None`.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// # let client = bandog::blocking::connect("memory:")?;
    /// let Some(guard) = client.mutex("orders").try_lock()? else {
    ///     return Ok(()); // another thread has it, possibly on another machine
    /// };
    /// # guard.release() }
    /// ```
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `ErrorKind::Unavailable` if the store does not answer within one request timeout.
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        lock::try_acquire_for(&self.lock, Duration::ZERO)
    }

    /// Waits for the lock, for at most `limit`. The maximum is 365 days. If `limit` is zero, this is
    /// [`Mutex::try_lock`].
    ///
    /// Returns `None` if the lock was held. If the store gave no answer, the call returns an error instead.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `ErrorKind::Unavailable` if the store gave no answer within `limit`.
    pub fn try_lock_for(&self, limit: Duration) -> Result<Option<Guard>> {
        lock::try_acquire_for(&self.lock, limit)
    }

    /// Locks, runs the body and releases the lock. The lock is also released if the body panics.
    ///
    /// A loss of the lock does not stop the body. A long body should check [`Guard::is_lost`].
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
    /// As [`Mutex::lock`], and `ErrorKind::Lost` if the lock was lost before the body ended. Another holder may have
    /// done the same work then.
    pub fn run<T>(&self, body: impl FnOnce(&Guard) -> T) -> Result<T> {
        lock::run(&self.lock, body)
    }
}
