//! What a backend must promise: it tries, renews, releases and rings. It never waits, renews on its own or counts.

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{Claim, ClientId, Fences, Inspect, Key, Member, Notifier, Records, Result, Subscription};

/// One thing that [`Leases::apply`] is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Take the key, if nobody else holds it.
    Claim(Claim),
    /// Give the key back and ring those who wait, if this claim holds it.
    Release(Claim),
    /// Give the key from one claim to another of the same key, in one step and without ringing anybody. If `from`
    /// does not hold the key, it is an ordinary claim of `to`.
    Pass {
        /// Who holds the key.
        from: Claim,
        /// Who shall hold it.
        to: Claim,
    },
}

impl Step {
    /// The key that the step is about.
    pub fn key(&self) -> &Key {
        match self {
            Self::Claim(claim) | Self::Release(claim) | Self::Pass { to: claim, .. } => &claim.key,
        }
    }

    /// Our verb for it, as errors name it.
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
    /// To a claim and to a pass.
    Claimed(Verdict),
    /// To a release.
    Released(Released),
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The key is held by this claim now.
    Granted {
        /// The fences that the grant reserved: as many as were asked for.
        fences: Fences,
        /// How long the hold lasts, counted from the moment at which the store decided.
        valid_for: Duration,
    },
    /// Somebody else holds the key.
    Busy {
        /// When their hold ends if nothing renews it; a hold without an end says a second.
        retry_after: Duration,
    },
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The hold lasts again.
    Extended {
        /// How long, counted from the moment at which the store decided.
        valid_for: Duration,
    },
    /// This claim does not hold the key, and the store wrote nothing.
    Gone,
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The key is free, and those who listen have been rung.
    Freed {
        /// How many other clients heard the bell, if the backend can tell.
        others: Option<u32>,
    },
    /// This claim did not hold the key. Nothing was changed.
    NotHeld,
}

/// What a backend tells about itself.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The store in words, without secrets: an address or a path.
    pub store: String,
    /// How long one request may take before it answers with an error.
    pub timeout: Duration,
    /// Whether fences still rise after the store has failed over to a replica.
    pub fence_survives_failover: bool,
    /// Whose clock ends a lease, in words.
    pub expiry: &'static str,
    /// Counts the connections made, from 0 before the first: every later one says that the store may have forgotten
    /// everything meanwhile.
    pub epoch: watch::Receiver<u64>,
}

impl Profile {
    /// A store of this machine that has no connections: one request may take 3 s, and the machine's clock ends leases.
    pub fn of_this_machine(store: impl Into<String>) -> Self {
        Self {
            store: store.into(),
            timeout: Duration::from_secs(3),
            fence_survives_failover: true,
            expiry: "this machine's clock",
            epoch: watch::channel(1).1,
        }
    }
}

/// Leases of keys.
///
/// A backend does no I/O when it is built; it dials on the runtime that first polls it, and does all its I/O there.
/// Calls answer within [`Profile::timeout`], and every call may be repeated without harm. A call whose future is
/// dropped may or may not be applied. Calls are applied in the order in which they were first polled.
#[async_trait]
pub trait Leases: Debug + Send + Sync + 'static {
    /// Reaches the store: it dials if need be, so that a wrong address or password is told.
    ///
    /// # Errors
    /// `Unavailable` when nothing answers, `Denied` for a refused user or password.
    async fn ping(&self) -> Result<()>;

    /// Applies mixed steps, those of one key in this order, each tried once and atomically, and answers each in its
    /// place.
    ///
    /// A repeated claim or pass is granted again, with the same fences and a fresh ttl; a second release is harmless.
    /// An error that may have been applied says so ([`crate::Error::maybe_applied`]); a step refused half-way leaves
    /// nothing behind.
    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>>;

    /// Renews many claims and answers each in its place; one bad key never fails the others. `Err` means unknown,
    /// never lost.
    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>>;

    /// Notifications `notifier` until the bell is dropped, whenever `key` may have become free: it may ring for nothing, and
    /// never stays silent for something that happened after this call has answered. When a broken connection may have
    /// swallowed a ring, it rings. A backend that cannot listen gives [`Subscription::silent`], as this does by default:
    /// waiters then look again within a second.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn subscribe(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let _ = (key, notifier);
        Ok(Subscription::silent())
    }

    /// Writes down in the store's registry who this client is, for `ttl`, instead of what it has said before.
    ///
    /// A backend without a registry does nothing.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        let _ = (member, ttl);
        Ok(())
    }

    /// Takes a client out of the registry.
    ///
    /// # Errors
    /// As [`Leases::ping`].
    async fn withdraw(&self, client: ClientId) -> Result<()> {
        let _ = client;
        Ok(())
    }

    /// What this backend promises.
    fn profile(&self) -> Profile;
}

/// A whole backend: leases, a look at them, and records.
pub trait Backend: Leases + Inspect + Records {}

impl<B: Leases + Inspect + Records> Backend for B {}
