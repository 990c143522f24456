//! The differences between the kinds of locks: one policy for each lane.

use crate::lane::Lane;

/// The rules that differ between the lanes.
#[derive(Debug)]
pub(super) struct Policy {
    /// Which calls get the turns of a hold.
    pub(super) serves: Serves,
    /// How many holds a slot can have at once.
    pub(super) holds: HoldsAtOnce,
    /// When a claim gets a place in the store's queue.
    pub(super) joins: Joins,
    /// When a client that has waited for long asks for an offer.
    pub(super) offers: Offers,
    /// When a refused claim is sent again without a notification.
    pub(super) polls: PollRule,
    /// How the slot finds out that a call may wait for a lock that its own task holds.
    pub(super) own_turn: OwnTurn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Serves {
    /// One call after the other, in the order of the slot's queue.
    Next,
    /// The call of the slot, and then the calls that directly follow its claim in the store's queue.
    Followers,
    /// All calls that wait, at the same time.
    Together,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HoldsAtOnce {
    One,
    /// As many as have room for their permits. Further claims are sent before the first one is answered.
    UpToLimit,
    Any,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Joins {
    Never,
    /// While a call waits that is not a `try_lock` call.
    ForPatientCalls,
    /// Together with the request for an offer.
    WithOffer,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Offers {
    Never,
    /// If the next claim reaches the store before the offer expires.
    IfNear,
    /// As [`Offers::IfNear`], and only if the lock changes hands.
    IfNearAndContended,
    Always,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum PollRule {
    /// After a time that follows the holds that this client has seen.
    Adaptive,
    /// Once a second.
    Slow,
    /// The more rarely, the more claims are before this one. The place is renewed.
    ByPlace,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum OwnTurn {
    /// The turn would be in the same slot.
    InThisSlot,
    /// The turn may be in another slot of the key.
    InAnotherSlot,
    /// A task can have several turns.
    Allowed,
}

const MUTEX: Policy = Policy {
    serves: Serves::Next,
    holds: HoldsAtOnce::One,
    joins: Joins::Never,
    offers: Offers::IfNearAndContended,
    polls: PollRule::Adaptive,
    own_turn: OwnTurn::InThisSlot,
};

const FAIR: Policy = Policy {
    serves: Serves::Followers,
    holds: HoldsAtOnce::One,
    joins: Joins::ForPatientCalls,
    offers: Offers::Never,
    polls: PollRule::ByPlace,
    own_turn: OwnTurn::InAnotherSlot,
};

const READ: Policy = Policy {
    serves: Serves::Together,
    holds: HoldsAtOnce::Any,
    joins: Joins::Never,
    offers: Offers::Always,
    polls: PollRule::Slow,
    own_turn: OwnTurn::InAnotherSlot,
};

const WRITE: Policy = Policy {
    serves: Serves::Next,
    holds: HoldsAtOnce::One,
    joins: Joins::ForPatientCalls,
    offers: Offers::IfNear,
    polls: PollRule::Slow,
    own_turn: OwnTurn::InAnotherSlot,
};

const PERMITS: Policy = Policy {
    serves: Serves::Next,
    holds: HoldsAtOnce::UpToLimit,
    joins: Joins::WithOffer,
    offers: Offers::Always,
    polls: PollRule::Slow,
    own_turn: OwnTurn::Allowed,
};

impl Policy {
    pub(super) fn of(lane: Lane) -> &'static Self {
        match lane {
            Lane::Mutex => &MUTEX,
            Lane::Fair(_) => &FAIR,
            Lane::Read => &READ,
            Lane::Write => &WRITE,
            Lane::Permits(_) => &PERMITS,
        }
    }
}
