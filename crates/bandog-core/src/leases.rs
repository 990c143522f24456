//! The trait of a backend: it claims, renews, releases and notifies, each time it is called. It never waits for a lock,
//! never renews on its own, and does not count re-entries.

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    Claim, ClientId, Fences, Inspect, Key, Kind, Kinds, LockState, Member, Notifier, Records, Result, Subscription,
};

/// One step of [`Leases::apply`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Grants the key to this claim, if no other claim holds it.
    Claim(Claim),
    /// Frees the key and notifies its subscribers, if this claim holds it.
    Release(Claim),
    /// Passes the key from one claim to another claim of the same key, in one step and without a notification. If
    /// `from` does not hold the key, the step is an ordinary claim of `to`.
    Pass {
        /// The present holder.
        from: Claim,
        /// The next holder.
        to: Claim,
    },
}

impl Step {
    /// The key of the step.
    pub fn key(&self) -> &Key {
        match self {
            Self::Claim(claim) | Self::Release(claim) | Self::Pass { to: claim, .. } => &claim.key,
        }
    }

    /// The kind of the lock. Each backend matches it, so that a new kind does not compile until all of them handle it.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Claim(claim) | Self::Release(claim) | Self::Pass { to: claim, .. } => claim.kind,
        }
    }

    /// The verb of the step in error messages.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::Release(_) => "release",
            Self::Pass { .. } => "pass",
        }
    }
}

/// The answer to a [`Step`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The answer to a claim or a pass.
    Claimed(Verdict),
    /// The answer to a release.
    Released(Released),
}

/// The answer to a claim or a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// This claim holds the key.
    Granted {
        /// The fences that the grant reserved: at least one, and at most as many as the claim requested. A repeated
        /// claim gets the same block.
        fences: Fences,
        /// The duration of the hold, counted from the store's decision. It may be shorter than the requested ttl,
        /// never longer. The store grants the key to no other claim before it has passed, unless the hold is released,
        /// passed on or evicted, or the store loses its data.
        valid_for: Duration,
    },
    /// Another claim holds the key.
    Busy {
        /// The time until the other hold expires if it is not renewed. One second for a hold that never expires.
        retry_after: Duration,
    },
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The hold is extended.
    Extended {
        /// The duration of the hold, counted from the store's decision, as in [`Verdict::Granted`]. It may be shorter
        /// than the requested ttl, and differ from the duration that the grant or an earlier renewal gave.
        valid_for: Duration,
    },
    /// This claim does not hold the key. The store changed nothing.
    Gone,
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The key is free, and its subscribers have been notified.
    Freed {
        /// The number of other clients that were notified. None if the backend does not know it.
        others: Option<u32>,
    },
    /// This claim did not hold the key. The store changed nothing.
    NotHeld,
}

/// The properties of a backend.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The address or path of the store, without secrets.
    pub store: String,
    /// Timeout of one request: after it, the request returns an error.
    pub timeout: Duration,
    /// The kinds of locks that the backend supports. A handle of another kind is refused when it is made, so the backend
    /// gets no claim of another kind.
    pub kinds: Kinds,
    /// Whether fences still rise after the store has failed over to a replica.
    pub fence_survives_failover: bool,
    /// The clock that decides when a lease expires, as text for messages.
    pub expiry: &'static str,
    /// The number of connections made so far. Each one after the first means that the store may have lost its data
    /// since the connection before it.
    pub epoch: watch::Receiver<u64>,
}

impl Profile {
    /// The profile of a store on this machine without connections, whose backend decides with [`LockState`]: the timeout
    /// is 3 s, and the machine's clock decides when leases expire.
    pub fn of_this_machine(store: impl Into<String>) -> Self {
        Self {
            store: store.into(),
            timeout: Duration::from_secs(3),
            kinds: LockState::KINDS,
            fence_survives_failover: true,
            expiry: "this machine's clock",
            epoch: watch::channel(1).1,
        }
    }
}

/// Leases of keys.
///
/// A backend does no I/O when it is created. It connects on the Tokio runtime that first polls one of its calls, and
/// does all its I/O there.
///
/// Each call returns within [`Profile::timeout`], and may be repeated without harm. If the future of a call is dropped,
/// the call may or may not be applied. The backend applies calls in the order in which they were first polled.
#[async_trait]
pub trait Leases: Debug + Send + Sync + 'static {
    /// Reaches the store, and connects if necessary. It reports a wrong address or password.
    ///
    /// # Errors
    /// `Unavailable` when the store does not answer, `Denied` when it refuses the user or the password.
    async fn ping(&self) -> Result<()>;

    /// Applies the steps, and returns one answer for each step in the same order.
    ///
    /// Each step is atomic and is attempted once. Steps of the same key are applied in their order.
    ///
    /// A grant may reserve fewer fences and last for a shorter time than the claim requested ([`Verdict::Granted`]). A
    /// repeated claim or pass is granted again with the same fences and a fresh ttl. A repeated release is harmless.
    /// An error reports whether the step may have been applied ([`crate::Error::maybe_applied`]). A step that the store
    /// refuses in the middle leaves nothing behind.
    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>>;

    /// Renews the claims, and returns one answer for each claim in the same order. A failure at one key does not affect
    /// the others. `Err` means that the state of the hold is unknown; it never means that the hold is lost.
    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>>;

    /// Calls `notifier` each time the lock of this claim may have become free for it, until the subscription is dropped.
    ///
    /// The store has refused the claim, and its client will repeat it. While calls of the client wait, the client keeps
    /// the subscription, also if it replaces the claim by another one of the same key. So a backend may notify at every
    /// release of `claim.key`. A backend whose store keeps a queue of claims uses the claim to wake only the next one.
    ///
    /// The backend reports every release that happens after this call has returned, and may notify without a reason.
    /// When a broken connection may have dropped a notification, the backend notifies. A backend without notifications
    /// returns [`Subscription::silent`], which is the default: its waiters poll within a second.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let _ = (claim, notifier);
        Ok(Subscription::silent())
    }

    /// Writes this client's row in the store's registry, for `ttl`, and replaces its earlier row.
    ///
    /// A backend without a registry does nothing.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        let _ = (member, ttl);
        Ok(())
    }

    /// Removes a client's row from the registry.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn withdraw(&self, client: ClientId) -> Result<()> {
        let _ = client;
        Ok(())
    }

    /// The properties of this backend.
    fn profile(&self) -> Profile;
}

/// A complete backend: leases, inspection and records.
pub trait Backend: Leases + Inspect + Records {}

impl<B: Leases + Inspect + Records> Backend for B {}
