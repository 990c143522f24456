//! The semaphore: a limited number of permits, across processes and machines.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bandog_core::{Error, Kind, Result};

use crate::{Client, Guard, guard::SharedHold, handle::Handle, lock::Lock, lock_options::lock_options};

/// A named number of permits, among all clients of the same store. A call takes one permit, or another number of permits
/// ([`Semaphore::permits`]), and gets all of them or none.
///
/// This type is a handle. It is cheap to create, creating it does no I/O, and its clones are the same semaphore. By
/// default the client renews the permits of a guard until the guard is dropped. If the client dies, its permits are free
/// again after their ttl.
///
/// Waiting calls of one client are served in the order in which they were made. Between clients there is no guaranteed
/// order, but a call that has waited for a second is served before new calls. So a call for many permits does not wait
/// forever while other clients take one permit each.
///
/// A task or thread that has permits can take further permits; there is no re-entry. The fences of guards that exist at
/// the same time say nothing about their order.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # let client = bandog::connect("memory:").await?;
/// let gpus = client.semaphore("gpu", 3);
/// let one = gpus.acquire().await?;
/// let two = gpus.clone().permits(2).acquire().await?;
/// assert!(gpus.try_acquire().await?.is_none());
/// # drop(one);
/// two.release().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Semaphore {
    pub(crate) lock: Lock,
}

impl Client {
    /// The semaphore with this name and this number of permits. All clients must name the same number: a call with
    /// another number than the store's returns `ErrorKind::Misused`. The same rules as for [`Client::mutex`] apply.
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Semaphore {
        Semaphore::new(Arc::clone(self.handle()), name.as_ref(), limit)
    }
}

impl Semaphore {
    pub(crate) fn new(handle: Arc<Handle>, name: &str, limit: u32) -> Self {
        Self { lock: Lock::new(handle, name, kind(1, limit)) }
    }

    pub(crate) fn map(self, change: impl Fn(Lock) -> Lock) -> Self {
        Self { lock: change(self.lock) }
    }

    lock_options!(lease, watchdog, max_hold, max_waiters);

    /// The same semaphore, but each call takes this number of permits, all or none. Default: 1.
    ///
    /// If the number is 0 or greater than the limit, each call that takes permits returns `ErrorKind::Misused`.
    #[must_use]
    pub fn permits(self, number: u32) -> Self {
        self.map(|lock| {
            lock.of_kind(|present| match present {
                Kind::Permits { of, .. } => kind(number, of.get()),
                Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => Ok(present),
            })
        })
    }

    /// Waits until enough permits are free, and takes them.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name, a time or the number of permits is not allowed, the store has another limit for
    ///   this semaphore (the message names both), or the backend has no semaphores.
    /// - `ErrorKind::Denied`: the store refused the request, or the name is in use as another kind of lock.
    /// - `ErrorKind::Unavailable`: the store did not answer within 5 s, and has never answered this client. After the
    ///   store's first answer, calls wait through outages instead.
    /// - `ErrorKind::Overloaded`: too many calls wait ([`Semaphore::max_waiters`], [`crate::ClientOptions::max_waiting`]).
    /// - `ErrorKind::Closed`: the client was closed with [`crate::Client::close`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the call leaves the queue. If the store grants the permits after that, they go to the
    /// next waiting call or are released.
    pub async fn acquire(&self) -> Result<Guard<SharedHold>> {
        self.lock.acquire().await
    }

    /// Takes the permits if they are free now. Returns `None` if they are not, or if another call has waited for a
    /// second or more.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`], and `ErrorKind::Unavailable` if the store does not answer within one request timeout.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard<SharedHold>>> {
        self.lock.try_acquire_for(Duration::ZERO).await
    }

    /// Waits for the permits, for at most `limit`. The maximum is 365 days. If `limit` is zero, this is
    /// [`Semaphore::try_acquire`].
    ///
    /// # Errors
    /// As [`Semaphore::acquire`], and `ErrorKind::Unavailable` if the store gave no answer within `limit`.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn try_acquire_for(&self, limit: Duration) -> Result<Option<Guard<SharedHold>>> {
        self.lock.try_acquire_for(limit).await
    }

    /// Takes the permits, runs the body and releases the permits. If they are lost, the body's future is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// # async fn render() -> u32 { 24 }
    /// let frames = client.semaphore("gpu", 3).run(async |_guard| render().await).await?;
    /// assert_eq!(frames, 24);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Semaphore::acquire`], and `ErrorKind::Lost` if the permits were lost before the body ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, first the body is dropped, and then the permits are released.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&Guard<SharedHold>) -> T) -> Result<T> {
        self.lock.run(body).await
    }

    /// Changes the limit: the number of permits that the store has for this semaphore. Returns the limit before, or None
    /// if the semaphore is new. If the new limit is smaller than the number of permits in use, no permits are granted until
    /// enough of them are released.
    ///
    /// Handles name the limit with which they were made. The store accepts the new limit and the limit before the last
    /// change, so clients can change to the new limit one after another. A client with the old limit never takes more
    /// permits than the old limit.
    ///
    /// With Redis, a number that is not known to be a latch is taken for a semaphore, because a semaphore of Redisson is
    /// only a number. So a wrong name can change the number of another program.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the limit is 0, the name or an option of this handle is not allowed, or the backend has
    ///   no semaphores.
    /// - `ErrorKind::Denied`: the store refused the request, or the name is in use as another kind of lock.
    /// - `ErrorKind::Unavailable`: the store did not answer.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the limit may or may not be changed.
    pub async fn set_limit(&self, limit: u32) -> Result<Option<u32>> {
        self.lock.check()?;
        let limit =
            NonZeroU32::new(limit).ok_or_else(|| Error::misused("a semaphore must have at least one permit"))?;
        let key = self.lock.key()?.clone();
        self.lock.handle().query(move |backend| Box::pin(async move { backend.set_limit(&key, limit).await })).await
    }
}

fn kind(take: u32, of: u32) -> Result<Kind> {
    let (Some(take), Some(of)) = (NonZeroU32::new(take), NonZeroU32::new(of)) else {
        return Err(Error::misused(format!("a claim for {take} of {of} permits; both numbers must be at least 1")));
    };
    if take > of {
        return Err(Error::misused(format!("the semaphore has {of} permits, so a claim cannot take {take}")));
    }
    Ok(Kind::Permits { take, of })
}
