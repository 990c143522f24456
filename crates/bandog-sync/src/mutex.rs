//! The mutex: one holder at a time, across processes and machines.

use std::{pin::pin, sync::Arc, time::Duration};

use bandog_core::{Error, Key, MAX_TTL, Result, check_ttl};
use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::{
    Guard, Owner,
    caller::Caller,
    client::Handle,
    engine::{LockRequest, Msg, Patience, Terms, Ticket, TurnGrant},
    guard::Turn,
};

/// A named lock: one holder at a time, across all clients of the same store.
///
/// It is a handle: making one is cheap and does no I/O, and clones are the same lock. Without [`Mutex::lease`] the
/// watchdog renews the hold as long as its guard lives.
///
/// Waiting calls of one client are served in their order. Between clients no order is promised.
#[derive(Debug, Clone)]
pub struct Mutex {
    handle: Arc<Handle>,
    key: Result<Key>,
    terms: Result<Terms>,
    owner: Option<Owner>,
}

impl Mutex {
    pub(crate) fn new(handle: Arc<Handle>, key: Result<Key>) -> Self {
        let terms = Ok(handle.terms);
        Self { handle, key, terms, owner: None }
    }

    /// The same lock with a fixed lease: no watchdog renews it, and it is lost after `ttl` (100 ms to 365 days).
    ///
    /// A ttl out of bounds is an error of the first call that locks.
    #[must_use]
    pub fn lease(mut self, ttl: Duration) -> Self {
        let lease = check_ttl("the lease", ttl);
        self.terms = self.terms.and_then(|terms| Ok(Terms { ttl: lease?, watchdog: false, ..terms }));
        self
    }

    /// The same lock with a ttl of its own instead of the client's, renewed at a third of it (100 ms to 365 days).
    ///
    /// A ttl out of bounds is an error of the first call that locks.
    #[must_use]
    pub fn watchdog(mut self, ttl: Duration) -> Self {
        let ttl = check_ttl("the watchdog's ttl", ttl);
        self.terms = self.terms.and_then(|terms| Ok(Terms { ttl: ttl?, watchdog: true, ..terms }));
        self
    }

    /// The same lock with a maximum hold time (100 ms to 365 days): then it is lost even if it is renewed, so that a
    /// task that hangs does not keep it forever. The loss is logged. Default: no limit.
    ///
    /// The time counts from each grant; guards of one re-entry share the first one's. The store frees the lock when the
    /// guard is dropped, or after its ttl.
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        let longest = check_ttl("max_hold", time);
        self.terms = self.terms.and_then(|terms| Ok(Terms { max_hold: Some(longest?), ..terms }));
        self
    }

    /// The same lock, whose caller logs its loss, so that the engine need not.
    #[doc(hidden)]
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.terms = self.terms.map(|terms| Terms { quiet: true, ..terms });
        self
    }

    /// The same lock taken by this owner: if it holds the lock already, it gets it again at once, counted, and on the
    /// first lease's terms.
    #[must_use]
    pub fn by(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
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
        match self.acquire(Patience::Forever).await? {
            Some(guard) => Ok(guard),
            None => Err(Error::unavailable("the engine gave up a wait that has no limit")),
        }
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
        self.acquire(Patience::Once).await
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
        if wait > MAX_TTL {
            return Err(Error::misused(format!(
                "the wait is {wait:?}; at most 365 days are allowed (lock() has no limit)"
            )));
        }
        self.acquire(if wait.is_zero() { Patience::Once } else { Patience::For(wait) }).await
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
        let guard = self.lock().await?;
        let value = match select(guard.lost(), pin!(body(&guard))).await {
            Either::Left(((), _)) => {
                guard.check_held()?;
                return Err(Error::lost(guard.key()));
            }
            Either::Right((value, _)) => value,
        };
        // The lock was held to the end of the body, so the value counts even if the release fails.
        let _ = guard.release().await;
        Ok(value)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn key(&self) -> &Result<Key> {
        &self.key
    }

    async fn acquire(&self, patience: Patience) -> Result<Option<Guard>> {
        let key = self.key.as_ref().map_err(Error::clone)?;
        let terms = *self.terms.as_ref().map_err(Error::clone)?;
        let ticket = self.handle.ticket();
        if let Some(owner) = &self.owner {
            if owner.client() != self.handle.id {
                return Err(Error::misused("the owner belongs to another client").at(key));
            }
            if let Some(turn) = owner.enter(key, ticket) {
                return turn.check_held().map(|()| Some(Guard::of(turn)));
            }
        }
        let call =
            QueuedCall { handle: &self.handle, ticket, key: key.clone(), owner: self.owner.clone(), served: false };
        let span = tracing::debug_span!("bandog.lock", %key);
        call.wait(terms, patience).instrument(span).await
    }
}

/// A call in the engine's queue, registered before the first await. Its drop cancels it.
struct QueuedCall<'a> {
    handle: &'a Handle,
    ticket: Ticket,
    key: Key,
    owner: Option<Owner>,
    served: bool,
}

impl QueuedCall<'_> {
    async fn wait(mut self, terms: Terms, patience: Patience) -> Result<Option<Guard>> {
        let (reply, answer) = oneshot::channel();
        let (key, owner, caller) = (self.key.clone(), self.owner.clone(), Caller::present());
        self.handle.send(Msg::Lock(LockRequest { key, ticket: self.ticket, owner, caller, terms, patience, reply }))?;
        let answer = answer.await.map_err(|_| Error::closed().during("lock").at(&self.key))?;
        self.served = true;
        match answer? {
            Some(TurnGrant::New(turn)) => Ok(Some(Guard::of(turn))),
            Some(TurnGrant::Shared) => self.end().map(|turn| turn.check_held().map(|()| Guard::of(turn))).transpose(),
            None => Ok(None),
        }
    }

    /// Ends the call at its owner. Returns the owner's turn, if the call shares it and has not taken it.
    fn end(&self) -> Option<Arc<Turn>> {
        self.owner.as_ref().and_then(|owner| owner.call_ended(&self.key, self.ticket))
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        drop(self.end());
        if !self.served {
            // An engine that has ended has no queue.
            let _ = self.handle.send(Msg::Cancel { key: self.key.clone(), ticket: self.ticket });
        }
    }
}
