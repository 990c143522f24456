//! The downgrade: a writer becomes a reader, and no other writer gets the key between the two.
//!
//! One request (`Step::Pass`) releases the writer's hold and claims a hold of readers. The slot of the writers sends the
//! request. After the grant, the new hold moves to the slot of the readers ([`super::Event::Adopt`]). Until then, the writer's
//! turn stays valid until its deadline, although its hold has left the slot. The hold is not renewed in this time: a
//! store that would answer a renewal also answers the pass.
//!
//! A request without an answer is repeated with the same claims until that deadline. If the caller drops its future,
//! the request is not repeated any more, and both claims are released.

use std::{num::NonZeroU8, time::Duration};

use bandog_core::{Error, Fences, Kind, Moment, Result, Verdict};

use super::{
    Call, Effect, NewCall, Slot, SlotContext, attempt::Attempt, claiming::end_attempt, hold::Hold, turn::Turn,
};
use crate::{
    caller::Caller,
    engine::{
        backoff::backoff_after,
        msg::{HoldId, Patience, Terms, Ticket},
    },
};

/// A call that wants to become a reader.
pub(in crate::engine) struct NewDowngrade<C> {
    /// The hold and the ticket of the writer's turn.
    pub(in crate::engine) hold: HoldId,
    pub(in crate::engine) turn: Ticket,
    /// The ticket of the reader's turn.
    pub(in crate::engine) ticket: Ticket,
    pub(in crate::engine) caller: Caller,
    /// Where the answer to the call goes.
    pub(in crate::engine) call: C,
}

/// A hold that was granted by a downgrade, and the call that gets its first turn.
pub(in crate::engine) struct Adoption<C> {
    hold: Box<Hold>,
    call: Option<NewCall<C>>,
}

/// A downgrade that is not answered yet.
pub(super) struct Downgrade<C> {
    attempt: Box<Attempt>,
    /// The writer's turn.
    turn: Turn,
    /// The deadline of the writer's turn.
    deadline: Moment,
    /// `None` after the call was answered with an error.
    call: Option<NewCall<C>>,
    /// When the request is repeated. `None` while it is in flight.
    retry_at: Option<Moment>,
}

impl<C> Downgrade<C> {
    pub(super) fn is_in_flight(&self) -> bool {
        self.retry_at.is_none()
    }

    /// When the slot's timer must fire.
    pub(super) fn next_due(&self) -> Option<Moment> {
        let deadline = self.call.as_ref().map(|_| self.deadline);
        [deadline, self.retry_at].into_iter().flatten().min()
    }

    /// Marks the writer's turn as lost.
    pub(super) fn lose(&self) {
        self.turn.status.lose();
    }
}

impl<C: Call> Slot<C> {
    /// Sends the request of a downgrade.
    pub(super) fn downgrade(&mut self, downgrade: NewDowngrade<C>, cx: &mut SlotContext<C>) {
        let NewDowngrade { hold: id, turn, ticket, caller, call } = downgrade;
        let terms = self.holds.get_present(id).map(Hold::terms).filter(|_| self.downgrade.is_none());
        let turn = terms.and_then(|_| self.holds.change(id, |hold| hold.end_turn(turn)).flatten());
        let (Some(terms), Some(turn)) = (terms, turn) else {
            // The hold is lost. It is released when the caller drops the writer's turn.
            return cx.emit(Effect::Fail(call, Error::lost(self.key()).during("downgrade")));
        };
        let Some(hold) = self.take_hold(id) else { return };
        if hold.is_unsure() {
            cx.emit(Effect::ReleaseLater(hold.claim().clone()));
        }
        let terms = Terms { kind: Kind::Read, fences: NonZeroU8::MIN, ..terms };
        let mut attempt = cx.new_attempt(&self.id, terms);
        attempt.from = Some(hold.claim().clone());
        let deadline = turn.deadline(hold.until());
        let call = Some(NewCall { ticket, caller, terms, patience: Patience::Forever, call });
        self.downgrade = Some(Box::new(Downgrade { attempt, turn, deadline, call, retry_at: None }));
        self.send_downgrade(cx);
    }

    fn send_downgrade(&mut self, cx: &mut SlotContext<C>) {
        let Some(downgrade) = &mut self.downgrade else { return };
        downgrade.retry_at = None;
        cx.emit(Effect::Send(downgrade.attempt.next_step(cx.now, false, false, cx.round_trip)));
    }

    /// Whether this claim is the one of a downgrade in flight.
    pub(super) fn downgrades_to(&self, claim: HoldId) -> bool {
        self.downgrade
            .as_ref()
            .is_some_and(|downgrade| downgrade.is_in_flight() && downgrade.attempt.claim.id.number == claim)
    }

    /// Handles the end of a downgrade's request.
    pub(super) fn downgrade_answered(&mut self, asked_at: Moment, answer: Result<Verdict>, cx: &mut SlotContext<C>) {
        let Some(mut downgrade) = self.downgrade.take() else { return };
        match answer {
            Ok(Verdict::Granted { fences, valid_for, .. }) => {
                downgraded(self, *downgrade, fences, asked_at, valid_for, cx)
            }
            // The writer's hold does not exist any more.
            Ok(Verdict::Busy { .. }) => {
                downgrade.attempt.from = None;
                self.end_downgrade(*downgrade, Error::lost(self.key()), cx);
            }
            Err(error) => {
                downgrade.attempt.unsure |= error.maybe_applied();
                downgrade.attempt.faults += 1;
                let is_wanted = downgrade.call.as_ref().is_some_and(|call| !call.call.has_gone());
                if !error.is_retryable() || !is_wanted || cx.is_closing {
                    return self.end_downgrade(*downgrade, error, cx);
                }
                downgrade.retry_at = Some(cx.now + backoff_after(downgrade.attempt.faults));
                self.downgrade = Some(downgrade);
            }
        }
    }

    /// Handles the slot's timer.
    pub(super) fn downgrade_is_due(&mut self, cx: &mut SlotContext<C>) {
        let Some(downgrade) = &mut self.downgrade else { return };
        if downgrade.call.is_some() && downgrade.deadline <= cx.now {
            self.fail_downgrade(&Error::lost(&self.id.key), cx);
        } else if downgrade.retry_at.is_some_and(|moment| moment <= cx.now) {
            self.send_downgrade(cx);
        }
    }

    /// Handles the drop of the future that waits for a downgrade. `turn`: the ticket of the writer's turn, which that
    /// future has dropped.
    pub(super) fn downgrade_dropped(&mut self, turn: Ticket, cx: &mut SlotContext<C>) {
        if let Some(downgrade) = self.downgrade.as_ref().filter(|downgrade| downgrade.turn.ticket == turn) {
            downgrade.turn.status.release();
            self.fail_downgrade(&Error::closed(), cx);
        }
    }

    /// Answers the call with an error. If the request is in flight, the slot still waits for its answer.
    pub(super) fn fail_downgrade(&mut self, error: &Error, cx: &mut SlotContext<C>) {
        let Some(mut downgrade) = self.downgrade.take() else { return };
        if !downgrade.is_in_flight() {
            return self.end_downgrade(*downgrade, error.clone(), cx);
        }
        fail(&mut downgrade, error, cx);
        self.downgrade = Some(downgrade);
    }

    /// Ends a downgrade that is not in flight and was not granted.
    fn end_downgrade(&self, mut downgrade: Downgrade<C>, error: Error, cx: &mut SlotContext<C>) {
        fail(&mut downgrade, &error.during("downgrade").at(self.key()), cx);
        end_attempt(&downgrade.attempt, cx);
    }

    /// Takes over a hold that was granted by a downgrade.
    pub(super) fn adopt(&mut self, adoption: Adoption<C>, cx: &mut SlotContext<C>) {
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

/// Answers the call with an error, and marks the writer's turn as lost.
fn fail<C>(downgrade: &mut Downgrade<C>, error: &Error, cx: &mut SlotContext<C>) {
    let Some(call) = downgrade.call.take() else { return };
    downgrade.turn.status.lose();
    cx.emit(Effect::TurnEnded { held_for: cx.now.since(downgrade.turn.since), released: None });
    cx.emit(Effect::Fail(call.call, error.clone()));
}

/// Handles the grant of a downgrade.
fn downgraded<C: Call>(
    slot: &Slot<C>,
    downgrade: Downgrade<C>,
    fences: Fences,
    asked_at: Moment,
    valid_for: Duration,
    cx: &mut SlotContext<C>,
) {
    let mut downgrade = downgrade;
    // If the writer's turn was lost before, the store has perhaps granted the claim after another holder.
    let is_lost = downgrade.turn.is_lost(cx.now);
    let hold = Hold::granted(&downgrade.attempt, fences, asked_at, valid_for, cx.now).filter(|_| !is_lost);
    let Some(hold) = hold else {
        downgrade.attempt.from = None;
        fail(&mut downgrade, &Error::lost(slot.key()).during("downgrade"), cx);
        let (claim, unsure) = (downgrade.attempt.claim.clone(), downgrade.attempt.unsure);
        return cx.emit(Effect::Release { claim, unsure, report: None });
    };
    downgrade.turn.status.release();
    cx.emit(Effect::TurnEnded { held_for: cx.now.since(downgrade.turn.since), released: None });
    cx.emit(Effect::Adopt(Box::new(Adoption { hold: Box::new(hold), call: downgrade.call })));
}
