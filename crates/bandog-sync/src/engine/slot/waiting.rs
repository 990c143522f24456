//! How calls enter the queue of a slot, time out and leave.

use std::{mem, time::Duration};

use bandog_core::{Error, Moment, Result};

use super::{
    claiming::end_attempt,
    event::{Effect, SlotContext},
    policy::OwnTurn,
    polls::MAX_POLL_INTERVAL,
    state::{Slot, Stage, WakeUps},
};
use crate::{
    engine::call::{Call, Wait},
    terms::{Patience, Ticket},
};

/// Maximum wait of a call if the store has never answered this client.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// When a call has waited for this time, the slot checks whether the call waits for a lock that its own task holds. A
/// call whose own limit is shorter is checked at its limit.
const DEADLOCK_CHECK_AFTER: Duration = Duration::from_secs(1);

impl Slot {
    /// Handles a call that has just arrived: serves or refuses the call, or adds it to the queue and claims the key if
    /// necessary.
    pub(super) fn lock(&mut self, call: Box<Call>, cx: &mut SlotContext) {
        if let Some(hold) = self.shareable_hold(call.terms, cx) {
            self.enqueue(call, None, cx);
            return self.serve_readers(hold, cx);
        }
        let patience = call.patience;
        // Whether this is a `try_lock` call.
        let is_once = matches!(patience, Patience::Once);
        // A call with a short limit claims immediately, because it could time out before the next poll.
        let is_brief = patience.ends_within(MAX_POLL_INTERVAL * 2);
        // Calls are served in their order, so the first call decides whether the store can be asked.
        let fits = self.fits(self.queue.first().map_or(call.terms, |first| first.terms));
        let check = self.may_wait_for_itself(&call).then(|| cx.now + DEADLOCK_CHECK_AFTER);
        match &self.stage {
            Stage::Idle if is_once && !fits => cx.emit(Effect::Refuse(call)),
            Stage::Resting { .. } if is_once => cx.emit(Effect::Refuse(call)),
            Stage::Claiming(_) | Stage::Resting { .. } => self.enqueue(call, check, cx),
            Stage::Waiting { .. } if !is_brief => self.enqueue(call, check, cx),
            Stage::Releasing(streak) if !is_brief && streak.must_end(cx.now, cx.round_trip) => {
                self.enqueue(call, check, cx);
                self.rest(cx);
            }
            Stage::Idle | Stage::Waiting { .. } | Stage::Releasing(_) => {
                self.enqueue(call, check, cx);
                self.claim_next(cx);
            }
        }
    }

    /// Whether a call may wait for a lock that its own task holds.
    fn may_wait_for_itself(&self, call: &Call) -> bool {
        match self.policy.own_turn {
            OwnTurn::InThisSlot => self.holds.iter().any(|hold| !hold.is_lost() && hold.turn_of(call.caller).is_some()),
            OwnTurn::InAnotherSlot => !matches!(call.patience, Patience::Once),
            OwnTurn::Allowed => false,
        }
    }

    /// Adds a call to the queue. `deadlock_check`: when to check whether the call waits for a lock that its own task
    /// holds.
    pub(super) fn enqueue(&mut self, call: Box<Call>, deadlock_check: Option<Moment>, cx: &SlotContext) {
        let until = match call.patience {
            Patience::Once => Some(cx.now + cx.timeout),
            Patience::For(wait) => Some(cx.now + wait),
            Patience::Forever => None,
        };
        let first_answer_by = (!cx.answered).then(|| cx.now + FIRST_ANSWER);
        let (since, refusals_before) = (Some(cx.now), self.refusals);
        let wait = Wait { since, refusals_before, until, first_answer_by, deadlock_check, scheduled: None };
        self.queue.insert(call, wait);
    }

    /// Handles a call that has reached one of its limits, or whose check is due.
    pub(super) fn waiter_is_due(&mut self, ticket: Ticket, cx: &mut SlotContext) {
        if cx.answered {
            self.queue.change(ticket, |wait| wait.first_answer_by = None);
        }
        let Some(call) = self.queue.get(ticket) else { return };
        let has_timed_out = call.wait.has_timed_out(cx.now);
        if call.wait.deadlock_check.is_some_and(|check| has_timed_out || check <= cx.now) {
            let (caller, since) = (call.caller, call.wait.since.unwrap_or(cx.now));
            cx.emit(Effect::CheckForDeadlock { caller, since });
            self.queue.change(ticket, |wait| wait.deadlock_check = None);
        }
        if !has_timed_out {
            return;
        }
        // A call can also wait behind a call that waits for a hold of this client.
        let is_held = self.queue.first().is_some_and(|first| !self.fits(first.terms));
        let Some(call) = self.queue.remove(ticket) else { return };
        match if is_held { Ok(()) } else { self.timeout_answer(&call) } {
            Ok(()) => cx.emit(Effect::Refuse(call)),
            Err(error) => cx.emit(Effect::Fail(call, error.during("lock").at(self.key()))),
        }
    }

    /// The answer to a call that timed out. `Ok` means "held": the key was seen to be held while the call waited.
    /// Otherwise the call gets an error.
    pub(super) fn timeout_answer(&self, call: &Call) -> Result<()> {
        let is_held = matches!(self.stage, Stage::Resting { .. }) || !self.fits(call.terms);
        if is_held || self.refusals > call.wait.refusals_before {
            return Ok(());
        }
        Err(self.fault.clone().unwrap_or_else(|| {
            Error::unavailable("the store has not answered in time; a longer wait may get an answer, or the reason")
        }))
    }

    /// If no call waits, ends the attempt to get the key. But if a claim is in flight, the slot waits for its answer
    /// first.
    pub(super) fn clean_up_without_waiters(&mut self, cx: &mut SlotContext) {
        if !self.queue.is_empty() {
            return;
        }
        self.wake_ups = WakeUps::Off;
        match mem::take(&mut self.stage) {
            Stage::Waiting { attempt, .. } => end_attempt(&attempt, cx),
            stage @ (Stage::Claiming(_) | Stage::Releasing(_)) => self.stage = stage,
            Stage::Idle | Stage::Resting { .. } => {}
        }
    }

    /// Answers all calls with this error.
    pub(super) fn fail_all(&mut self, error: &Error, cx: &mut SlotContext) {
        while let Some(call) = self.queue.remove_first() {
            cx.emit(Effect::Fail(call, error.clone()));
        }
    }
}
