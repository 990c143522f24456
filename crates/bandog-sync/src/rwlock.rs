//! The read-write lock: many readers or one writer, across processes and machines.

use std::{ops::Deref, sync::Arc, time::Duration};

use bandog_core::{Kind, Result};

use crate::{Client, Guard, Owner, guard::SharedHold, handle::Handle, lock::Lock, lock_options::lock_options};

/// A named lock with many readers or one writer, among all clients of the same store.
///
/// This type is a handle. It is cheap to create, creating it does no I/O, and its clones are the same lock. By default
/// the client renews a held lock until its guard is dropped.
///
/// # Who waits
/// Readers of one client share one claim: while that claim is younger than 20 ms (or 16 round trips, if that is longer),
/// a further reader gets the lock without a request to the store. A writer that waits keeps new readers out, so it does
/// not starve. A reader that has waited for a second passes the waiting writers, so it does not starve either. Between
/// writers there is no guaranteed order.
///
/// # Fences
/// A writer's fence is larger than the fence of every earlier holder. Readers that share one claim have the same fence.
/// The fences of readers that hold the lock at the same time say nothing about their order.
///
/// # Upgrade
/// A read lock cannot become a write lock. Two readers that both want this would wait for each other forever. A call of
/// an owner ([`RwLock::by`]) that would do this returns `ErrorKind::Misused` at once. Without an owner, the call waits,
/// and after a second the client logs a warning. The other direction is allowed: [`WriteGuard::downgrade`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # let client = bandog::connect("memory:").await?;
/// let catalogue = client.rwlock("catalogue");
/// let (one, two) = (catalogue.read().await?, catalogue.read().await?); // Readers do not exclude each other.
/// assert!(catalogue.try_write().await?.is_none());
/// drop((one, two));
/// let guard = catalogue.write().await?;
/// guard.release().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RwLock {
    pub(crate) read: Lock,
    pub(crate) write: Lock,
}

impl Client {
    /// The read-write lock with this name. The same rules as for [`Client::mutex`] apply.
    pub fn rwlock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(Arc::clone(self.handle()), name.as_ref())
    }
}

impl RwLock {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        let read = Lock::new(Arc::clone(&handle), name, Ok(Kind::Read));
        Self { read, write: Lock::new(handle, name, Ok(Kind::Write)) }
    }

    fn map(self, change: impl Fn(Lock) -> Lock) -> Self {
        Self { read: change(self.read), write: change(self.write) }
    }

    lock_options!(lease, watchdog, max_hold, max_waiters);

    /// The same lock, but each call takes the lock for this owner. If the owner already holds the lock as a reader, a
    /// further read call returns another guard immediately. If it holds the lock as a writer, each read or write call
    /// returns another guard of the same turn, with the writer's fence. The lock is released when the last of these
    /// guards is dropped. If the owner holds the lock as a reader, a write call returns `ErrorKind::Misused`.
    #[must_use]
    pub fn by(self, owner: &Owner) -> Self {
        self.map(|lock| lock.by(owner))
    }

    /// Waits until no writer holds the lock, and takes it as a reader.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name or a time is not allowed, the owner belongs to another client, or the backend
    ///   has no read-write locks.
    /// - `ErrorKind::Denied`: the store refused the request, or the name is in use as another kind of lock.
    /// - `ErrorKind::Unavailable`: the store did not answer within 5 s, and has never answered this client. After the
    ///   store's first answer, calls wait through outages instead.
    /// - `ErrorKind::Lost`: the owner has lost this lock, but has not dropped all of its guards yet.
    /// - `ErrorKind::Overloaded`: too many calls wait ([`RwLock::max_waiters`], [`crate::ClientOptions::max_waiting`]).
    /// - `ErrorKind::Deadlock`: the call is part of a deadlock of owners ([`crate::Owner`]).
    /// - `ErrorKind::Closed`: the client was closed with [`crate::Client::close`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the call leaves the queue. If the store grants the lock after that, the lock goes to
    /// other waiting readers or is released.
    pub async fn read(&self) -> Result<Guard<SharedHold>> {
        self.read.acquire().await
    }

    /// Takes the lock as a reader if that is possible now. Returns `None` if a writer holds the lock or waits for it.
    ///
    /// # Errors
    /// As [`RwLock::read`], and `ErrorKind::Unavailable` if the store does not answer within one request timeout.
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn try_read(&self) -> Result<Option<Guard<SharedHold>>> {
        self.try_read_for(Duration::ZERO).await
    }

    /// Waits for the lock as a reader, for at most `limit`. The maximum is 365 days. If `limit` is zero, this is
    /// [`RwLock::try_read`].
    ///
    /// # Errors
    /// As [`RwLock::read`], and `ErrorKind::Unavailable` if the store gave no answer within `limit`.
    ///
    /// # Cancel safety
    /// As [`RwLock::read`].
    pub async fn try_read_for(&self, limit: Duration) -> Result<Option<Guard<SharedHold>>> {
        self.read.try_acquire_for(limit).await
    }

    /// Locks as a reader, runs the body and releases the lock. If the lock is lost, the body's future is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// # async fn count_articles() -> u32 { 3 }
    /// let articles = client.rwlock("catalogue").run_read(async |_guard| count_articles().await).await?;
    /// assert_eq!(articles, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`RwLock::read`], and `ErrorKind::Lost` if the lock was lost before the body ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, first the body is dropped, and then the lock is released.
    pub async fn run_read<T>(&self, body: impl AsyncFnOnce(&Guard<SharedHold>) -> T) -> Result<T> {
        self.read.run(body).await
    }

    /// Waits until the lock is free, and takes it as the writer. While this call waits, new readers wait, too.
    ///
    /// # Errors
    /// As [`RwLock::read`], and `ErrorKind::Misused` if the owner of this call holds the lock as a reader.
    ///
    /// # Cancel safety
    /// If the future is dropped, the call leaves the queue. If the store grants the lock after that, the lock goes to
    /// the next waiting writer or is released.
    pub async fn write(&self) -> Result<WriteGuard> {
        self.write.acquire().await.map(WriteGuard)
    }

    /// Takes the lock as the writer if it is free now. Returns `None` if it is held.
    ///
    /// # Errors
    /// As [`RwLock::write`], and `ErrorKind::Unavailable` if the store does not answer within one request timeout.
    ///
    /// # Cancel safety
    /// As [`RwLock::write`].
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        self.try_write_for(Duration::ZERO).await
    }

    /// Waits for the lock as the writer, for at most `limit`. The maximum is 365 days. If `limit` is zero, this is
    /// [`RwLock::try_write`].
    ///
    /// # Errors
    /// As [`RwLock::write`], and `ErrorKind::Unavailable` if the store gave no answer within `limit`.
    ///
    /// # Cancel safety
    /// As [`RwLock::write`].
    pub async fn try_write_for(&self, limit: Duration) -> Result<Option<WriteGuard>> {
        Ok(self.write.try_acquire_for(limit).await?.map(WriteGuard))
    }

    /// Locks as the writer, runs the body and releases the lock. If the lock is lost, the body's future is dropped.
    ///
    /// # Errors
    /// As [`RwLock::write`], and `ErrorKind::Lost` if the lock was lost before the body ended.
    ///
    /// # Cancel safety
    /// As [`RwLock::run_read`].
    pub async fn run_write<T>(&self, body: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        self.write.run(body).await
    }
}

/// The guard of a writer: a [`Guard`] that can become the guard of a reader.
#[derive(Debug)]
#[must_use = "a lock is released as soon as its guard is dropped"]
pub struct WriteGuard(pub(crate) Guard);

impl WriteGuard {
    /// Turns this write lock into a read lock. No other writer gets the lock between the two, and readers that wait can
    /// get it now. The guard of the reader has a new fence.
    ///
    /// If an owner has further guards of this lock, the lock stays a write lock until the last of them is dropped, and
    /// the call returns `ErrorKind::Misused`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// let catalogue = client.rwlock("catalogue");
    /// let reader = catalogue.write().await?.downgrade().await?;
    /// assert!(catalogue.try_write().await?.is_none());
    /// assert!(catalogue.try_read().await?.is_some());
    /// # reader.release().await }
    /// ```
    ///
    /// # Errors
    /// After an error, this guard no longer exists, and the write lock is released in the background.
    /// - `ErrorKind::Lost`: the lock was lost before it became a read lock.
    /// - `ErrorKind::Misused`: the owner has other guards of this lock.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released, as a write lock or as a read lock.
    pub async fn downgrade(self) -> Result<Guard<SharedHold>> {
        self.0.downgrade().await
    }

    /// Releases the lock and reports the result, as [`Guard::release`].
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<()> {
        self.0.release().await
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
