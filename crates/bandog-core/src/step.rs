//! The steps of a lock, and the answers of a backend.

use std::time::Duration;

use crate::{Claim, Fences, Key, Kind};

/// One step of [`crate::Leases::apply`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Grants the key to this claim, if no other claim holds it. If this claim holds the key already, its hold lasts for
    /// the ttl of this step, or longer if it lasted longer before. A quorum sends such a claim with a shorter ttl.
    Claim(Claim),
    /// Frees the key and notifies its subscribers, if this claim holds it. If the claim has a place ([`Claim::joins`]),
    /// the step removes the place.
    Release(Claim),
    /// Passes the key from one claim to another claim of the same key. This is one atomic step, and the subscribers are
    /// not notified. If `from` does not hold the key, the step is an ordinary claim of `to`.
    ///
    /// Both claims are of the same kind, or of the same number of permits. Exception: a pass from [`Kind::Write`] to
    /// [`Kind::Read`] is a *downgrade*. It notifies the subscribers, because other readers can get the key now. Any
    /// other pass, and each pass of [`Kind::Fair`], is refused with [`ErrorKind::Misused`](crate::ErrorKind::Misused).
    Pass {
        /// The claim that holds the key. It is boxed, because passes are rare and each step should be small.
        from: Box<Claim>,
        /// The claim that gets the key.
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

    /// The kind of the lock. Each backend has a `match` over all kinds. So if a kind is added, a backend that does not
    /// handle the new kind no longer compiles.
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
        /// The fences that the grant reserved: at least one, and at most as many as the claim requested. If a claim is
        /// sent again, it gets the same fences.
        fences: Fences,
        /// The duration of the hold, counted from the beginning of the call. It is at most the requested ttl, and can
        /// be shorter. During this time, the store does not grant the key to another claim, with two exceptions. The
        /// first exception is a hold that is released, passed to another claim ([`Step::Pass`]) or evicted. The second
        /// exception is a store that loses its data.
        valid_for: Duration,
        /// The claims of the same client that directly follow this claim in the queue of a fair mutex, in the order of
        /// the queue: no claim of another client is between them. Each number is the number of a claim id. A store can
        /// leave out claims at the end of this list. For other kinds of locks, and for a claim that is sent again, the
        /// list is empty.
        followers: Vec<u64>,
    },
    /// Another claim holds the key.
    Busy {
        /// The time after which the store may grant the claim although nothing is released: because a hold
        /// expires that is not renewed, or because the place of another claim expires. If the hold never expires, the
        /// value is one second.
        retry_after: Duration,
        /// The number of claims before this claim in the queue of the lock. None if the lock has no queue, or if the
        /// claim has no place in the queue ([`Claim::joins`]).
        ahead: Option<u32>,
    },
}

/// The answer to a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The hold is extended.
    Extended {
        /// The new duration of the hold, counted from the beginning of the call, as in [`Verdict::Granted`]. It can be
        /// shorter than the requested ttl, and can differ from the duration in the grant or in an earlier renewal.
        valid_for: Duration,
    },
    /// This claim does not hold the key. It waits, and its place ([`Claim::joins`]) is kept for another [`crate::PLACE`].
    /// So a client that believes that the claim holds the key has lost the hold.
    Waiting {
        /// Whether the claim is the first one of the queue of a fair mutex, and no claim holds the lock. Then the store
        /// grants the lock if the claim is sent again now. This is necessary when the places of the claims before this
        /// claim expire: no release notifies the client then.
        is_next: bool,
    },
    /// This claim does not hold the key, and has no place ([`Claim::joins`]). The store changed nothing.
    Gone,
}

impl Renewal {
    /// The time for which the hold or the place of the claim is valid. None if the claim has neither.
    pub fn valid_for(self) -> Option<Duration> {
        match self {
            Self::Extended { valid_for } => Some(valid_for),
            Self::Waiting { .. } => Some(crate::PLACE),
            Self::Gone => None,
        }
    }
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The key is free, and its subscribers have been notified.
    Freed {
        /// The number of notified clients. The client that released the key is not counted. None if the backend does
        /// not know the number.
        others: Option<u32>,
    },
    /// This claim did not hold the key, but had a place ([`Claim::joins`]). The store has removed the place. If another
    /// claim is the next one now, its subscriber has been notified.
    LeftQueue,
    /// This claim did not hold the key, and had no place. The store changed nothing.
    NotHeld,
}

impl Released {
    /// The answer of a backend that does not count the waiting clients, but knows whether there may be any: the release has
    /// notified some, or the backend cannot notify them.
    pub fn freed(may_have_waiters: bool) -> Self {
        Self::Freed { others: (!may_have_waiters).then_some(0) }
    }
}
