//! A thread's right to a lock.

use std::{marker::PhantomData, sync::MutexGuard, time::Duration};

use bandog_core::{Fence, Key, Result};

use super::{Lost, thread, wait::answer};

/// A lock that this thread holds, until it is released, dropped or lost.
///
/// A lease can end while a guard lives: the process may have been stopped, or the store may have forgotten. Work
/// that must not run twice looks at [`Guard::is_lost`] and sends [`Guard::fence`] along with its writes.
///
/// It cannot leave its thread, since the thread is the lock's owner; other threads may look at it.
///
/// ```compile_fail,E0277
/// # fn main() -> bandog::Result<()> {
/// # let client = bandog::blocking::connect("memory:")?;
/// let guard = client.mutex("orders").lock()?;
/// std::thread::spawn(move || drop(guard)); // does not compile
/// # Ok(()) }
/// ```
///
/// Dropping it gives the lock back in the background; [`Guard::release`] does so and reports.
#[derive(Debug)]
#[must_use = "a lock is given back as soon as its guard is dropped"]
pub struct Guard {
    guard: crate::Guard,
    /// What is `Sync` and not `Send`.
    stays: PhantomData<MutexGuard<'static, ()>>,
}

impl Guard {
    pub(super) fn new(guard: crate::Guard) -> Self {
        Self { guard, stays: PhantomData }
    }

    /// The fencing token of this grant. Guards of one re-entry have the same.
    pub fn fence(&self) -> Fence {
        self.guard.fence()
    }

    /// The lock's name.
    pub fn key(&self) -> &Key {
        self.guard.key()
    }

    /// Whether somebody else may hold the lock now. Once true it stays true. It reads the clock, and costs no I/O.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// # let client = bandog::blocking::connect("memory:")?;
    /// # let pages = ["one", "two"];
    /// # fn write(page: &str, fence: bandog::Fence) {}
    /// let guard = client.mutex("orders").lock()?;
    /// for page in pages {
    ///     if guard.is_lost() {
    ///         break; // release() will say so
    ///     }
    ///     write(page, guard.fence());
    /// }
    /// guard.release()
    /// # }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// How long the lock stays ours if no renewal succeeds from now on; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// What another thread waits on to learn how this lock ends.
    pub fn lost(&self) -> Lost {
        let (status, clock) = self.guard.watched();
        Lost::new(status, clock)
    }

    /// Gives the lock back and reports. Of several guards of one thread only the last gives it back.
    ///
    /// # Errors
    /// `Lost` when it had been lost before: what was done since then may have been done by somebody else too.
    /// `Unavailable` when the store gave no answer in its request timeout; the release goes on in the background, and
    /// the lock is free after its ttl at the latest. `Closed` after [`super::Client::close`]. `Misused` in async
    /// code; the lock is given back in the background then.
    pub fn release(self) -> Result<()> {
        thread::may_block("release").map_err(|error| error.at(self.key()))?;
        let (clock, limit) = (self.guard.handle().clock, self.guard.handle().timeout * 2);
        answer(self.guard.release(), limit, clock)
    }

    /// Makes the guard lost, as if its lease had run out: for tests of what a program does then. See
    /// [`crate::Guard::lose`].
    #[cfg(feature = "test-util")]
    pub fn lose(&self) {
        self.guard.lose();
    }

    pub(super) fn standing(&self) -> Result<()> {
        self.guard.standing()
    }
}

#[cfg(test)]
mod tests;
