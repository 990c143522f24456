//! A slot that holds the key: the turns of its callers, renewals, and the ends of holds.

use std::{mem, sync::Arc, time::Duration};

use bandog_core::{Claim, Error, Fence, Fences, Moment, Renewal, Result};

use super::{
    Call, Effect, NewTurn, Report, Slot, SlotContext, Stage,
    attempt::Attempt,
    hold::{Extension, Hold},
    streak::rest_until,
};
use crate::engine::msg::{HoldId, Terms};

impl<C: Call> Slot<C> {
    /// The store has granted the claim. The first in the queue gets the hold. If all waiters have gone, the hold is
    /// released.
    pub(super) fn granted(
        &mut self,
        attempt: &Attempt,
        fences: Fences,
        asked_at: Moment,
        valid_for: Duration,
        cx: &mut SlotContext<C>,
    ) {
        let Some(hold) = Hold::granted(attempt, fences, asked_at, valid_for, cx.now) else {
            // The answer came too late for a safe turn.
            cx.emit(Effect::Release { claim: attempt.claim.clone(), unsure: attempt.unsure, report: None });
            return self.claim_next(cx);
        };
        cx.emit(Effect::HoldBegan);
        self.stage = Stage::Held(Box::new(hold));
        self.fault = None;
        self.serve_next(None, cx);
        self.clean_up_if_unwanted(cx);
    }

    /// Decides about a hold without a turn:
    /// - release it if no call waits, or if the streak is over;
    /// - start the turn of the next waiter, if the hold can serve it as it is;
    /// - otherwise exchange it for a new hold.
    pub(super) fn serve_next(&mut self, report: Option<Report>, cx: &mut SlotContext<C>) {
        while self.queue.first().is_some_and(|waiter| waiter.call.has_gone()) {
            self.queue.remove_first();
        }
        let Stage::Held(hold) = &mut self.stage else { return };
        let Some(terms) = self.queue.first().map(|waiter| waiter.terms) else {
            return self.release_hold(report, cx);
        };
        if !hold.is_fresh() && hold.streak().must_end(cx.now, cx.round_trip) {
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

    /// Starts the turn of the first waiter. Calls that want a single answer are refused, unless they share the turn.
    pub(super) fn start_turn(&mut self, fence: Fence, cx: &mut SlotContext<C>) {
        let Stage::Held(hold) = &mut self.stage else { return };
        let Some(waiter) = self.queue.remove_first() else { return };
        let is_passed_on = !hold.is_fresh();
        hold.start_turn(fence, waiter.caller, cx.now);
        let (id, status, waited) = (hold.id(), Arc::clone(hold.status()), cx.now.since(waiter.since));
        let turn = NewTurn { hold: id, fence, status, waited, is_passed_on };
        for other in self.queue.remove_try_locks(|call| !call.shares_with(&waiter.call)) {
            cx.emit(Effect::Refuse(other.call));
        }
        cx.emit(Effect::StartTurn { call: waiter.call, turn });
    }

    /// Exchanges the hold for a new one in one step, so no other client can claim the key between the two.
    pub(super) fn exchange(&mut self, terms: Terms, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        if hold.is_unsure() {
            cx.emit(Effect::ReleaseLater(hold.claim().clone()));
        }
        let mut attempt = cx.new_attempt(&self.key, terms);
        (attempt.from, attempt.streak) = (Some(hold.claim().clone()), Some(hold.streak()));
        self.send_claim(attempt, cx);
    }

    /// Releases the hold. The stage is `Idle` then, or `Releasing`.
    pub(super) fn release_hold(&mut self, report: Option<Report>, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        release(&hold, report, cx);
        if self.queue.is_empty() && !cx.is_closing {
            self.stage = Stage::Releasing(hold.streak());
        }
        self.clean_up_if_unwanted(cx);
    }

    /// Removes the hold. The stage is `Idle` then.
    pub(super) fn take_hold(&mut self) -> Option<Box<Hold>> {
        match mem::take(&mut self.stage) {
            Stage::Held(hold) => {
                self.refusals += 1; // Calls that have waited until now were shown a holder: this client.
                Some(hold)
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }

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

    /// The last guard of a turn was dropped or released.
    pub(super) fn turn_ended(&mut self, id: HoldId, report: Option<Report>, cx: &mut SlotContext<C>) {
        let now = cx.now;
        if let Some(hold) = self.present_hold(id) {
            if hold.is_lost(now) {
                // A guard has read it as lost. The release goes before the next claim, or the client's own hold would
                // be in the way.
                let Some(hold) = self.take_hold() else { return };
                report_loss(&hold, cx);
                self.lost_turn_ended(&hold, report, cx);
                return self.claim_next(cx);
            }
            let (held_for, fence) = (now.since(hold.turn_since()), hold.fence());
            hold.status().release();
            cx.emit(Effect::TurnEnded { held_for });
            cx.emit(Effect::TurnReleased { fence });
            self.serve_next(report, cx);
        } else if let Some(at) = self.lost.iter().position(|hold| hold.id() == id) {
            let hold = self.lost.swap_remove(at);
            self.lost_turn_ended(&hold, report, cx);
        } else if let Some(report) = report {
            // The client was closed, and has released the hold.
            cx.emit(Effect::Report(report, Err(Error::closed())));
        }
    }

    /// The last guard of a lost turn was dropped or released. The store may still have the hold.
    pub(super) fn lost_turn_ended(&self, hold: &Hold, report: Option<Report>, cx: &mut SlotContext<C>) {
        cx.emit(Effect::TurnEnded { held_for: cx.now.since(hold.turn_since()) });
        release(hold, None, cx);
        if let Some(report) = report {
            cx.emit(Effect::Report(report, Err(Error::lost(&self.key))));
        }
    }

    pub(super) fn warn_before(&mut self, id: HoldId, grace: Duration, cx: &SlotContext<C>) {
        if let Some(hold) = self.present_hold(id) {
            hold.warn_before(grace, cx.now);
        }
    }

    /// Renews the hold, to find out whether the store still has it.
    pub(super) fn renew_now(&mut self, cx: &mut SlotContext<C>) {
        if let Stage::Held(hold) = &mut self.stage
            && hold.renew_now(cx.now)
        {
            cx.emit(Effect::Renew(hold.id()));
        }
    }

    pub(super) fn renewed(&mut self, id: HoldId, asked_at: Moment, answer: Result<Renewal>, cx: &mut SlotContext<C>) {
        let now = cx.now;
        let Some(hold) = self.present_hold(id) else { return };
        match answer {
            Ok(Renewal::Extended { valid_for }) => match hold.extended(asked_at, valid_for, now) {
                Extension::Renewed => cx.emit(Effect::Renewed),
                Extension::Unchanged => {}
                Extension::TooLate => self.lose(cx),
            },
            Ok(Renewal::Gone) => self.lose(cx),
            Err(error) => {
                hold.renewal_failed(asked_at, now);
                cx.emit(Effect::RenewalFailed(error));
            }
        }
    }

    /// This client does not have the hold any more. Its guards are lost, and the next in the queue claims.
    pub(super) fn lose(&mut self, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        report_loss(&hold, cx);
        self.lost.push(*hold);
        self.claim_next(cx);
    }

    /// Lets other clients go first for a few round trips, after the hold was released.
    pub(super) fn rest(&mut self, cx: &SlotContext<C>) {
        self.stage = Stage::Resting { until: rest_until(cx.now, cx.round_trip) };
    }
}

pub(super) fn release<C>(hold: &Hold, report: Option<Report>, cx: &mut SlotContext<C>) {
    // Other clients than ours, such as Java's, get no offers: every second hold of a crowd that starves makes none.
    let offers = hold.streak().offers_at_end(cx.now) && (!hold.claim().offers || fastrand::bool());
    let claim = Claim { offers, ..hold.claim().clone() };
    cx.emit(Effect::Release { claim, unsure: hold.is_unsure(), report });
}

/// Makes a hold's guards lost.
fn report_loss<C>(hold: &Hold, cx: &mut SlotContext<C>) {
    hold.status().lose();
    let (by_max_hold, is_quiet) = (hold.max_hold_has_ended(cx.now), hold.is_quiet());
    cx.emit(Effect::Lost { fence: hold.fence(), by_max_hold, is_quiet });
}
