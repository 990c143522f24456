//! The mutex of threads.

use std::time::Duration;

use bandog_core::{Error, Result};

use super::{
    Guard, thread,
    wait::{answer, wait},
};

/// A named lock: one thread at a time, across all processes that share the store.
///
/// A thread that holds it gets it again at once, counted, and on the first lease's terms; it is given back with the
/// last guard. That is as with Java's locks, and unlike those of `std::sync`.
///
/// It is a handle: making one is cheap and does no I/O, and clones are the same lock. Without [`Mutex::lease`] the
/// watchdog renews the hold as long as its guard lives, whatever this thread does meanwhile.
#[derive(Debug, Clone)]
pub struct Mutex {
    mutex: crate::Mutex,
}

impl Mutex {
    pub(super) fn new(mutex: crate::Mutex) -> Self {
        Self { mutex }
    }

    /// The same lock with a fixed lease: no watchdog renews it, and it is lost after `ttl` (100 ms to 365 days).
    ///
    /// A ttl out of bounds is told by the first call that locks.
    #[must_use]
    pub fn lease(self, ttl: Duration) -> Self {
        Self { mutex: self.mutex.lease(ttl) }
    }

    /// The same lock, lost when it has been held for this long (100 ms to 365 days), however well it is renewed: so
    /// that a thread that hangs does not keep it for ever. See [`crate::Mutex::max_hold`]. Default: no limit.
    #[must_use]
    pub fn max_hold(self, time: Duration) -> Self {
        Self { mutex: self.mutex.max_hold(time) }
    }

    /// Waits until no other thread holds the lock, and takes it.
    ///
    /// Calls of one client are served in their order. A guard of the async API is no thread's: who waits for it in
    /// the thread that has to give it back waits for ever.
    ///
    /// # Errors
    /// `Misused` for a bad name or lease, and in async code. `Denied` when the store refuses. `Unavailable` when the
    /// store has not answered this client at all for 5 s; after a first answer it rides out outages. `Lost` for a
    /// thread whose earlier guards are lost and not dropped yet. `Overloaded` when too
    /// many calls of this client wait. `Closed` after [`super::Client::close`].
    pub fn lock(&self) -> Result<Guard> {
        wait(self.mine("lock")?.lock()).map(Guard::new)
    }

    /// Takes the lock if no other thread holds it now.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// # let client = bandog::blocking::connect("memory:")?;
    /// let Some(guard) = client.mutex("orders").try_lock()? else {
    ///     return Ok(()); // another thread, maybe of another machine, is at it
    /// };
    /// # guard.release() }
    /// ```
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `Unavailable` when the store does not answer within one request timeout.
    pub fn try_lock(&self) -> Result<Option<Guard>> {
        self.try_lock_for(Duration::ZERO)
    }

    /// Waits for the lock for at most this long (365 days at most). No time at all is [`Mutex::try_lock`].
    ///
    /// `None` says that the store told of another holder; a store that gave no answer is an error.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `Unavailable` when the store gave no answer in this time.
    pub fn try_lock_for(&self, limit: Duration) -> Result<Option<Guard>> {
        let mine = self.mine("lock")?;
        let handle = mine.handle();
        let engines = if limit.is_zero() { handle.timeout } else { limit };
        let guard = answer(mine.try_lock_for(limit), engines, handle.clock)?;
        Ok(guard.map(Guard::new))
    }

    /// Locks, runs the body and gives the lock back, also when the body panics.
    ///
    /// Nobody can stop the body when the lock is lost: one that takes long looks at [`Guard::is_lost`] on its way.
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
    /// As [`Mutex::lock`]; `Lost` when the lock was lost before the body had finished: what it did may have been
    /// done by somebody else too.
    pub fn run<T>(&self, body: impl FnOnce(&Guard) -> T) -> Result<T> {
        let guard = self.lock()?;
        let value = body(&guard);
        guard.standing()?;
        // The body had its lock to the end, so its value stands whatever becomes of the release.
        let _ = guard.release();
        Ok(value)
    }

    /// The lock as this thread's.
    fn mine(&self, verb: &'static str) -> Result<crate::Mutex> {
        let told = |error: Error| match self.mutex.key() {
            Ok(key) => error.at(key),
            Err(_) => error,
        };
        thread::may_block(verb).map_err(told)?;
        let owner = thread::owner(self.mutex.handle().id).map_err(told)?;
        Ok(self.mutex.clone().by(&owner))
    }
}
