//! Which slot of a key handles a call. A *slot* is the state of one key in this client, for one kind of lock.

use std::num::NonZeroU32;

use bandog_core::{Claim, Key, Kind, Step};

use crate::terms::Ticket;

/// The part of a key that one slot handles. The store decides between the lanes of a key; the slots of one key share no
/// state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lane {
    Mutex,
    /// One call for a fair mutex. Each call has its own slot and its own claim, so that the order of all calls is the
    /// order of the store's queue. The number is the ticket of the call, and also the number of its claim.
    Fair(Ticket),
    Read,
    Write,
    /// The calls for a semaphore that expect this limit. Only the store knows whether it is the right one, so a call with
    /// another limit must not wait behind these calls.
    Permits(NonZeroU32),
}

impl Lane {
    /// The lane of a call or claim of this kind. `number`: the ticket of the call, or the number of the claim.
    pub(crate) fn of(kind: Kind, number: Ticket) -> Self {
        match kind {
            Kind::Mutex => Self::Mutex,
            Kind::Fair => Self::Fair(number),
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            Kind::Permits { of, .. } => Self::Permits(of),
        }
    }

    /// The lane of the same key whose calls may be granted after a release in this lane.
    pub(crate) fn sibling(self) -> Option<Self> {
        match self {
            Self::Read => Some(Self::Write),
            Self::Write => Some(Self::Read),
            Self::Mutex | Self::Fair(_) | Self::Permits(_) => None,
        }
    }
}

/// The name of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlotId {
    pub(crate) key: Key,
    pub(crate) lane: Lane,
}

impl SlotId {
    pub(crate) fn of_claim(claim: &Claim) -> Self {
        Self { key: claim.key.clone(), lane: Lane::of(claim.kind, claim.id.number) }
    }

    /// The slot that gets the answer to a claim or a pass. A pass from a writer to a reader is a downgrade, which the
    /// slot of the writer has sent.
    pub(crate) fn of_step(step: &Step) -> Self {
        match step {
            Step::Pass { from, to } if from.kind != to.kind => Self::of_claim(from),
            Step::Claim(claim) | Step::Release(claim) | Step::Pass { to: claim, .. } => Self::of_claim(claim),
        }
    }
}

/// The locks of a key that one [`crate::Owner`] holds independently of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OwnedAs {
    Mutex,
    Fair,
    ReadWrite,
}

impl OwnedAs {
    /// `None` for a semaphore: a second call of an owner takes further permits.
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        Self::in_lane(Lane::of(kind, 0))
    }

    pub(crate) fn in_lane(lane: Lane) -> Option<Self> {
        match lane {
            Lane::Mutex => Some(Self::Mutex),
            Lane::Fair(_) => Some(Self::Fair),
            Lane::Read | Lane::Write => Some(Self::ReadWrite),
            Lane::Permits(_) => None,
        }
    }
}
