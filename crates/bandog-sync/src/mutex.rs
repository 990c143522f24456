//! The mutex: a lock with one holder at a time, across processes and machines.

use std::{sync::Arc, time::Duration};

use bandog_core::{Kind, Result};

use crate::{Client, Guard, Owner, handle::Handle, lock::Lock, lock_options::lock_options};

/// A named lock with one holder at a time, among all clients of the same store.
///
/// This type is a handle. It is cheap to create, creating it does no I/O, and its clones are the same lock.
///
/// By default the client renews a held lock until its guard is dropped (the *watchdog*). [`Mutex::lease`] turns that
/// off.
///
/// Waiting calls of one client get the lock in the order in which they were made. Between clients there is no
/// guaranteed order. [`Mutex::fair`] makes a mutex with a guaranteed order.
#[derive(Debug, Clone)]
pub struct Mutex {
    pub(crate) lock: Lock,
}

impl Client {
    /// The lock with this name. The name must have 1 to 1024 bytes, and no control characters. If the name is not
    /// allowed, each call that locks returns `ErrorKind::Misused`. This call is cheap and does no I/O.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(Arc::clone(self.handle()), name.as_ref())
    }
}

impl Mutex {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        Self { lock: Lock::new(handle, name, Ok(Kind::Mutex)) }
    }

    fn map(self, change: impl Fn(Lock) -> Lock) -> Self {
        Self { lock: change(self.lock) }
    }

    lock_options!(lease, watchdog, max_hold, max_waiters);

    /// The same name as a fair mutex: all waiting calls, of all clients, get the lock in the order in which they began
    /// to wait at the store.
    ///
    /// The store keeps a queue of the waiting calls. Each turn needs a request to the store, so a fair mutex is slower
    /// than the default. A call whose client dies keeps its place in the queue for at most 5 s. [`Mutex::try_lock`]
    /// respects the queue, but does not wait in it: it returns `None` while another call waits.
    ///
    /// All clients should use a name in the same way. A fair mutex and an ordinary mutex of the same name exclude each
    /// other, but calls of the ordinary mutex do not respect the queue.
    ///
    /// If the backend has no fair mutexes, each call that locks returns `ErrorKind::Misused`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// let orders = client.mutex("orders").fair();
    /// let guard = orders.lock().await?;
    /// guard.release().await
    /// # }
    /// ```
    #[must_use]
    pub fn fair(self) -> Self {
        self.map(|lock| lock.of_kind(|_| Ok(Kind::Fair)))
    }

    /// The same lock, for a caller that logs a loss itself. So the client logs the loss only at debug level.
    #[doc(hidden)]
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { lock: self.lock.quiet() }
    }

    /// The same lock, but each call takes the lock for this owner. If the owner already holds the lock, a call returns
    /// another guard immediately. The lock is released when the last of these guards is dropped. The ttl and the other
    /// terms of the first call apply.
    #[must_use]
    pub fn by(self, owner: &Owner) -> Self {
        Self { lock: self.lock.by(owner) }
    }

    /// Waits until the lock is free, and takes it.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name or a time is not allowed, or the owner belongs to another client.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unavailable`: the store did not answer within 5 s, and has never answered this client. After the
    ///   store's first answer, calls wait through outages instead.
    /// - `ErrorKind::Lost`: the owner has lost this lock, but has not dropped all of its guards yet.
    /// - `ErrorKind::Overloaded`: too many calls wait ([`Mutex::max_waiters`], [`crate::ClientOptions::max_waiting`]).
    /// - `ErrorKind::Deadlock`: the call is part of a deadlock of owners ([`crate::Owner`]).
    /// - `ErrorKind::Closed`: the client was closed with [`crate::Client::close`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the call leaves the queue. If the store grants the lock after that, the lock goes to
    /// the next waiting call or is released.
    pub async fn lock(&self) -> Result<Guard> {
        self.lock.acquire().await
    }

    /// Takes the lock if it is free now. Returns `None` if it is held.
    ///
    /// This call also returns `None` while the lock is reserved for clients that have waited for a second or more. Such
    /// a reservation lasts for at most 250 ms. A client that calls `try_lock` repeatedly does not count as waiting, so beside
    /// busy clients it may get the lock late or never; [`Mutex::lock`] and [`Mutex::try_lock_for`] wait.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `ErrorKind::Unavailable` if the store does not answer within one request timeout.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        self.lock.try_acquire_for(Duration::ZERO).await
    }

    /// Waits for the lock, for at most `limit`. The maximum is 365 days. If `limit` is zero, this is [`Mutex::try_lock`].
    ///
    /// Returns `None` if the lock was held. If the store gave no answer, the call returns an error instead.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `ErrorKind::Unavailable` if the store gave no answer within `limit`.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_lock_for(&self, limit: Duration) -> Result<Option<Guard>> {
        self.lock.try_acquire_for(limit).await
    }

    /// Locks, runs the body and releases the lock. If the lock is lost, the body's future is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// let swept = client.mutex("orders").run(async |guard| guard.fence().get() + 1).await?;
    /// assert!(swept > 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `ErrorKind::Lost` if the lock was lost before the body ended. If the body ended before
    /// the loss, the call returns the value of the body.
    ///
    /// # Cancel safety
    /// If the future is dropped, first the body is dropped, and then the lock is released.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        self.lock.run(body).await
    }
}
