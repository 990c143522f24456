//! What a slot does while it holds the key: it starts and ends turns, renews the hold, and releases or loses it.
//!
//! A *hold* is what the store gives for a claim. A *turn* begins when a call gets the hold, and ends when the last
//! guard of the turn is dropped. Calls of one owner can share a turn. A *streak* is a sequence of turns of this client
//! during which other clients had no chance to get the key. After a streak, the client lets other clients get the key.

use std::{mem, sync::Arc, time::Duration};

use bandog_core::{Claim, Error, Fence, Fences, Moment, Renewal, Result};

use super::{
    Call, Effect, NewTurn, Report, Slot, SlotContext, Stage,
    attempt::Attempt,
    hold::{Hold, RenewalEffect},
    streak::end_of_rest,
};
use crate::engine::msg::{HoldId, Terms};

impl<C: Call> Slot<C> {
    /// Handles a grant. The first call in the queue gets the hold. If no call waits any more, the hold is released.
    pub(super) fn granted(
        &mut self,
        attempt: &Attempt,
        fences: Fences,
        asked_at: Moment,
        valid_for: Duration,
        cx: &mut SlotContext<C>,
    ) {
        let Some(hold) = Hold::granted(attempt, fences, asked_at, valid_for, cx.now) else {
            // The answer came so late that the hold has already expired in this client.
            cx.emit(Effect::Release { claim: attempt.claim.clone(), unsure: attempt.unsure, report: None });
            return self.claim_next(cx);
        };
        cx.emit(Effect::HoldBegan);
        self.stage = Stage::Held(Box::new(hold));
        self.fault = None;
        self.serve_next(None, cx);
        self.clean_up_without_waiters(cx);
    }

    /// Decides what happens to a hold that has no turn now:
    /// - if no call waits, or the streak has reached a limit, the hold is released;
    /// - if the hold can serve the next call, the turn of that call starts;
    /// - otherwise the hold is exchanged: one request releases it and claims a new one.
    pub(super) fn serve_next(&mut self, report: Option<Report>, cx: &mut SlotContext<C>) {
        while self.queue.first().is_some_and(|waiter| waiter.call.has_gone()) {
            self.queue.remove_first();
        }
        let Stage::Held(hold) = &mut self.stage else { return };
        let Some(terms) = self.queue.first().map(|waiter| waiter.terms) else {
            return self.release_hold(report, cx);
        };
        if !hold.is_before_first_turn() && hold.streak().must_end(cx.now, cx.round_trip) {
            self.release_hold(report, cx);
            return self.rest(cx);
        }
        match hold.next_fence(terms, cx.now) {
            Some(fence) => self.start_turn(fence, cx),
            None => self.exchange(terms, cx),
        }
        if let Some(report) = report {
            cx.emit(Effect::Report(report, Ok(())));
        }
    }

    /// Starts the turn of the first call in the queue. All `try_lock` calls are answered with "held", unless they share
    /// the turn.
    pub(super) fn start_turn(&mut self, fence: Fence, cx: &mut SlotContext<C>) {
        let Stage::Held(hold) = &mut self.stage else { return };
        let Some(waiter) = self.queue.remove_first() else { return };
        let is_passed_on = !hold.is_before_first_turn();
        hold.start_turn(fence, waiter.caller, cx.now);
        let (id, status, waited) = (hold.id(), Arc::clone(hold.status()), cx.now.since(waiter.since));
        let turn = NewTurn { hold: id, fence, status, waited, is_passed_on };
        for other in self.queue.remove_try_locks(|call| !call.shares_with(&waiter.call)) {
            cx.emit(Effect::Refuse(other.call));
        }
        cx.emit(Effect::StartTurn { call: waiter.call, turn });
    }

    /// Releases the hold and claims a new one, in one request. So no other client can get the key between the two.
    pub(super) fn exchange(&mut self, terms: Terms, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        if hold.is_unsure() {
            cx.emit(Effect::ReleaseLater(hold.claim().clone()));
        }
        let mut attempt = cx.new_attempt(&self.key, terms);
        (attempt.from, attempt.streak) = (Some(hold.claim().clone()), Some(hold.streak()));
        self.send_claim(attempt, cx);
    }

    /// Releases the hold. After that, the stage is `Releasing` if no call waits, and `Idle` otherwise.
    pub(super) fn release_hold(&mut self, report: Option<Report>, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        release(&hold, report, cx);
        if self.queue.is_empty() && !cx.is_closing {
            self.stage = Stage::Releasing(hold.streak());
        }
        self.clean_up_without_waiters(cx);
    }

    /// Removes the hold from the slot. After that, the stage is `Idle`.
    pub(super) fn take_hold(&mut self) -> Option<Box<Hold>> {
        match mem::take(&mut self.stage) {
            Stage::Held(hold) => {
                self.refusals += 1; // For the calls that wait now, the key was held (by this client).
                Some(hold)
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// Returns the slot's present hold, if that hold has this number.
    pub(super) fn present_hold(&mut self, id: HoldId) -> Option<&mut Hold> {
        match &mut self.stage {
            Stage::Held(hold) if hold.id() == id => Some(hold),
            Stage::Idle
            | Stage::Claiming(_)
            | Stage::Waiting { .. }
            | Stage::Held(_)
            | Stage::Resting { .. }
            | Stage::Releasing(_) => None,
        }
    }

    /// Handles the end of a turn: its last guard was dropped or released.
    pub(super) fn turn_ended(&mut self, id: HoldId, report: Option<Report>, cx: &mut SlotContext<C>) {
        let now = cx.now;
        if let Some(hold) = self.present_hold(id) {
            if hold.is_lost(now) {
                // The turn is lost, but the slot has not processed the loss yet. The release is sent before the next
                // claim. In the reverse order, the store would refuse the claim because of this client's own hold.
                let Some(hold) = self.take_hold() else { return };
                report_loss(&hold, cx);
                self.lost_turn_ended(&hold, report, cx);
                return self.claim_next(cx);
            }
            let (held_for, fence) = (now.since(hold.turn_since()), hold.fence());
            hold.status().release();
            // The next turn is started before the end of this turn is reported, because the next caller waits.
            self.serve_next(report, cx);
            cx.emit(Effect::TurnEnded { held_for });
            cx.emit(Effect::TurnReleased { fence });
        } else if let Some(at) = self.lost.iter().position(|hold| hold.id() == id) {
            let hold = self.lost.swap_remove(at);
            self.lost_turn_ended(&hold, report, cx);
        } else if let Some(report) = report {
            // The client was closed, and its close has released the hold.
            cx.emit(Effect::Report(report, Err(Error::closed())));
        }
    }

    /// Ends a turn that was lost. The store may still have the hold of that turn, so the hold is released.
    pub(super) fn lost_turn_ended(&self, hold: &Hold, report: Option<Report>, cx: &mut SlotContext<C>) {
        cx.emit(Effect::TurnEnded { held_for: cx.now.since(hold.turn_since()) });
        release(hold, None, cx);
        if let Some(report) = report {
            cx.emit(Effect::Report(report, Err(Error::lost(&self.key))));
        }
    }

    /// Plans to wake the futures of the hold's present turn when `grace` is left before the deadline.
    pub(super) fn warn_before(&mut self, id: HoldId, grace: Duration, cx: &SlotContext<C>) {
        if let Some(hold) = self.present_hold(id) {
            hold.warn_before(grace, cx.now);
        }
    }

    /// Renews the hold now, to find out whether the store still has it.
    pub(super) fn renew_now(&mut self, cx: &mut SlotContext<C>) {
        if let Stage::Held(hold) = &mut self.stage
            && hold.renew_now(cx.now)
        {
            cx.emit(Effect::Renew(hold.id()));
        }
    }

    /// Handles the end of a renewal.
    pub(super) fn renewed(&mut self, id: HoldId, asked_at: Moment, answer: Result<Renewal>, cx: &mut SlotContext<C>) {
        let now = cx.now;
        let Some(hold) = self.present_hold(id) else { return };
        match answer {
            Ok(Renewal::Extended { valid_for }) => match hold.extended(asked_at, valid_for, now) {
                RenewalEffect::Renewed => cx.emit(Effect::Renewed),
                RenewalEffect::Unchanged => {}
                RenewalEffect::TooLate => self.lose(cx),
            },
            Ok(Renewal::Gone) => self.lose(cx),
            Err(error) => {
                hold.renewal_failed(asked_at, now);
                cx.emit(Effect::RenewalFailed(error));
            }
        }
    }

    /// Handles the loss of the hold. The guards of its turn are lost, and the slot claims the key again if calls wait.
    pub(super) fn lose(&mut self, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        report_loss(&hold, cx);
        self.lost.push(*hold);
        self.claim_next(cx);
    }

    /// Begins a rest: for a few round trips this client does not claim the key, so that other clients can get it.
    pub(super) fn rest(&mut self, cx: &SlotContext<C>) {
        self.stage = Stage::Resting { until: end_of_rest(cx.now, cx.round_trip) };
    }
}

/// Releases a hold that has left the slot.
pub(super) fn release<C>(hold: &Hold, report: Option<Report>, cx: &mut SlotContext<C>) {
    // An offer reserves the key for clients that have waited for a long time and ask for offers. Clients of other
    // libraries, such as Redisson for Java, cannot ask. So during an offer, clients of other libraries do not get the
    // key. To give them a chance, a hold whose own claim has asked for an offer makes another offer in only half of the
    // cases.
    let offers = hold.streak().offers_at_end(cx.now) && (!hold.claim().offers || fastrand::bool());
    let claim = Claim { offers, ..hold.claim().clone() };
    cx.emit(Effect::Release { claim, unsure: hold.is_unsure(), report });
}

/// Marks the present turn of a hold as lost, and reports the loss.
fn report_loss<C>(hold: &Hold, cx: &mut SlotContext<C>) {
    hold.status().lose();
    let (by_max_hold, is_quiet) = (hold.max_hold_has_ended(cx.now), hold.is_quiet());
    cx.emit(Effect::Lost { fence: hold.fence(), by_max_hold, is_quiet });
}
