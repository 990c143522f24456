//! The guard of a thread's lock.

use std::{marker::PhantomData, sync::MutexGuard, time::Duration};

use bandog_core::{Fence, Key, Result};

use super::{Lost, thread, wait::answer};

/// A lock that this thread holds, until it is released, dropped or lost.
///
/// A lease can expire while its guard lives: the process may have been stopped, or the store may have lost the lock.
/// Work that must not run twice checks [`Guard::is_lost`] and sends [`Guard::fence`] along with its writes.
///
/// It cannot leave its thread, since the thread is the lock's owner. Other threads may read it.
///
/// ```compile_fail,E0277
/// # fn main() -> bandog::Result<()> {
/// # let client = bandog::blocking::connect("memory:")?;
/// let guard = client.mutex("orders").lock()?;
/// std::thread::spawn(move || drop(guard)); // does not compile
/// # Ok(()) }
/// ```
///
/// Dropping it releases the lock in the background; [`Guard::release`] also reports the result.
#[derive(Debug)]
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct Guard {
    guard: crate::Guard,
    /// Makes the guard `Sync` and not `Send`.
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl Guard {
    pub(super) fn new(guard: crate::Guard) -> Self {
        Self { guard, not_send: PhantomData }
    }

    /// The fencing token of this grant. Guards of one re-entry have the same one.
    pub fn fence(&self) -> Fence {
        self.guard.fence()
    }

    /// The lock's name.
    pub fn key(&self) -> &Key {
        self.guard.key()
    }

    /// Whether another holder may have the lock now. Once true, it stays true. It reads the clock, and does no I/O.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// # let client = bandog::blocking::connect("memory:")?;
    /// # let pages = ["one", "two"];
    /// # fn write(page: &str, fence: bandog::Fence) {}
    /// let guard = client.mutex("orders").lock()?;
    /// for page in pages {
    ///     if guard.is_lost() {
    ///         break; // release() reports it
    ///     }
    ///     write(page, guard.fence());
    /// }
    /// guard.release()
    /// # }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Time until the lock is lost if no renewal succeeds from now on; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// A handle with which another thread waits for the end of this lock.
    pub fn lost(&self) -> Lost {
        let (status, clock) = self.guard.status_and_clock();
        Lost::new(status, clock)
    }

    /// Releases the lock and reports the result. Of several guards of one thread only the last one releases it.
    ///
    /// # Errors
    /// `Lost` when it had been lost before: another holder may have done the same work since then. `Unavailable` when
    /// the store gave no answer in its request timeout; the release continues in the background, and the lock is free
    /// after its ttl at the latest. `Closed` after [`super::Client::close`]. `Misused` in async code; the lock is
    /// released in the background then.
    pub fn release(self) -> Result<()> {
        thread::may_block("release").map_err(|error| error.at(self.key()))?;
        let (clock, limit) = (self.guard.handle().clock, self.guard.handle().timeout * 2);
        answer(self.guard.release(), limit, clock)
    }

    /// Makes the guard lost, as if its lease had expired, to test how a program reacts. See [`crate::Guard::lose`].
    #[cfg(feature = "test-util")]
    pub fn lose(&self) {
        self.guard.lose();
    }

    pub(super) fn check_held(&self) -> Result<()> {
        self.guard.check_held()
    }
}

#[cfg(test)]
mod tests;
