//! Several locks at once, for code without async.

use std::{marker::PhantomData, sync::MutexGuard, time::Duration};

use bandog_core::{Fence, Result, SqlStatement};

use super::{
    Expiring, Lost, Mutex, RwLock, Semaphore,
    lock::by_this_thread,
    thread,
    wait::{answer, wait},
};
use crate::lock::Lock;

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
pub fn all(locks: impl IntoIterator<Item = impl Into<AnyLock>>) -> All {
    All { all: crate::All::of(locks.into_iter().map(|lock| lock.into().0).collect()) }
}

/// A lock of any kind, for [`all`].
#[derive(Debug, Clone)]
pub struct AnyLock(Lock);

impl From<Mutex> for AnyLock {
    fn from(mutex: Mutex) -> Self {
        Self(mutex.lock)
    }
}

impl From<&Mutex> for AnyLock {
    fn from(mutex: &Mutex) -> Self {
        Self(mutex.lock.clone())
    }
}

impl From<Semaphore> for AnyLock {
    fn from(semaphore: Semaphore) -> Self {
        Self(semaphore.semaphore.lock)
    }
}

impl From<&Semaphore> for AnyLock {
    fn from(semaphore: &Semaphore) -> Self {
        Self(semaphore.semaphore.lock.clone())
    }
}

impl AnyLock {
    /// A read-write lock that is taken as a reader.
    pub fn read(lock: &RwLock) -> Self {
        Self(lock.read.clone())
    }

    /// A read-write lock that is taken as a writer. The guard of such a lock cannot be downgraded.
    pub fn write(lock: &RwLock) -> Self {
        Self(lock.write.clone())
    }
}

/// Several locks that a thread takes together. Created by [`all`].
///
/// If the thread already holds some of the locks, it gets other guards of these locks immediately.
#[derive(Debug, Clone)]
pub struct All {
    all: crate::All,
}

impl All {
    /// Waits until no other thread holds any of the locks, and takes them.
    ///
    /// # Errors
    /// As [`Mutex::lock`], for the first lock that cannot be taken. `ErrorKind::Misused` also if there is no lock, or if
    /// the same lock is given twice.
    pub fn lock(&self) -> Result<AllGuard> {
        wait(self.by_this_thread()?.lock()).map(AllGuard::new)
    }

    /// Takes all locks if no other thread holds any of them now. Otherwise returns `None`, and takes none of them.
    ///
    /// # Errors
    /// As [`All::lock`], and `ErrorKind::Unavailable` if a store does not answer within one request timeout.
    pub fn try_lock(&self) -> Result<Option<AllGuard>> {
        self.try_lock_for(Duration::ZERO)
    }

    /// Waits for the locks, for at most `limit` in total. The maximum is 365 days. If `limit` is zero, this is
    /// [`All::try_lock`]. See [`crate::All::try_lock_for`].
    ///
    /// # Errors
    /// As [`All::lock`], and `ErrorKind::Unavailable` if a store gave no answer within `limit`.
    pub fn try_lock_for(&self, limit: Duration) -> Result<Option<AllGuard>> {
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
    pub fn run<T>(&self, body: impl FnOnce(&AllGuard) -> T) -> Result<T> {
        let guard = self.lock()?;
        let value = body(&guard);
        guard.guard.check_held()?;
        // The locks were held until the body ended, so the value is valid even if a release fails.
        let _ = guard.release();
        Ok(value)
    }

    /// The same locks, with the calling thread as their owner.
    fn by_this_thread(&self) -> Result<crate::All> {
        self.all.map(by_this_thread)
    }
}

/// Several locks that this thread holds. They stay held until this guard is released or dropped, or until one of them is
/// lost. A guard cannot be sent to another thread. See [`crate::AllGuard`].
#[derive(Debug)]
#[must_use = "the locks are released as soon as their guard is dropped"]
pub struct AllGuard {
    guard: crate::AllGuard,
    /// Makes this type `Sync` but not `Send`, like a `MutexGuard`.
    not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl AllGuard {
    fn new(guard: crate::AllGuard) -> Self {
        Self { guard, not_send: PhantomData }
    }

    /// The fencing tokens of the locks, in the order in which the locks were given to [`all`].
    pub fn fences(&self) -> Vec<Fence> {
        self.guard.fences()
    }

    /// The fencing token of the lock with this index, in the order in which the locks were given to [`all`]. `None` if
    /// there is no lock with this index.
    pub fn fence(&self, index: usize) -> Option<Fence> {
        self.guard.fence(index)
    }

    /// Whether one of the locks is lost. Once this call has returned true, it always returns true. This call reads the
    /// clock, and does no I/O.
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Time until the first lock is lost if no further renewal succeeds. Zero if a lock is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// The shortest ttl of the locks. See [`crate::AllGuard::ttl`].
    pub fn ttl(&self) -> Duration {
        self.guard.ttl()
    }

    /// A handle with which another thread can wait until one of the locks is lost, or until all are released.
    pub fn lost(&self) -> Lost {
        Lost::of_any(self.guard.guards())
    }

    /// A handle with which another thread can wait until only `grace` is left before the first lock is lost. See
    /// [`crate::AllGuard::expiring`].
    pub fn expiring(&self, grace: Duration) -> Expiring {
        Expiring::of_any(self.guard.guards(), grace)
    }

    /// The statements that check the locks in your own transaction, in the order in which the locks were given to
    /// [`all`]. See [`crate::Guard::fence_sql`].
    ///
    /// # Errors
    /// As [`super::Guard::fence_sql`]. `ErrorKind::Misused` also if one of the locks is a reader's or a semaphore.
    pub fn fence_sql(&self) -> Result<Vec<SqlStatement>> {
        thread::may_block("fence")?;
        wait(self.guard.fence_sql())
    }

    /// Extends the fixed leases of all locks. See [`crate::AllGuard::extend`].
    ///
    /// # Errors
    /// As [`super::Guard::extend`].
    pub fn extend(&self, ttl: Duration) -> Result<()> {
        thread::may_block("extend")?;
        wait(self.guard.extend(ttl))
    }

    /// Releases all locks. If the release of one lock fails, the others are released nevertheless. Returns the first
    /// error, in the order in which the locks were given to [`all`].
    ///
    /// # Errors
    /// As [`super::Guard::release`].
    pub fn release(self) -> Result<()> {
        thread::may_block("release")?;
        let handles = self.guard.guards().iter().map(crate::Guard::handle);
        let Some((limit, clock)) =
            handles.map(|handle| (handle.profile.request_timeout * 2, handle.clock)).max_by_key(|limit| limit.0)
        else {
            return Ok(());
        };
        answer(self.guard.release(), limit, clock)
    }

    /// Marks the lock with this index as lost, for tests. See [`crate::AllGuard::lose`].
    #[cfg(feature = "test-util")]
    pub fn lose(&self, index: usize) {
        self.guard.lose(index);
    }
}
