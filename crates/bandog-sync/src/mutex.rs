//! The mutex: one holder at a time, across processes and machines.

use std::{sync::Arc, time::Duration};

use bandog_core::{Kind, Result};

use crate::{Guard, Owner, handle::Handle, lock::Lock};

/// A named lock: one holder at a time, across all clients of the same store.
///
/// It is a handle: making one is cheap and does no I/O, and clones are the same lock. Without [`Mutex::lease`] the
/// watchdog renews the hold as long as its guard lives.
///
/// Waiting calls of one client are served in their order. Between clients no order is promised.
#[derive(Debug, Clone)]
pub struct Mutex {
    pub(crate) lock: Lock,
}

impl Mutex {
    pub(crate) fn new(handle: Arc<Handle>, name: &str) -> Self {
        Self { lock: Lock::new(handle, name, Kind::Mutex) }
    }

    /// The same lock with a fixed lease: no watchdog renews it, and it is lost after `ttl` (100 ms to 365 days).
    ///
    /// A ttl out of bounds is an error of the first call that locks.
    #[must_use]
    pub fn lease(self, ttl: Duration) -> Self {
        Self { lock: self.lock.lease(ttl) }
    }

    /// The same lock with a ttl of its own instead of the client's, renewed at a third of it (100 ms to 365 days).
    ///
    /// A ttl out of bounds is an error of the first call that locks.
    #[must_use]
    pub fn watchdog(self, ttl: Duration) -> Self {
        Self { lock: self.lock.watchdog(ttl) }
    }

    /// The same lock with a maximum hold time (100 ms to 365 days): then it is lost even if it is renewed, so that a
    /// task that hangs does not keep it forever. The loss is logged. Default: no limit.
    ///
    /// The time counts from each grant; guards of one re-entry share the first one's. The store frees the lock when the
    /// guard is dropped, or after its ttl.
    #[must_use]
    pub fn max_hold(self, time: Duration) -> Self {
        Self { lock: self.lock.max_hold(time) }
    }

    /// The same lock, whose caller logs its loss, so that the engine need not.
    #[doc(hidden)]
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { lock: self.lock.quiet() }
    }

    /// The same lock taken by this owner: if it holds the lock already, it gets it again at once, counted, and on the
    /// first lease's terms.
    #[must_use]
    pub fn by(self, owner: &Owner) -> Self {
        Self { lock: self.lock.by(owner) }
    }

    /// Waits until no other holder has the lock, and takes it.
    ///
    /// # Errors
    /// `Misused` for a bad name or lease. `Denied` when the store refuses. `Unavailable` when the store has not
    /// answered this client at all for 5 s; after a first answer the call waits through outages. `Lost` for an owner
    /// whose earlier guards are lost and not dropped yet. `Overloaded` when too many calls of this client wait
    /// ([`crate::ClientOptions::max_waiting`]). `Closed` after [`crate::Client::close`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue. A lock that the store grants after that is released.
    pub async fn lock(&self) -> Result<Guard> {
        self.lock.acquire().await
    }

    /// Takes the lock if no client holds it now.
    ///
    /// `None` also while the lock is offered to a client that has waited for a second or more: for 250 ms at most.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `Unavailable` when the store does not answer within one request timeout.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        self.lock.try_acquire_for(Duration::ZERO).await
    }

    /// Waits for the lock, for at most this time (365 days at most). With zero it is [`Mutex::try_lock`].
    ///
    /// `None` means that the store reported another holder. A store that gave no answer is an error.
    ///
    /// # Errors
    /// As [`Mutex::lock`], and `Unavailable` when the store gave no answer in this time.
    ///
    /// # Cancel safety
    /// As [`Mutex::lock`].
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<Guard>> {
        self.lock.try_acquire_for(wait).await
    }

    /// Locks, runs the body and releases the lock. When the lock is lost, the body is dropped where it stands.
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
    /// As [`Mutex::lock`]; `Lost` when the lock was lost before the body had finished. A body that had finished
    /// before gives its value.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, then releases the lock.
    pub async fn run<T>(&self, body: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        self.lock.run(body).await
    }
}
