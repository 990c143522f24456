//! The common part of all kinds of locks: a name, terms and an owner. `Mutex`, `RwLock`, `Semaphore` and their blocking
//! twins pass their calls on to this type. A *turn* begins when a call gets the lock, and ends when the last guard of
//! the turn is dropped.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bandog_core::{Error, Key, Kind, Result, check_ttl, rounded};
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::{
    Guard, Owner,
    caller::Caller,
    engine::{Call, Msg, TurnGrant, Wait},
    handle::Handle,
    lane::{Lane, OwnedAs, SlotId},
    pause::{check_limit, pause},
    retry::Retries,
    terms::{Patience, Terms, Ticket},
    turn::Turn,
};

/// A lock of any kind. A value of this type is cheap to create, and its clones are the same lock. If the name, the
/// kind, or one of the terms (such as the ttl) is not allowed, each call that locks returns an error.
#[derive(Debug, Clone)]
pub(crate) struct Lock {
    handle: Arc<Handle>,
    /// The name with the client's prefix. An error if the name is not allowed: each call that locks returns this error.
    key: Result<Key>,
    terms: Result<Terms>,
    /// The owner for which the calls take the lock. `None` if there is no owner.
    owner: Option<Owner>,
    /// Maximum number of calls of this client that wait for the lock. `None` if there is no limit.
    max_waiters: Option<NonZeroU32>,
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, name: &str, kind: Result<Kind>) -> Self {
        let terms = kind.and_then(|kind| handle.terms(kind));
        Self { key: handle.key(name), terms, handle, owner: None, max_waiters: None }
    }

    /// The lock of another kind with the same name and options. `kind` gets the present kind.
    pub(crate) fn of_kind(self, kind: impl FnOnce(Kind) -> Result<Kind>) -> Self {
        let handle = Arc::clone(&self.handle);
        self.with_terms(|terms| {
            let Terms { kind, fences, .. } = handle.terms(kind(terms.kind)?)?;
            Ok(Terms { kind, fences, ..terms })
        })
    }

    /// The same lock with a fixed lease, which is never renewed.
    pub(crate) fn lease(self, ttl: Duration) -> Self {
        let lease = check_ttl("the lease", ttl);
        self.with_terms(|terms| Ok(Terms { ttl: lease?, watchdog: false, ..terms }))
    }

    /// The same lock with this ttl instead of the client's ttl. The watchdog renews the lock.
    pub(crate) fn watchdog(self, ttl: Duration) -> Self {
        let ttl = check_ttl("the watchdog's ttl", ttl);
        self.with_terms(|terms| Ok(Terms { ttl: ttl?, watchdog: true, ..terms }))
    }

    /// The same lock with a maximum hold time for each call.
    pub(crate) fn max_hold(self, time: Duration) -> Self {
        let longest = check_ttl("max_hold", time);
        self.with_terms(|terms| Ok(Terms { max_hold: Some(longest?), ..terms }))
    }

    /// The same lock with a maximum number of waiting calls.
    pub(crate) fn max_waiters(self, number: u32) -> Self {
        let refuse = || Error::misused("max_waiters is 0; it must be at least 1 (a `try_` call never waits)");
        match NonZeroU32::new(number) {
            Some(number) => Self { max_waiters: Some(number), ..self },
            None => self.with_terms(|_| Err(refuse())),
        }
    }

    /// The same lock for a caller that logs losses itself. The engine then logs the losses only at debug level.
    pub(crate) fn quiet(self) -> Self {
        self.with_terms(|terms| Ok(Terms { quiet: true, ..terms }))
    }

    /// The same lock, but each call takes the lock for this owner.
    pub(crate) fn by(self, owner: &Owner) -> Self {
        Self { owner: Some(owner.clone()), ..self }
    }

    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some()
    }

    /// Waits for the lock without a limit.
    pub(crate) async fn acquire<S>(&self) -> Result<Guard<S>> {
        match self.request(Patience::Forever).await? {
            Some(guard) => Ok(guard),
            None => Err(Error::unavailable("the engine ended a wait that has no time limit")),
        }
    }

    /// Waits for the lock, also while the store does not answer. `what` names the caller in the log.
    pub(crate) async fn acquire_through_outages(&self, what: &str, retries: &mut Retries) -> Result<Guard> {
        loop {
            match self.acquire().await {
                Err(error) if error.is_retryable() => {
                    let (key, delay) = (self.key()?, retries.next_delay());
                    tracing::warn!(%key, %error, retry_in = %rounded(delay), "{what} could not wait for its lock");
                    pause(self.handle(), delay).await.map_err(|error| error.during("lock").at(key))?;
                }
                locked => return locked,
            }
        }
    }

    /// Waits for the lock, for at most this time. If the time is zero, the call ends with the first answer of the
    /// store.
    pub(crate) async fn try_acquire_for<S>(&self, limit: Duration) -> Result<Option<Guard<S>>> {
        self.request(check_limit(limit)?.map_or(Patience::Once, Patience::For)).await
    }

    /// Locks, runs the body and releases the lock. If the lock is lost, the body is dropped.
    pub(crate) async fn run<S, T>(&self, body: impl AsyncFnOnce(&Guard<S>) -> T) -> Result<T> {
        let guard = self.acquire().await?;
        let value = guard.lost().or(|| guard.check_held(), body(&guard)).await?;
        // The lock was held until the body ended, so the value is valid even if the release fails.
        let _ = guard.release().await;
        Ok(value)
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// An error if the name, the kind or one of the terms is not allowed.
    pub(crate) fn check(&self) -> Result<()> {
        self.key()?;
        self.terms.as_ref().map(|_| ()).map_err(Error::clone)
    }

    pub(crate) fn key(&self) -> Result<&Key> {
        self.key.as_ref().map_err(Error::clone)
    }

    fn with_terms(mut self, change: impl FnOnce(Terms) -> Result<Terms>) -> Self {
        self.terms = self.terms.and_then(change);
        self
    }

    async fn request<S>(&self, patience: Patience) -> Result<Option<Guard<S>>> {
        let key = self.key()?;
        let terms = *self.terms.as_ref().map_err(Error::clone)?;
        let ticket = self.handle.ticket();
        if let Some(owner) = &self.owner {
            if owner.client() != self.handle.id {
                return Err(Error::misused("the owner belongs to another client").at(key));
            }
            if let Some(turn) = owner.turns().enter(key, terms, ticket)? {
                return turn.check_held().map(|()| Some(Guard::of(turn, Arc::clone(&self.handle))));
            }
        }
        let slot = SlotId { key: key.clone(), lane: Lane::of(terms.kind, ticket) };
        let (owner, max_waiters, caller) = (self.owner.clone(), self.max_waiters, Caller::present());
        let has_no_limit = matches!(patience, Patience::Forever) && OwnedAs::of(terms.kind).is_some();
        let can_deadlock = has_no_limit && owner.as_ref().is_some_and(|owner| owner.turns().may_hold_others());
        let mut queued = QueuedCall { handle: &self.handle, ticket, slot, owner: owner.clone(), served: false };
        // The call is made and sent outside the future of `wait`, so that this future is small: it is moved several times.
        let (reply, answer) = oneshot::channel();
        let wait = Wait::default();
        let call = Call { ticket, owner, caller, terms, patience, can_deadlock, max_waiters, reply, wait };
        self.handle.send(Msg::Lock(key.clone(), Box::new(call)))?;
        let span = tracing::debug_span!("bandog.lock", %key);
        queued.wait(answer).instrument(span).await
    }
}

/// A call in the engine's queue. This value is created before the first await of the call. So the user can drop the
/// call's future at any await: this value is dropped then, and its drop cancels the call.
struct QueuedCall<'a> {
    handle: &'a Arc<Handle>,
    ticket: Ticket,
    slot: SlotId,
    owner: Option<Owner>,
    /// Whether the engine has answered the call.
    served: bool,
}

impl QueuedCall<'_> {
    /// Waits for the engine's answer.
    async fn wait<S>(&mut self, answer: oneshot::Receiver<Result<Option<TurnGrant>>>) -> Result<Option<Guard<S>>> {
        let answer = answer.await.map_err(|_| Error::closed().during("lock").at(&self.slot.key))?;
        self.served = true;
        let guard = |turn| Guard::of(turn, Arc::clone(self.handle));
        match answer? {
            Some(TurnGrant::New(turn)) => Ok(Some(guard(turn))),
            Some(TurnGrant::Shared) => self.end().map(|turn| turn.check_held().map(|()| guard(turn))).transpose(),
            None => Ok(None),
        }
    }

    /// Removes the call from the owner's list of calls. If the engine has let the call share the owner's turn, and the
    /// call has not taken that turn yet, returns the turn.
    fn end(&self) -> Option<Arc<Turn>> {
        self.owner.as_ref().and_then(|owner| owner.turns().call_ended(&self.slot.key, self.slot.lane, self.ticket))
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        drop(self.end());
        if !self.served {
            // If the engine has ended, there is no queue to leave.
            let _ = self.handle.send(Msg::Cancel { slot: self.slot.clone(), ticket: self.ticket });
        }
    }
}
