//! The guard of a lock that a thread holds.

use std::{marker::PhantomData, sync::MutexGuard, time::Duration};

use bandog_core::{Fence, Holding, Result, SqlStatement};

use super::{
    Expiring, Lost, thread,
    wait::{answer, wait},
};
use crate::{ExclusiveHold, SharedHold, Token};

/// A lock that this thread holds. It stays held until this guard is released or dropped, or until the lock is lost.
///
/// A lock can be lost while its guard exists, for example because the process was stopped for some time, or because the
/// store lost its data. Work that must not run twice should check [`Guard::is_lost`], and send [`Guard::fence`] with
/// each write.
///
/// A guard cannot be sent to another thread, because the thread that has taken the lock is the owner of the lock. But
/// other threads can use references to the guard.
///
/// ```compile_fail,E0277
/// # fn main() -> bandog::Result<()> {
/// # let client = bandog::blocking::connect("memory:")?;
/// let guard = client.mutex("orders").lock()?;
/// std::thread::spawn(move || drop(guard)); // does not compile
/// # Ok(()) }
/// ```
///
/// The drop of a guard releases the lock in the background. [`Guard::release`] does the same and reports the result.
#[derive(Debug)]
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct Guard<S = ExclusiveHold> {
    pub(super) guard: crate::Guard<S>,
    /// Makes this type `Sync` but not `Send`, like a `MutexGuard`.
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl<S> Guard<S> {
    pub(super) fn new(guard: crate::Guard<S>) -> Self {
        Self { guard, not_send: PhantomData }
    }

    /// The fencing token of this lock: a number that is larger than the number of every earlier holder. If a thread
    /// takes a lock again while it holds the lock, all of these guards have the same fence.
    pub fn fence(&self) -> Fence {
        self.guard.fence()
    }

    /// The lock's name, without the client's prefix.
    pub fn name(&self) -> &str {
        self.guard.name()
    }

    /// The lock's key in the store: its name with the client's prefix. See [`crate::Guard::key`].
    pub fn key(&self) -> &str {
        self.guard.key()
    }

    /// Whether the lock is lost, so that another thread might hold it now. Once this call has returned true, it always
    /// returns true. This call reads the clock, and does no I/O.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// # let client = bandog::blocking::connect("memory:")?;
    /// # let pages = ["one", "two"];
    /// # fn write(page: &str, fence: bandog::Fence) {}
    /// let guard = client.mutex("orders").lock()?;
    /// for page in pages {
    ///     if guard.is_lost() {
    ///         break; // release() reports the loss
    ///     }
    ///     write(page, guard.fence());
    /// }
    /// guard.release()
    /// # }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Time until the lock is lost if no further renewal succeeds. Zero if the lock is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// The ttl with which the lock was taken. See [`crate::Guard::ttl`].
    pub fn ttl(&self) -> Duration {
        self.guard.ttl()
    }

    /// A handle with which another thread can wait until this lock is lost or released.
    pub fn lost(&self) -> Lost {
        Lost::of_any([&self.guard])
    }

    /// A handle with which another thread can wait until only `grace` is left before this lock is lost. See
    /// [`crate::Guard::expiring`].
    pub fn expiring(&self, grace: Duration) -> Expiring {
        Expiring::of_any([&self.guard], grace)
    }

    /// The claim that holds the lock in the store. See [`crate::Guard::holding`].
    pub fn holding(&self) -> Holding {
        self.guard.holding()
    }

    /// Extends a fixed lease: from now on, the lock is held for at least `ttl`. A worker that calls this between the steps of
    /// its work loses the lock when it hangs. See [`crate::Guard::extend`].
    ///
    /// # Errors
    /// As [`crate::Guard::extend`]. `ErrorKind::Misused` also if the call was made in async code.
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        thread::may_block("extend").map_err(|error| self.guard.with_key(error))?;
        wait(self.guard.extend(ttl))
    }

    /// Leaves a fixed lease in the store, so that another process can release it. See [`crate::Guard::detach`].
    ///
    /// # Errors
    /// As [`crate::Guard::detach`]. `ErrorKind::Misused` also if the call was made in async code; then the lock is released.
    pub fn detach(self) -> Result<Token> {
        thread::may_block("detach").map_err(|error| self.guard.with_key(error))?;
        wait(self.guard.detach())
    }

    /// Releases the lock and reports the result. If a thread has several guards of this lock, only the last guard
    /// releases the lock.
    ///
    /// # Errors
    /// - `ErrorKind::Lost`: the lock was lost before. Another holder may have done the same work since then.
    /// - `ErrorKind::Unavailable`: the store did not answer within one request timeout. The release continues in the
    ///   background. The lock is free after its ttl at the latest.
    /// - `ErrorKind::Closed`: the client was closed with [`super::Client::close`].
    /// - `ErrorKind::Misused`: the call was made in async code. The lock is released in the background.
    pub fn release(self) -> Result<()> {
        thread::may_block("release").map_err(|error| self.guard.with_key(error))?;
        let (clock, limit) = (self.guard.handle().clock, self.guard.handle().profile.request_timeout * 2);
        answer(self.guard.release(), limit, clock)
    }

    /// Marks this lock as lost, as if its lease had expired. This is for tests of how a program reacts to a loss. See
    /// [`crate::Guard::lose`].
    #[cfg(feature = "test-util")]
    pub fn lose(&self) {
        self.guard.lose();
    }

    pub(super) fn check_held(&self) -> Result<()> {
        self.guard.check_held()
    }
}

impl Guard {
    /// The statement that checks this lock in your own transaction. See [`crate::Guard::fence_sql`].
    ///
    /// # Errors
    /// As [`crate::Guard::fence_sql`]. `ErrorKind::Misused` also if the call was made in async code.
    pub fn fence_sql(&self) -> Result<SqlStatement> {
        thread::may_block("fence").map_err(|error| self.guard.with_key(error))?;
        wait(self.guard.fence_sql())
    }

    pub(super) fn downgrade(self) -> Result<Guard<SharedHold>> {
        thread::may_block("downgrade").map_err(|error| self.guard.with_key(error))?;
        wait(self.guard.downgrade()).map(Guard::new)
    }
}

/// The same guard, for code that treats all holders alike.
impl From<Guard> for Guard<SharedHold> {
    fn from(guard: Guard) -> Self {
        Self::new(guard.guard.into())
    }
}

#[cfg(test)]
mod tests;
