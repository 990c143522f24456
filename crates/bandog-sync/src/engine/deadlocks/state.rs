//! The calls of this client that may be part of a deadlock.

use std::collections::{BTreeMap, VecDeque};

use bandog_core::{ClientId, Moment};

use super::waits::CircleCall;
use crate::{Owner, engine::call::Call, lane::SlotId, terms::Ticket};

#[derive(Default)]
pub(in crate::engine) struct Deadlocks {
    /// Calls that are not blocked yet, the oldest first. All of them arrived within the last [`BLOCKED_AFTER`].
    pub(in crate::engine) new: VecDeque<NewCall>,
    pub(in crate::engine) blocked: BTreeMap<Ticket, Blocked>,
    /// The number of the last row that was written.
    pub(in crate::engine) round: u64,
    /// The rows of other clients that the last search has read.
    pub(in crate::engine) seen: Vec<(ClientId, u64)>,
    /// When the next search is due. `None` if the timer is not set.
    pub(in crate::engine) timer: Option<Moment>,
    /// When the search in flight was sent.
    pub(in crate::engine) searching_since: Option<Moment>,
    /// The next search is not sent before this moment. `None` before the first search.
    pub(in crate::engine) not_before: Option<Moment>,
}

/// A call of an owner that may hold other locks.
pub(in crate::engine) struct NewCall {
    pub(in crate::engine) ticket: Ticket,
    pub(in crate::engine) slot: SlotId,
    pub(in crate::engine) owner: Owner,
    /// When the call is blocked, if it still waits.
    pub(in crate::engine) blocked_at: Moment,
}

pub(in crate::engine) struct Blocked {
    pub(in crate::engine) slot: SlotId,
    pub(in crate::engine) owner: Owner,
    pub(in crate::engine) stage: Stage,
}

pub(in crate::engine) enum Stage {
    /// The call waits in its slot.
    Waiting(Option<Sighting>),
    /// The call is part of a deadlock. It has left its slot, and returns soon.
    Lingering { call: Box<Call>, circle: Vec<CircleCall>, since: Moment },
}

/// A circle that was found once.
pub(in crate::engine) struct Sighting {
    pub(in crate::engine) circle: Vec<CircleCall>,
    pub(in crate::engine) at: Moment,
    /// The number of our first row that was written after the search.
    pub(in crate::engine) round: u64,
}

impl Deadlocks {
    /// Whether no call is blocked.
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.blocked.is_empty()
    }

    pub(in crate::engine) fn has_lingering(&self) -> bool {
        self.blocked.values().any(|call| matches!(call.stage, Stage::Lingering { .. }))
    }

    /// Takes a call that lingers.
    pub(in crate::engine) fn take_lingering(&mut self, ticket: Ticket) -> Option<Box<Call>> {
        match self.blocked.remove(&ticket)? {
            Blocked { stage: Stage::Lingering { call, .. }, .. } => Some(call),
            waiting => {
                self.blocked.insert(ticket, waiting);
                None
            }
        }
    }
}
