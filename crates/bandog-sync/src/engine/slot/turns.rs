//! The work of a slot on its holds: it starts and ends turns, renews the holds, and releases or loses them.
//!
//! A *hold* is the lock in the store that a claim got. A *turn* begins when a call gets the hold, and ends when the
//! last guard of the turn is dropped. Calls of one owner can share a turn. A *streak* is a sequence of turns of this
//! client during which other clients had no chance to get the key. After a streak, the client lets other clients get
//! the key.

use std::time::Duration;

use bandog_core::{Claim, Error, Fence, Fences, Moment, Renewal, Result, check_pass};

use super::{
    attempt::Attempt,
    event::{Effect, NewTurn, SlotContext},
    hold::{Hold, RenewalEffect},
    policy::{HoldsAtOnce, Serves},
    state::{Slot, Stage},
    streak::end_of_rest,
    turn::TurnRecord,
};
use crate::{
    engine::call::Call,
    terms::{HoldId, Terms, Ticket},
    turn::Report,
};

impl Slot {
    /// Handles a grant. The first call in the queue gets the hold. If no call waits any more, the hold is released.
    pub(super) fn granted(
        &mut self,
        attempt: Box<Attempt>,
        fences: Fences,
        asked_at: Moment,
        valid_for: Duration,
        cx: &mut SlotContext,
    ) {
        let Some(hold) = Hold::granted(&attempt, fences, asked_at, valid_for, cx.now) else {
            // The answer came so late that the hold has already expired in this client. A claim for a fair mutex is
            // repeated, because its slot has only one claim.
            if self.policy.serves == Serves::Followers && self.has_calls() {
                return self.send_claim(attempt, cx);
            }
            cx.emit(Effect::Release { claim: attempt.claim.clone(), unsure: attempt.unsure, report: None });
            return self.claim_next(cx);
        };
        cx.emit(Effect::HoldBegan);
        let id = hold.id();
        self.close_open_hold();
        self.holds.insert(Box::new(hold));
        self.fault = None;
        match self.policy.serves {
            Serves::Together => self.serve_readers(id, cx),
            Serves::Next | Serves::Followers => self.serve_next(id, None, cx),
        }
    }

    /// Decides what happens to a hold that has no turn now:
    /// - if no call waits, or the streak has reached a limit, the hold is released;
    /// - if the hold can serve the next call, the turn of that call starts;
    /// - if the hold can be passed to a new claim for the next call, one request releases it and claims the new one;
    /// - otherwise the hold is released.
    pub(super) fn serve_next(&mut self, id: HoldId, report: Option<Report>, cx: &mut SlotContext) {
        while self.queue.first().is_some_and(Call::has_gone) {
            self.queue.remove_first();
        }
        let Some(hold) = self.holds.get_present(id) else { return };
        let (is_first, streak) = (hold.is_before_first_turn(), hold.streak());
        if self.policy.serves == Serves::Followers && !is_first {
            return self.hand_over_in_queue(id, report, cx);
        }
        let Some(terms) = self.queue.first().map(|call| call.terms).filter(|_| is_first || self.hands_over()) else {
            return self.release_hold(id, report, cx);
        };
        if !is_first && streak.must_end(cx.now, cx.round_trip) {
            self.release_hold(id, report, cx);
            if matches!(self.stage, Stage::Idle) {
                self.rest(cx);
            }
            return;
        }
        match self.holds.change(id, |hold| hold.next_fence(terms, cx.now)).flatten() {
            Some(fence) => self.start_turn(id, fence, cx),
            None if self.can_pass(id, terms) => self.pass(id, terms, cx),
            None => return self.release_hold(id, report, cx),
        }
        if let Some(report) = report {
            cx.emit(Effect::Report(report, Ok(())));
        }
    }

    /// Lets the hold of a fair mutex serve the call that directly follows in the store's queue, if there is one and the
    /// streak has not ended. Otherwise releases the hold.
    fn hand_over_in_queue(&mut self, id: HoldId, report: Option<Report>, cx: &mut SlotContext) {
        let next = self.holds.change(id, |hold| {
            let can_serve = !cx.is_closing && !hold.streak().must_end(cx.now, cx.round_trip);
            let fence = can_serve.then(|| hold.next_fence(hold.terms(), cx.now)).flatten();
            fence.map(|fence| (fence, hold.terms()))
        });
        match next.flatten() {
            Some((fence, terms)) => cx.emit(Effect::HandOver { hold: id, fence, terms, report }),
            None => self.release_hold(id, report, cx),
        }
    }

    /// Starts the turn of a call that directly follows in the store's queue. If there is no such call any more, releases
    /// the hold.
    pub(super) fn follow(
        &mut self,
        id: HoldId,
        fence: Fence,
        follower: Option<Box<Call>>,
        report: Option<Report>,
        cx: &mut SlotContext,
    ) {
        let Some(call) = follower else { return self.release_hold(id, report, cx) };
        self.begin_turn(id, call, fence, cx);
        if let Some(report) = report {
            cx.emit(Effect::Report(report, Ok(())));
        }
    }

    /// Whether a hold is handed over to the next call in the queue of its slot. The calls for a fair mutex have their
    /// own slots, and readers get their turns when they arrive.
    fn hands_over(&self) -> bool {
        self.policy.serves == Serves::Next
    }

    /// Whether a hold can be passed to a new claim with these terms. If an attempt exists already, the hold is released
    /// instead.
    fn can_pass(&self, id: HoldId, terms: Terms) -> bool {
        let kind = self.holds.get(id).map(|hold| hold.terms().kind);
        matches!(self.stage, Stage::Idle) && kind.is_some_and(|kind| check_pass(kind, terms.kind).is_ok())
    }

    /// Starts the turn of the first call in the queue. If no other call can get the key now, all `try_lock` calls are
    /// answered with "held", unless they share the turn.
    fn start_turn(&mut self, id: HoldId, fence: Fence, cx: &mut SlotContext) {
        let Some(call) = self.queue.remove_first() else { return };
        if self.policy.holds == HoldsAtOnce::One {
            for other in self.queue.remove_try_locks(|other| !other.shares_with(&call)) {
                cx.emit(Effect::Refuse(other));
            }
        }
        self.begin_turn(id, call, fence, cx);
    }

    /// Starts the turn of a call that has left the queue.
    pub(super) fn begin_turn(&mut self, id: HoldId, call: Box<Call>, fence: Fence, cx: &mut SlotContext) {
        let now = cx.now;
        let started = self.holds.change(id, |hold| {
            let is_handed_over = !hold.is_before_first_turn();
            (is_handed_over, hold.terms().ttl, hold.start_turn(call.ticket, fence, call.caller, now))
        });
        let Some((is_handed_over, ttl, status)) = started else { return };
        let waited = call.wait.since.map(|since| now.since(since)).unwrap_or_default();
        cx.emit(Effect::StartTurn { call, turn: NewTurn { hold: id, fence, ttl, status, waited, is_handed_over } });
    }

    /// Releases the hold and claims a new one, in one request. So no other client can get the key between the two.
    fn pass(&mut self, id: HoldId, terms: Terms, cx: &mut SlotContext) {
        let Some(hold) = self.take_hold(id) else { return };
        let mut attempt = cx.new_attempt(&self.id, terms);
        attempt.from = Some(hold.as_old());
        attempt.streak = Some(hold.streak());
        self.send_claim(attempt, cx);
    }

    /// Releases a hold. After that, the stage is `Releasing` if the slot hands holds over, no call waits, and this was the
    /// only hold.
    pub(super) fn release_hold(&mut self, id: HoldId, report: Option<Report>, cx: &mut SlotContext) {
        let Some(hold) = self.take_hold(id) else { return };
        release(&hold, report, cx);
        let is_last = self.queue.is_empty() && !self.is_held() && matches!(self.stage, Stage::Idle);
        if is_last && self.hands_over() && !cx.is_closing {
            self.stage = Stage::Releasing(hold.streak());
        }
        // The released permits may be enough for the attempt. Its next claim is sent right behind the release.
        if self.policy.holds == HoldsAtOnce::UpToLimit {
            self.may_be_free(cx);
        }
    }

    /// Removes a hold that is not lost from the slot.
    pub(super) fn take_hold(&mut self, id: HoldId) -> Option<Box<Hold>> {
        self.holds.get_present(id)?;
        self.count_own_hold();
        self.holds.remove(id)
    }

    /// Called when a hold ends. If the calls that wait now waited for a hold of this client, they have learned that the
    /// key was held.
    fn count_own_hold(&mut self) {
        if self.queue.first().is_some_and(|call| !self.fits(call.terms)) {
            self.refusals += 1;
        }
    }

    /// Handles the end of a turn: its last guard was dropped or released.
    pub(super) fn turn_ended(&mut self, id: HoldId, ticket: Ticket, report: Option<Report>, cx: &mut SlotContext) {
        let Some(turn) = self.holds.change(id, |hold| hold.end_turn(ticket)).flatten() else {
            self.downgrade_dropped(ticket, cx);
            if let Some(report) = report {
                // The client was closed, and its close has released the hold.
                cx.emit(Effect::Report(report, Err(Error::closed())));
            }
            return;
        };
        let now = cx.now;
        let Some(hold) = self.holds.get(id) else { return };
        if hold.is_lost() || turn.is_lost(now) {
            return self.lost_turn_ended(id, &turn, report, cx);
        }
        turn.status.release();
        if hold.turns().is_empty() {
            // The next turn is started before the end of this turn is reported, because the next caller waits.
            self.serve_next(id, report, cx);
        } else {
            if !hold.has_live_turn(now) {
                self.lose_quietly(id);
            }
            if let Some(report) = report {
                cx.emit(Effect::Report(report, Ok(())));
            }
        }
        cx.emit(Effect::TurnEnded { held_for: now.since(turn.since), released: Some(turn.fence) });
    }

    /// Ends a turn that was lost. If this was the last turn of its hold, the hold is released, because the store may
    /// still have it.
    fn lost_turn_ended(&mut self, id: HoldId, turn: &TurnRecord, report: Option<Report>, cx: &mut SlotContext) {
        let now = cx.now;
        let Some(hold) = self.holds.get(id) else { return };
        // Whether the turn is lost, but the slot has not processed the loss yet.
        let is_news = !hold.is_lost();
        let is_last = hold.turns().is_empty();
        // A hold of readers can have thousands of turns, so they are read only if this is the news of the loss.
        let loses_all = is_news && !is_last && !hold.has_live_turn(now);
        let by_max_hold = turn.max_hold_has_ended(now);
        if is_news && (is_last || by_max_hold) {
            cx.emit(Effect::Lost { fence: Some(turn.fence), loss: hold.loss(by_max_hold) });
        }
        if loses_all {
            self.lose_quietly(id);
        }
        cx.emit(Effect::TurnEnded { held_for: now.since(turn.since), released: None });
        if is_last {
            self.count_own_hold();
            // The release is sent before the next claim. In the reverse order, the store would refuse the claim because
            // of this client's own hold.
            if let Some(hold) = self.holds.remove(id) {
                release(&hold, None, cx);
            }
        }
        if let Some(report) = report {
            cx.emit(Effect::Report(report, Err(Error::lost(self.key()))));
        }
    }

    /// Plans to wake the futures of a turn when `grace` is left before the deadline.
    pub(super) fn warn_before(&mut self, id: HoldId, ticket: Ticket, grace: Duration, cx: &SlotContext) {
        if self.holds.get_present(id).is_some() {
            self.holds.change(id, |hold| hold.warn_before(ticket, grace, cx.now));
        }
    }

    /// Extends the fixed lease of a hold to at least this time from now. If the hold is lost, the report is dropped.
    pub(super) fn extend(&mut self, id: HoldId, ttl: Duration, report: Report, cx: &mut SlotContext) {
        let Some(hold) = self.holds.get_present(id) else { return };
        if hold.terms().watchdog {
            let error =
                Error::misused("the watchdog renews this lock; only a fixed lease (lease(ttl)) can be extended");
            return cx.emit(Effect::Report(report, Err(error)));
        }
        if self.holds.change(id, |hold| hold.extend(ttl, report, cx.now)).unwrap_or_default() {
            cx.emit(Effect::Renew(id));
        }
    }

    /// Ends the turn, and leaves its hold in the store. If that is not possible, the hold stays as it is. If the hold is lost,
    /// the report is dropped.
    pub(super) fn detach(&mut self, id: HoldId, ticket: Ticket, report: Report, cx: &mut SlotContext) {
        if self.holds.get_present(id).is_none() || report.is_closed() {
            return; // The guard of a caller that has gone releases the lock.
        }
        let now = cx.now;
        let refusal = self.holds.change(id, |hold| hold.refuses_to_detach(now)).flatten();
        if let Some(error) = refusal {
            return cx.emit(Effect::Report(report, Err(error)));
        }
        let Some(turn) = self.holds.change(id, |hold| hold.end_turn(ticket)).flatten() else { return };
        if turn.is_lost(now) {
            return self.lost_turn_ended(id, &turn, Some(report), cx);
        }
        turn.status.release();
        let Some(hold) = self.take_hold(id) else { return };
        cx.emit(Effect::Detached { until: hold.store_until() });
        cx.emit(Effect::TurnEnded { held_for: now.since(turn.since), released: None });
        cx.emit(Effect::Report(report, Ok(())));
    }

    /// Answers the callers that have extended the lease with the renewal that was sent at `asked_at`.
    fn extension_answered(&mut self, id: HoldId, asked_at: Moment, answer: &Result<()>, cx: &mut SlotContext) {
        for report in self.holds.change(id, |hold| hold.extension_answered(asked_at)).unwrap_or_default() {
            cx.emit(Effect::Report(report, answer.clone()));
        }
    }

    /// Renews the holds now, to find out whether the store still has them.
    pub(super) fn renew_now(&mut self, cx: &mut SlotContext) {
        let ids: Vec<_> = self.holds.iter().filter(|hold| !hold.is_lost()).map(Hold::id).collect();
        for id in ids {
            if self.holds.change(id, |hold| hold.renew_now(cx.now)).unwrap_or_default() {
                cx.emit(Effect::Renew(id));
            }
        }
        self.renew_downgrade(cx);
    }

    /// Handles the end of a renewal.
    pub(super) fn renewed(&mut self, id: HoldId, asked_at: Moment, answer: Result<Renewal>, cx: &mut SlotContext) {
        let now = cx.now;
        if self.downgraded_hold(id).is_some() {
            return self.downgrade_renewed(id, asked_at, answer, cx);
        }
        if self.holds.get_present(id).is_none() {
            return self.place_renewed(id, answer, cx);
        }
        match answer {
            Ok(Renewal::Extended { valid_for }) => {
                let effect = self.holds.change(id, |hold| hold.extended(asked_at, valid_for, now));
                match effect.unwrap_or(RenewalEffect::Unchanged) {
                    RenewalEffect::Renewed => cx.emit(Effect::Renewed),
                    RenewalEffect::Unchanged => {}
                    RenewalEffect::TooLate => return self.lose(id, cx),
                }
                self.extension_answered(id, asked_at, &Ok(()), cx);
            }
            // If the renewal was sent before the claim was granted, it was the renewal of a place, and the hold began later.
            Ok(Renewal::Gone) => {
                if self.holds.get(id).is_none_or(|hold| !hold.began_after(asked_at)) {
                    return self.lose(id, cx);
                }
                self.holds.change(id, |hold| hold.renewal_failed(asked_at, now, Duration::ZERO));
            }
            // The store does not have the hold, but a place of its claim: a late request of the claim has got this place
            // after the hold had ended, or another server has taken over without the grant.
            Ok(Renewal::Waiting { .. }) => {
                if self.holds.get(id).is_some_and(|hold| hold.began_before(asked_at)) {
                    return self.lose(id, cx);
                }
                self.holds.change(id, |hold| hold.renewal_failed(asked_at, now, Duration::ZERO));
            }
            Err(error) => {
                let timeout = cx.timeout;
                self.holds.change(id, |hold| hold.renewal_failed(asked_at, now, timeout));
                self.extension_answered(id, asked_at, &Err(error.clone()), cx);
                cx.emit(Effect::RenewalFailed(error));
            }
        }
    }

    /// Handles the end of a renewal that kept the place of a waiting claim. If the claim is the next one of the queue, it
    /// is sent at once. The places before it may have expired, which causes no notification. If the place has
    /// expired, the claim is sent again, and gets a new place.
    fn place_renewed(&mut self, id: HoldId, answer: Result<Renewal>, cx: &mut SlotContext) {
        match answer {
            Ok(Renewal::Gone) => {
                if let Stage::Waiting { attempt, .. } = &mut self.stage
                    && attempt.claim.id.number == id
                {
                    attempt.has_lost_place();
                    self.claim_next(cx);
                }
            }
            // Only a slot with a single claim renews a place. So the answer is for the present attempt.
            Ok(Renewal::Waiting { is_next: true }) => self.may_be_free(cx),
            Ok(Renewal::Waiting { is_next: false } | Renewal::Extended { .. }) => {}
            // The place is renewed several times before it expires, so the next renewal is soon enough.
            Err(error) => cx.emit(Effect::RenewalFailed(error)),
        }
    }

    /// Handles the loss of a hold. The guards of its turns are lost, and the slot claims the key again if calls wait.
    pub(super) fn lose(&mut self, id: HoldId, cx: &mut SlotContext) {
        let Some(hold) = self.holds.get_present(id) else { return };
        cx.emit(Effect::Lost { fence: hold.fence(), loss: hold.loss(hold.max_hold_has_ended(cx.now)) });
        self.lose_quietly(id);
        self.claim_next(cx);
    }

    /// Marks a hold as lost, without a report.
    pub(super) fn lose_quietly(&mut self, id: HoldId) {
        self.count_own_hold();
        self.holds.change(id, Hold::lose);
    }

    /// Begins a rest: for a few round trips this client does not claim the key, so that other clients can get it.
    pub(super) fn rest(&mut self, cx: &SlotContext) {
        self.stage = Stage::Resting { until: end_of_rest(cx.now, cx.round_trip) };
    }
}

/// Releases a hold that has left the slot.
pub(super) fn release(hold: &Hold, report: Option<Report>, cx: &mut SlotContext) {
    // An offer reserves the key for clients that have waited for a long time and ask for offers. Clients of other
    // libraries, such as Redisson for Java, cannot ask. So during an offer, clients of other libraries do not get the
    // key. To give them a chance, a hold whose own claim has asked for an offer makes another offer in only half of the
    // cases.
    let offers = hold.streak().offers_at_end(cx.now) && (!hold.claim().offers || fastrand::bool());
    let claim = Claim { offers, ..hold.claim().clone() };
    cx.emit(Effect::Release { claim, unsure: hold.is_unsure(), report });
}
