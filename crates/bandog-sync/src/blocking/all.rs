//! Several locks at once, for code without async.

use std::time::Duration;

use bandog_core::{Fence, Result, SqlStatement};
use futures_util::future::join_all;

use super::{
    Expiring, Guard, Lost, Mutex, RwLock, Semaphore,
    lock::by_this_thread,
    thread,
    wait::{answer, wait},
};
use crate::{ExclusiveHold, IntoAnyLock, SharedHold, all::any_lock, lock::Lock};

/// Several locks that a thread takes together: all of them or none. See [`crate::all`].
///
/// ```
/// # fn main() -> bandog::Result<()> {
/// let client = bandog::blocking::connect("memory:")?;
/// let (from, to) = (client.mutex("account-7"), client.mutex("account-3"));
/// let guard = bandog::blocking::all([from, to]).lock()?;
/// assert_eq!(guard.fences().len(), 2);
/// guard.release()
/// # }
/// ```
pub fn all<S>(locks: impl IntoIterator<Item = impl IntoAnyLock<AnyLock = AnyLock<S>>>) -> All<S> {
    All { all: crate::All::of(locks.into_iter().map(|lock| lock.into_any_lock().0.lock).collect()) }
}

/// A lock of any kind, for [`all`]. See [`crate::AnyLock`].
#[derive(Debug, Clone)]
pub struct AnyLock<S = SharedHold>(crate::AnyLock<S>);

impl<S> AnyLock<S> {
    fn of(lock: Lock) -> Self {
        Self(crate::AnyLock::of(lock))
    }
}

impl AnyLock {
    /// A read-write lock that is taken as a reader.
    pub fn read(lock: &RwLock) -> Self {
        Self::of(lock.read.clone())
    }
}

impl AnyLock<ExclusiveHold> {
    /// A read-write lock that is taken as a writer. The guard of such a lock cannot be downgraded.
    pub fn write(lock: &RwLock) -> Self {
        Self::of(lock.write.clone())
    }
}

impl<S> IntoAnyLock for AnyLock<S> {
    type AnyLock = Self;

    fn into_any_lock(self) -> Self {
        self
    }
}

any_lock!(Mutex, mutex => mutex.lock, ExclusiveHold, SharedHold);
any_lock!(Semaphore, semaphore => semaphore.semaphore.lock, SharedHold);

impl From<AnyLock<ExclusiveHold>> for AnyLock {
    fn from(lock: AnyLock<ExclusiveHold>) -> Self {
        Self(lock.0.into())
    }
}

/// Several locks that a thread takes together. Created by [`all`].
///
/// If the thread already holds some of the locks, it gets other guards of these locks immediately.
#[derive(Debug, Clone)]
pub struct All<S = ExclusiveHold> {
    all: crate::All<S>,
}

impl<S> All<S> {
    /// Waits until no other thread holds any of the locks, and takes them.
    ///
    /// # Errors
    /// As [`Mutex::lock`], for the first lock that cannot be taken. `ErrorKind::Misused` also if there is no lock, or if
    /// the same lock is given twice.
    pub fn lock(&self) -> Result<AllGuard<S>> {
        wait(self.by_this_thread()?.lock()).map(AllGuard::new)
    }

    /// Takes all locks if no other thread holds any of them now. Otherwise returns `None`, and takes none of them.
    ///
    /// # Errors
    /// As [`All::lock`], and `ErrorKind::Unavailable` if a store does not answer within one request timeout.
    pub fn try_lock(&self) -> Result<Option<AllGuard<S>>> {
        self.try_lock_for(Duration::ZERO)
    }

    /// Waits for the locks, for at most `limit` in total. The maximum is 365 days. If `limit` is zero, this is
    /// [`All::try_lock`]. See [`crate::All::try_lock_for`].
    ///
    /// # Errors
    /// As [`All::lock`], and `ErrorKind::Unavailable` if a store gave no answer within `limit`.
    pub fn try_lock_for(&self, limit: Duration) -> Result<Option<AllGuard<S>>> {
        let all = self.by_this_thread()?;
        let (locks, handle) = all.size()?;
        // The engines end the call earlier than this: only the calls without a wait can take a request timeout each.
        let engine_limit = limit
            .saturating_add(handle.profile.request_timeout.saturating_mul(u32::try_from(locks).unwrap_or(u32::MAX)));
        let guard = answer(all.try_lock_for(limit), engine_limit, handle.clock)?;
        Ok(guard.map(AllGuard::new))
    }

    /// Takes all locks, runs the body and releases the locks, also if the body panics. A loss does not stop the body.
    ///
    /// # Errors
    /// As [`All::lock`], and `ErrorKind::Lost` if one of the locks was lost before the body ended.
    pub fn run<T>(&self, body: impl FnOnce(&AllGuard<S>) -> T) -> Result<T> {
        let guard = self.lock()?;
        let value = body(&guard);
        guard.guards.iter().try_for_each(Guard::check_held)?;
        // The locks were held until the body ended, so the value is valid even if a release fails.
        let _ = guard.release();
        Ok(value)
    }

    /// The same locks, with the calling thread as their owner.
    fn by_this_thread(&self) -> Result<crate::All<S>> {
        self.all.map(by_this_thread)
    }
}

/// Several locks that this thread holds. They stay held until this guard is released or dropped, or until one of them is
/// lost. A guard cannot be sent to another thread. See [`crate::AllGuard`].
#[derive(Debug)]
#[must_use = "the locks are released as soon as their guard is dropped"]
pub struct AllGuard<S = ExclusiveHold> {
    guards: Vec<Guard<S>>,
}

impl<S> AllGuard<S> {
    fn new(guard: crate::AllGuard<S>) -> Self {
        Self { guards: guard.into_guards().into_iter().map(Guard::new).collect() }
    }

    /// The guards of the single locks, in the order in which the locks were given to [`all`].
    pub fn guards(&self) -> &[Guard<S>] {
        &self.guards
    }

    /// The fencing tokens of the locks, in the order in which the locks were given to [`all`].
    pub fn fences(&self) -> Vec<Fence> {
        self.guards.iter().map(Guard::fence).collect()
    }

    /// The fencing token of the lock with this index, in the order in which the locks were given to [`all`]. `None` if
    /// there is no lock with this index.
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

    /// The shortest ttl of the locks. See [`crate::AllGuard::ttl`].
    pub fn ttl(&self) -> Duration {
        self.guards.iter().map(Guard::ttl).min().unwrap_or_default()
    }

    /// A handle with which another thread can wait until one of the locks is lost, or until all are released.
    pub fn lost(&self) -> Lost {
        Lost::of_any(self.guards.iter().map(|guard| &guard.guard))
    }

    /// A handle with which another thread can wait until only `grace` is left before the first lock is lost. See
    /// [`crate::AllGuard::expiring`].
    pub fn expiring(&self, grace: Duration) -> Expiring {
        Expiring::of_any(self.guards.iter().map(|guard| &guard.guard), grace)
    }

    /// Extends the fixed leases of all locks. See [`crate::AllGuard::extend`].
    ///
    /// # Errors
    /// As [`super::Guard::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        thread::may_block("extend")?;
        wait(join_all(self.guards.iter().map(|guard| guard.guard.extend(ttl)))).into_iter().collect()
    }

    /// Releases all locks. If the release of one lock fails, the others are released nevertheless. Returns the first
    /// error, in the order in which the locks were given to [`all`].
    ///
    /// # Errors
    /// As [`super::Guard::release`].
    pub fn release(self) -> Result<()> {
        thread::may_block("release")?;
        let handles = self.guards.iter().map(|guard| guard.guard.handle());
        let Some((limit, clock)) =
            handles.map(|handle| (handle.profile.request_timeout * 2, handle.clock)).max_by_key(|limit| limit.0)
        else {
            return Ok(());
        };
        let released = join_all(self.guards.into_iter().map(|guard| guard.guard.release()));
        answer(async { released.await.into_iter().collect() }, limit, clock)
    }

    /// Marks the lock with this index as lost, for tests. See [`crate::AllGuard::lose`].
    #[cfg(feature = "test-util")]
    pub fn lose(&self, index: usize) {
        if let Some(guard) = self.guards.get(index) {
            guard.lose();
        }
    }
}

impl AllGuard {
    /// The statements that check the locks in your own transaction, in the order in which the locks were given to
    /// [`all`]. See [`crate::AllGuard::fence_sql`].
    ///
    /// # Errors
    /// As [`super::Guard::fence_sql`].
    pub fn fence_sql(&self) -> Result<Vec<SqlStatement>> {
        thread::may_block("fence")?;
        wait(join_all(self.guards.iter().map(|guard| guard.guard.fence_sql()))).into_iter().collect()
    }
}
