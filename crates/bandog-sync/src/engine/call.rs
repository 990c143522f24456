//! A call that asks for a lock.

use std::{num::NonZeroU32, sync::Arc};

use bandog_core::{Moment, Result};
use tokio::sync::oneshot;

use crate::{
    Owner,
    caller::Caller,
    lane::SlotId,
    terms::{Patience, Terms, Ticket},
    turn::Turn,
};

/// Where the answer to a [`Call`] goes. The answer `None` means that another client or call holds the lock.
pub(crate) type LockReply = oneshot::Sender<Result<Option<TurnGrant>>>;

/// The answer to a call that gets the lock. A *turn* begins when a call gets the hold, and ends when the last guard of
/// the turn is dropped. Calls of one owner can share a turn.
pub(crate) enum TurnGrant {
    /// The turn of a call without an owner, or of a downgrade.
    New(Arc<Turn>),
    /// The turn of the call's owner, which the call may share with other calls. The call takes that turn from the owner
    /// ([`crate::turn::OwnerTurns::call_ended`]).
    Shared,
}

/// A call that asks for a lock, or for the downgrade of a write lock. The caller makes it, and its slot keeps it in the
/// queue until it has an answer.
pub(crate) struct Call {
    pub(crate) ticket: Ticket,
    /// The owner for which the call locks. `None` if the call names no owner.
    pub(crate) owner: Option<Owner>,
    /// The task or thread that made the call.
    pub(crate) caller: Caller,
    /// The terms of the call. A downgrade gets the terms of the writer's hold.
    pub(crate) terms: Terms,
    /// How long the call waits.
    pub(crate) patience: Patience,
    /// Whether the call can be part of a deadlock: it has no time limit, and its owner may hold other locks.
    pub(crate) can_deadlock: bool,
    /// Maximum number of calls of this client that wait for the lock. `None` if there is no limit.
    pub(crate) max_waiters: Option<NonZeroU32>,
    pub(crate) reply: LockReply,
    /// Set when the call enters the queue of its slot.
    pub(crate) wait: Wait,
}

/// The wait of a call in the queue of its slot.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    /// When the call arrived.
    pub(super) since: Option<Moment>,
    /// Number of refusals (`Slot::refusals`) that do not count for this call, because they happened before it arrived.
    pub(super) refusals_before: u64,
    /// When the call times out. `None` for a call without a limit.
    pub(super) until: Option<Moment>,
    /// The call also times out at this moment if the store has never answered this client by then.
    pub(super) first_answer_by: Option<Moment>,
    /// When to check whether the call waits for a lock that its own task holds.
    pub(super) deadlock_check: Option<Moment>,
    /// The moment of this call's entry in the schedule of the queue, if it has one.
    pub(super) scheduled: Option<Moment>,
}

impl Wait {
    pub(super) fn has_timed_out(&self, now: Moment) -> bool {
        [self.until, self.first_answer_by].into_iter().flatten().any(|limit| now >= limit)
    }

    /// When the next timeout or check is due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        [self.until, self.first_answer_by, self.deadlock_check].into_iter().flatten().min()
    }
}

impl Call {
    /// Whether the caller has dropped its future.
    pub(super) fn has_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// Whether both calls have the same [`Owner`], and so share a turn.
    pub(super) fn shares_with(&self, other: &Self) -> bool {
        self.owner.as_ref().zip(other.owner.as_ref()).is_some_and(|(owner, other)| owner.is(other))
    }

    /// Lets the call share the turn of its owner, if the owner has one.
    pub(super) fn shares_turn(&self, slot: &SlotId) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.turns().share(&slot.key, slot.lane, self.ticket))
    }

    pub(super) fn answer(self, answer: Result<Option<TurnGrant>>) {
        // The caller may have dropped its future.
        let _ = self.reply.send(answer);
    }
}
