//! The read-write lock for code without async.

use std::{ops::Deref, time::Duration};

use bandog_core::Result;

use super::{Guard, lock};
use crate::{Owner, SharedHold, lock::Lock, lock_options::lock_options};

/// A named lock with many readers or one writer, among all processes that share the store. See [`crate::RwLock`].
///
/// The lock is re-entrant: a thread that holds the lock as a reader can read again, and a thread that holds it as the
/// writer can read and write again. A thread that holds the lock as a reader cannot write: the call returns
/// `ErrorKind::Misused`.
///
/// ```
/// # fn main() -> bandog::Result<()> {
/// # let client = bandog::blocking::connect("memory:")?;
/// let catalogue = client.rwlock("catalogue");
/// let guard = catalogue.read()?;
/// assert!(catalogue.try_write().is_err()); // This thread would wait for itself.
/// guard.release()?;
/// catalogue.write()?.release()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RwLock {
    pub(super) read: Lock,
    pub(super) write: Lock,
}

impl RwLock {
    pub(super) fn new(lock: crate::RwLock) -> Self {
        Self { read: lock.read, write: lock.write }
    }

    fn map(self, change: impl Fn(Lock) -> Lock) -> Self {
        Self { read: change(self.read), write: change(self.write) }
    }

    lock_options!(lease, watchdog, max_hold, max_waiters);

    /// The same lock, but each call takes the lock for this owner instead of the calling thread. See [`crate::RwLock::by`].
    #[must_use]
    pub fn by(self, owner: &Owner) -> Self {
        self.map(|lock| lock.by(owner))
    }

    /// Waits until no writer holds the lock, and takes it as a reader.
    ///
    /// # Errors
    /// As [`crate::RwLock::read`], and `ErrorKind::Misused` in async code.
    pub fn read(&self) -> Result<Guard<SharedHold>> {
        lock::acquire(&self.read)
    }

    /// Takes the lock as a reader if that is possible now. Otherwise returns `None`.
    ///
    /// # Errors
    /// As [`crate::RwLock::try_read`], and `ErrorKind::Misused` in async code.
    pub fn try_read(&self) -> Result<Option<Guard<SharedHold>>> {
        self.try_read_for(Duration::ZERO)
    }

    /// Waits for the lock as a reader, for at most `limit`. The maximum is 365 days.
    ///
    /// # Errors
    /// As [`crate::RwLock::try_read_for`], and `ErrorKind::Misused` in async code.
    pub fn try_read_for(&self, limit: Duration) -> Result<Option<Guard<SharedHold>>> {
        lock::try_acquire_for(&self.read, limit)
    }

    /// Locks as a reader, runs the body and releases the lock, also if the body panics. A loss does not stop the body.
    ///
    /// # Errors
    /// As [`RwLock::read`], and `ErrorKind::Lost` if the lock was lost before the body ended.
    pub fn run_read<T>(&self, body: impl FnOnce(&Guard<SharedHold>) -> T) -> Result<T> {
        lock::run(&self.read, body)
    }

    /// Waits until no other thread holds the lock, and takes it as the writer.
    ///
    /// # Errors
    /// As [`crate::RwLock::write`], and `ErrorKind::Misused` in async code.
    pub fn write(&self) -> Result<WriteGuard> {
        lock::acquire(&self.write).map(WriteGuard)
    }

    /// Takes the lock as the writer if no other thread holds it now. Otherwise returns `None`.
    ///
    /// # Errors
    /// As [`crate::RwLock::try_write`], and `ErrorKind::Misused` in async code.
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        self.try_write_for(Duration::ZERO)
    }

    /// Waits for the lock as the writer, for at most `limit`. The maximum is 365 days.
    ///
    /// # Errors
    /// As [`crate::RwLock::try_write_for`], and `ErrorKind::Misused` in async code.
    pub fn try_write_for(&self, limit: Duration) -> Result<Option<WriteGuard>> {
        Ok(lock::try_acquire_for(&self.write, limit)?.map(WriteGuard))
    }

    /// Locks as the writer, runs the body and releases the lock, also if the body panics. A loss does not stop the body.
    ///
    /// # Errors
    /// As [`RwLock::write`], and `ErrorKind::Lost` if the lock was lost before the body ended.
    pub fn run_write<T>(&self, body: impl FnOnce(&Guard) -> T) -> Result<T> {
        lock::run(&self.write, body)
    }
}

/// The guard of a writer: a [`Guard`] that can become the guard of a reader.
#[derive(Debug)]
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    /// Turns this write lock into a read lock. No other writer gets the lock between the two. See
    /// [`crate::WriteGuard::downgrade`].
    ///
    /// # Errors
    /// As [`crate::WriteGuard::downgrade`], and `ErrorKind::Misused` in async code.
    pub fn downgrade(self) -> Result<Guard<SharedHold>> {
        self.0.downgrade()
    }

    /// Releases the lock and reports the result, as [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub fn release(self) -> Result<()> {
        self.0.release()
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// The same guard, without the downgrade.
impl From<WriteGuard> for Guard {
    fn from(guard: WriteGuard) -> Self {
        guard.0
    }
}

/// The same guard, for code that treats readers and writers alike.
impl From<WriteGuard> for Guard<SharedHold> {
    fn from(guard: WriteGuard) -> Self {
        guard.0.into()
    }
}
