//! The guard of several locks.

use std::time::Duration;

use bandog_core::{Fence, Result, SqlStatement};
use futures_util::future::join_all;

use crate::{ExclusiveHold, Expiring, Guard, Lost};

/// Several held locks. They stay held until this guard is released or dropped, or until one of them is lost.
///
/// If one of the locks is lost, the others stay held until the guard is released or dropped. But the work that needs all
/// of them must stop: [`AllGuard::lost`] resolves when the first lock is lost.
///
/// The drop of a guard releases the locks in the background. [`AllGuard::release`] does the same and reports the result.
#[derive(Debug)]
#[must_use = "the locks are released as soon as their guard is dropped"]
pub struct AllGuard<S = ExclusiveHold> {
    guards: Vec<Guard<S>>,
}

impl<S> AllGuard<S> {
    pub(super) fn new(guards: Vec<Guard<S>>) -> Self {
        Self { guards }
    }

    /// The guards of the single locks, in the order in which the locks were given to [`crate::all`].
    pub fn guards(&self) -> &[Guard<S>] {
        &self.guards
    }

    /// The fencing tokens of the locks, in the order in which the locks were given to [`crate::all`].
    pub fn fences(&self) -> Vec<Fence> {
        self.guards.iter().map(Guard::fence).collect()
    }

    /// The fencing token of the lock with this index, in the order in which the locks were given to [`crate::all`].
    /// `None` if there is no lock with this index.
    pub fn fence(&self, index: usize) -> Option<Fence> {
        self.guards.get(index).map(Guard::fence)
    }

    /// Whether one of the locks is lost. Once this call has returned true, it always returns true. This call reads the
    /// clock, and does no I/O.
    pub fn is_lost(&self) -> bool {
        self.guards.iter().any(Guard::is_lost)
    }

    /// Time until the first lock is lost if no further renewal succeeds. Zero if a lock is lost.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// The shortest ttl of the locks. See [`Guard::ttl`].
    pub fn ttl(&self) -> Duration {
        self.guards.iter().map(Guard::ttl).min().unwrap_or_default()
    }

    /// Returns a future that resolves when one of the locks is lost. It has the same promises as [`Guard::lost`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// # async fn transfer(_guard: &bandog::AllGuard) -> &'static str { "done" }
    /// let guard = bandog::all(["orders", "stock"].map(|name| client.mutex(name))).lock().await?;
    /// let done = tokio::select! { biased;
    ///     () = guard.lost() => "interrupted",
    ///     done = transfer(&guard) => done,
    /// };
    /// assert_eq!(done, "done");
    /// # guard.release().await }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn lost(&self) -> Lost {
        Lost::of_any(self.guards.iter().map(Guard::lost))
    }

    /// Returns a future that resolves when only `grace` is left before the first lock is lost. See [`Guard::expiring`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub fn expiring(&self, grace: Duration) -> Expiring {
        Expiring::of_any(self.guards.iter().map(|guard| guard.expiring(grace)))
    }

    /// Extends the fixed leases of all locks. Returns the first error, in the order in which the locks were given to
    /// [`crate::all`]; the other locks are extended nevertheless. See [`Guard::extend`].
    ///
    /// # Errors
    /// As [`Guard::extend`].
    ///
    /// # Cancel safety
    /// As [`Guard::extend`].
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        join_all(self.guards.iter().map(|guard| guard.extend(ttl))).await.into_iter().collect()
    }

    /// Releases all locks. If the release of one lock fails, the others are released nevertheless. Returns the first
    /// error, in the order in which the locks were given to [`crate::all`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// If this future is dropped, all locks are released nevertheless. This is true even before the first poll.
    pub async fn release(self) -> Result<()> {
        join_all(self.guards.into_iter().map(Guard::release)).await.into_iter().collect()
    }

    /// Marks the lock with this index as lost, as if its lease had expired. Nothing happens if there is no lock with
    /// this index. This is for tests of how a program reacts to a loss. See [`Guard::lose`].
    #[cfg(feature = "test-util")]
    pub fn lose(&self, index: usize) {
        if let Some(guard) = self.guards.get(index) {
            guard.lose();
        }
    }

    pub(crate) fn check_held(&self) -> Result<()> {
        self.guards.iter().try_for_each(Guard::check_held)
    }

    pub(crate) fn into_guards(self) -> Vec<Guard<S>> {
        self.guards
    }
}

impl AllGuard {
    /// The statements that check the locks in your own transaction, in the order in which the locks were given to
    /// [`crate::all`]. See [`Guard::fence_sql`].
    ///
    /// Readers and permits have no such statement, so the guard of a list with one of them has not this method:
    ///
    /// ```compile_fail,E0599
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// let guard = bandog::all([client.semaphore("gpu", 5)]).lock().await?;
    /// let statements = guard.fence_sql().await; // does not compile
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Guard::fence_sql`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn fence_sql(&self) -> Result<Vec<SqlStatement>> {
        join_all(self.guards.iter().map(Guard::fence_sql)).await.into_iter().collect()
    }
}
