//! The downgrade: a writer becomes a reader, and no other writer gets the key between the two.
//!
//! One request (`Step::Pass`) releases the writer's hold and claims a hold of readers. The slot of the writers sends the
//! request. After the grant, the new hold moves to the slot of the readers ([`super::Event::Adopt`]). Until then, the writer's
//! turn stays valid until its deadline, although its hold has left the slot. The hold is still renewed in this time: most
//! servers of a quorum may have no vote, so they answer renewals, and their answers to the pass do not count.
//!
//! A request without an answer is repeated with the same claims until that deadline. If the caller drops its future,
//! the request is not repeated any more, and both claims are released.

use std::{num::NonZeroU8, time::Duration};

use bandog_core::{Error, Fences, Kind, Moment, Renewal, Result, Verdict};

use super::{
    claiming::end_attempt,
    event::{Effect, SlotContext},
    hold::{Hold, HoldDue, RenewalEffect},
    pending_downgrade::{Adoption, Downgrade},
    state::Slot,
    turn::TurnRecord,
};
use crate::{
    engine::{backoff::backoff_after, call::Call},
    terms::{HoldId, Terms, Ticket},
};

impl Slot {
    /// Sends the request of a downgrade.
    pub(super) fn downgrade(&mut self, id: HoldId, turn: Ticket, mut call: Box<Call>, cx: &mut SlotContext) {
        let has_turn = self.holds.get_present(id).is_some_and(|hold| hold.turns().iter().any(|own| own.ticket == turn));
        let hold = if has_turn && self.downgrade.is_none() { self.take_hold(id) } else { None };
        let Some(hold) = hold else {
            // The hold is lost. It is released when the caller drops the writer's turn.
            return cx.emit(Effect::Fail(call, Error::lost(self.key()).during("downgrade")));
        };
        let terms = Terms { kind: Kind::Read, fences: NonZeroU8::MIN, ..hold.terms() };
        let mut attempt = cx.new_attempt(&self.id, terms);
        attempt.from = Some(hold.as_old());
        call.terms = terms;
        self.downgrade = Some(Box::new(Downgrade { attempt, hold, call: Some(call), retry_at: None }));
        self.send_downgrade(cx);
    }

    fn send_downgrade(&mut self, cx: &mut SlotContext) {
        let Some(downgrade) = &mut self.downgrade else { return };
        downgrade.retry_at = None;
        cx.emit(Effect::Send(downgrade.attempt.plain_step()));
    }

    /// Whether this claim is the one of a downgrade in flight.
    pub(super) fn downgrades_to(&self, claim: HoldId) -> bool {
        self.downgrade
            .as_ref()
            .is_some_and(|downgrade| downgrade.is_in_flight() && downgrade.attempt.claim.id.number == claim)
    }

    /// Handles the end of a downgrade's request.
    pub(super) fn downgrade_answered(&mut self, asked_at: Moment, answer: Result<Verdict>, cx: &mut SlotContext) {
        let Some(mut downgrade) = self.downgrade.take() else { return };
        match answer {
            Ok(Verdict::Granted { fences, valid_for, .. }) => {
                downgraded(self, *downgrade, fences, asked_at, valid_for, cx)
            }
            // The writer's hold does not exist any more.
            Ok(Verdict::Busy { .. }) => {
                writer_has_ended(&mut downgrade, cx);
                self.end_downgrade(*downgrade, Error::lost(self.key()), cx);
            }
            Err(error) => {
                downgrade.attempt.unsure |= error.maybe_applied();
                downgrade.attempt.faults += 1;
                let is_wanted = downgrade.call.as_ref().is_some_and(|call| !call.has_gone());
                if !error.is_retryable() || !is_wanted || cx.is_closing {
                    return self.end_downgrade(*downgrade, error, cx);
                }
                downgrade.retry_at = Some(cx.now + backoff_after(downgrade.attempt.faults));
                self.downgrade = Some(downgrade);
            }
        }
    }

    /// Handles the slot's timer.
    pub(super) fn downgrade_is_due(&mut self, cx: &mut SlotContext) {
        let Some(downgrade) = &mut self.downgrade else { return };
        let due = downgrade.call.as_ref().map_or(HoldDue::Nothing, |_| downgrade.hold.due(cx.now));
        if due == HoldDue::Lost {
            return self.fail_downgrade(&Error::lost(&self.id.key), cx);
        }
        if due == HoldDue::Renewal {
            cx.emit(Effect::Renew(downgrade.hold.id()));
        }
        if downgrade.retry_at.is_some_and(|moment| moment <= cx.now) {
            self.send_downgrade(cx);
        }
    }

    /// Renews the writer's hold of a downgrade now.
    pub(super) fn renew_downgrade(&mut self, cx: &mut SlotContext) {
        if let Some(downgrade) = self.downgrade.as_mut().filter(|downgrade| downgrade.call.is_some())
            && downgrade.hold.renew_now(cx.now)
        {
            cx.emit(Effect::Renew(downgrade.hold.id()));
        }
    }

    /// The writer's hold of a downgrade, if it has this number and is renewed.
    pub(super) fn downgraded_hold(&mut self, id: HoldId) -> Option<&mut Hold> {
        self.downgrade.as_mut().filter(|downgrade| downgrade.renews(id)).map(|downgrade| &mut *downgrade.hold)
    }

    /// Handles the end of a renewal of the writer's hold.
    pub(super) fn downgrade_renewed(
        &mut self,
        id: HoldId,
        asked_at: Moment,
        answer: Result<Renewal>,
        cx: &mut SlotContext,
    ) {
        let now = cx.now;
        let Some(hold) = self.downgraded_hold(id) else { return };
        match answer {
            Ok(Renewal::Extended { valid_for }) => match hold.extended(asked_at, valid_for, now) {
                RenewalEffect::Renewed => cx.emit(Effect::Renewed),
                RenewalEffect::Unchanged => {}
                RenewalEffect::TooLate => self.fail_downgrade(&Error::lost(&self.id.key), cx),
            },
            // A request without an answer may have passed the hold. The next answer to the pass shows it.
            Ok(Renewal::Gone | Renewal::Waiting { .. }) => hold.renewal_failed(asked_at, now, cx.timeout),
            Err(error) => {
                hold.renewal_failed(asked_at, now, cx.timeout);
                cx.emit(Effect::RenewalFailed(error));
            }
        }
    }

    /// Handles the drop of the future that waits for a downgrade. `turn`: the ticket of the writer's turn, which that
    /// future has dropped.
    pub(super) fn downgrade_dropped(&mut self, turn: Ticket, cx: &mut SlotContext) {
        let mut turns = self.downgrade.iter().flat_map(|downgrade| downgrade.hold.turns().iter());
        if let Some(writer) = turns.find(|own| own.ticket == turn) {
            writer.status.release();
            drop(turns);
            self.fail_downgrade(&Error::closed(), cx);
        }
    }

    /// Answers the call with an error. If the request is in flight, the slot still waits for its answer.
    pub(super) fn fail_downgrade(&mut self, error: &Error, cx: &mut SlotContext) {
        let Some(mut downgrade) = self.downgrade.take() else { return };
        if !downgrade.is_in_flight() {
            return self.end_downgrade(*downgrade, error.clone(), cx);
        }
        fail(&mut downgrade, error, cx);
        self.downgrade = Some(downgrade);
    }

    /// Ends a downgrade that is not in flight and was not granted.
    fn end_downgrade(&self, mut downgrade: Downgrade, error: Error, cx: &mut SlotContext) {
        fail(&mut downgrade, &error.during("downgrade").at(self.key()), cx);
        end_attempt(&downgrade.attempt, cx);
    }

    /// Takes over a hold that was granted by a downgrade.
    pub(super) fn adopt(&mut self, adoption: Adoption, cx: &mut SlotContext) {
        let Adoption { hold, call } = adoption;
        let id = hold.id();
        self.close_open_hold();
        self.holds.insert(hold);
        if let Some(call) = call {
            self.enqueue(call, None, cx);
        }
        self.serve_readers(id, cx);
    }
}

/// Records that the store does not have the writer's hold any more.
fn writer_has_ended(downgrade: &mut Downgrade, cx: &mut SlotContext) {
    if let Some(claim) = downgrade.attempt.old_hold_has_ended() {
        cx.emit(Effect::ReleaseLater(claim));
    }
}

/// The writer's turn has ended. Its end is reported.
fn end_turn(downgrade: &Downgrade, cx: &mut SlotContext, end: impl Fn(&TurnRecord)) {
    for turn in downgrade.hold.turns().iter() {
        end(turn);
        cx.emit(Effect::TurnEnded { held_for: cx.now.since(turn.since), released: None });
    }
}

/// Answers the call with an error, and marks the writer's turn as lost.
fn fail(downgrade: &mut Downgrade, error: &Error, cx: &mut SlotContext) {
    let Some(call) = downgrade.call.take() else { return };
    end_turn(downgrade, cx, |turn| turn.status.lose());
    cx.emit(Effect::Fail(call, error.clone()));
}

/// Handles the grant of a downgrade.
fn downgraded(
    slot: &Slot,
    downgrade: Downgrade,
    fences: Fences,
    asked_at: Moment,
    valid_for: Duration,
    cx: &mut SlotContext,
) {
    let mut downgrade = downgrade;
    writer_has_ended(&mut downgrade, cx);
    // If the writer's turn was lost before, the store may have granted the claim after another holder.
    let is_lost = !downgrade.hold.has_live_turn(cx.now);
    let hold = Hold::granted(&downgrade.attempt, fences, asked_at, valid_for, cx.now).filter(|_| !is_lost);
    let Some(hold) = hold else {
        fail(&mut downgrade, &Error::lost(slot.key()).during("downgrade"), cx);
        let (claim, unsure) = (downgrade.attempt.claim.clone(), downgrade.attempt.unsure);
        return cx.emit(Effect::Release { claim, unsure, report: None });
    };
    if downgrade.call.is_some() {
        // Otherwise the caller has dropped its future, which has ended the writer's turn.
        end_turn(&downgrade, cx, |turn| turn.status.release());
    }
    cx.emit(Effect::Adopt(Box::new(Adoption { hold: Box::new(hold), call: downgrade.call })));
}
