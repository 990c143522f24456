//! How calls enter the queue of a slot, time out and leave.

use std::{mem, time::Duration};

use bandog_core::{Error, Moment, Result};

use super::{
    Call, Effect, NewCall, Slot, SlotContext, Stage, WakeUps, claiming::end_attempt, polls::MAX_POLL_INTERVAL,
    queue::Waiter,
};
use crate::engine::msg::{Patience, Ticket};

/// Maximum wait of a call if the store has never answered this client.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// When a call has waited for this time, the slot checks whether the call waits for a lock that its own task holds. A
/// call whose own limit is shorter is checked at its limit.
const DEADLOCK_CHECK_AFTER: Duration = Duration::from_secs(1);

impl<C: Call> Slot<C> {
    /// Handles a call that has just arrived: refuses the call, or adds it to the queue and claims the key if necessary.
    pub(super) fn lock(&mut self, call: NewCall<C>, cx: &mut SlotContext<C>) {
        let patience = call.patience;
        // Whether this is a `try_lock` call.
        let is_once = matches!(patience, Patience::Once);
        // A call with a short limit claims immediately, because it could time out before the next poll.
        let is_brief = patience.ends_within(MAX_POLL_INTERVAL * 2);
        match &self.stage {
            Stage::Held(_) | Stage::Resting { .. } if is_once => cx.emit(Effect::Refuse(call.call)),
            Stage::Held(hold) => {
                let may_deadlock = hold.was_taken_by(call.caller);
                self.enqueue(call, may_deadlock.then(|| cx.now + DEADLOCK_CHECK_AFTER), cx);
            }
            Stage::Claiming(_) | Stage::Resting { .. } => self.enqueue(call, None, cx),
            Stage::Waiting { .. } if !is_brief => self.enqueue(call, None, cx),
            Stage::Releasing(streak) if !is_brief && streak.must_end(cx.now, cx.round_trip) => {
                self.enqueue(call, None, cx);
                self.rest(cx);
            }
            Stage::Idle | Stage::Waiting { .. } | Stage::Releasing(_) => {
                self.enqueue(call, None, cx);
                self.claim_next(cx);
            }
        }
    }

    /// Adds a call to the queue. `deadlock_check`: when to check whether the call waits for a lock that its own task
    /// holds.
    pub(super) fn enqueue(&mut self, call: NewCall<C>, deadlock_check: Option<Moment>, cx: &SlotContext<C>) {
        let NewCall { ticket, caller, terms, patience, call } = call;
        let is_try_lock = matches!(patience, Patience::Once);
        let mut waiter = Waiter::new(call, caller, terms, self.refusals, cx.now);
        waiter.until = match patience {
            Patience::Once => Some(cx.now + cx.timeout),
            Patience::For(wait) => Some(cx.now + wait),
            Patience::Forever => None,
        };
        waiter.first_answer_by = (!cx.answered).then(|| cx.now + FIRST_ANSWER);
        waiter.deadlock_check = deadlock_check;
        self.queue.insert(ticket, waiter, is_try_lock);
    }

    /// Handles a call that has reached one of its limits, or whose check is due.
    pub(super) fn waiter_is_due(&mut self, ticket: Ticket, cx: &mut SlotContext<C>) {
        if cx.answered {
            self.queue.change(ticket, |waiter| waiter.first_answer_by = None);
        }
        let Some(waiter) = self.queue.get(ticket) else { return };
        let has_timed_out = waiter.has_timed_out(cx.now);
        if waiter.deadlock_check.is_some_and(|check| has_timed_out || check <= cx.now) {
            self.check_for_deadlock(waiter, cx);
            self.queue.change(ticket, |waiter| waiter.deadlock_check = None);
        }
        if !has_timed_out {
            return;
        }
        let Some(waiter) = self.queue.remove(ticket) else { return };
        match self.timeout_answer(&waiter) {
            Ok(()) => cx.emit(Effect::Refuse(waiter.call)),
            Err(error) => cx.emit(Effect::Fail(waiter.call, error.during("lock").at(&self.key))),
        }
        self.clean_up_without_waiters(cx);
    }

    /// The answer to a call that timed out. `Ok` means "held": the key was seen to be held while the call waited.
    /// Otherwise the call gets an error.
    pub(super) fn timeout_answer(&self, waiter: &Waiter<C>) -> Result<()> {
        let is_held = matches!(self.stage, Stage::Held(_) | Stage::Resting { .. });
        if is_held || self.refusals > waiter.refusals_before {
            return Ok(());
        }
        Err(self.fault.clone().unwrap_or_else(|| Error::unavailable("the store has not answered in time")))
    }

    /// Reports a call that may wait for itself, because it came from the task or thread that took the present turn.
    /// This is not certain, because that task might have given its guard to another task.
    pub(super) fn check_for_deadlock(&self, waiter: &Waiter<C>, cx: &mut SlotContext<C>) {
        let Stage::Held(hold) = &self.stage else { return };
        // If the present turn began after the call arrived, the call does not wait for itself.
        if hold.was_taken_by(waiter.caller) && hold.turn_since() <= waiter.since {
            let held_for = cx.now.since(hold.turn_since());
            cx.emit(Effect::MayWaitForItself { caller: waiter.caller, held_for });
        }
    }

    /// If no call waits, ends the attempt to get the key. But if a claim is in flight, the slot waits for its answer
    /// first.
    pub(super) fn clean_up_without_waiters(&mut self, cx: &mut SlotContext<C>) {
        if !self.queue.is_empty() {
            return;
        }
        self.wake_ups = WakeUps::Off;
        match mem::take(&mut self.stage) {
            Stage::Waiting { attempt, .. } => end_attempt(&attempt, cx),
            stage @ (Stage::Claiming(_) | Stage::Held(_) | Stage::Releasing(_)) => self.stage = stage,
            Stage::Idle | Stage::Resting { .. } => {}
        }
    }

    /// Answers all calls with this error.
    pub(super) fn fail_all(&mut self, error: &Error, cx: &mut SlotContext<C>) {
        while let Some(waiter) = self.queue.remove_first() {
            cx.emit(Effect::Fail(waiter.call, error.clone()));
        }
        self.clean_up_without_waiters(cx);
    }
}
