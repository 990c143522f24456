//! The state machine of one key and one kind of lock in this client. [`Slot::on`] takes an event and answers with effects.
//! The state machine does no I/O, reads no clock and has no channel. So a test can send it any sequence of events
//! (`tests`).
//!
//! # Words
//! - *Claim*: a request for the key, with an id. A claim without an answer is repeated with the same id.
//! - *In flight*: sent to the store, and not answered yet.
//! - *Hold*: what the store gives for a claim. The key, or a share of it, belongs to this client until the hold's
//!   deadline.
//! - *Turn*: it begins when a call gets the hold, and ends when the last guard of the turn is dropped. A hold serves
//!   the waiting calls of this client, one turn after another. Calls of one owner can share a turn.
//! - *Open hold*: a hold of readers that serves further readers without a request to the store, all at the same time.
//! - *Place*: a position in the store's queue, which a refused claim can get ([`bandog_core::Claim::joins`]).
//! - *Hand over*: a hold serves the next waiting call of this client, without a request.
//! - *Pass*: one request that releases a hold and claims a new one, so that no other client can get the key between the
//!   two ([`bandog_core::Step::Pass`]).
//! - *Streak*: consecutive turns of this client at the key, during which other clients had no chance to get the key.
//! - *Rest*: a pause after a streak, in which this client does not claim the key, so that other clients can get it.
//! - *Unsure claim*: a claim for which a request was sent and not answered. The store may have applied that request, or
//!   may still apply it.
//!
//! # Stages
//! A slot has holds, and a stage, which describes its present attempt to get a further hold.
//! ```text
//!          lock                    busy, or no answer
//!   Idle ---------> Claiming ---------------------------------> Waiting
//!    ^ ^               |  ^ ^                                      |
//!    | |      granted  |  |  \------- notification, timer ---------/
//!    | \--------------/   | pass
//!    +- Releasing <--- a hold ends --- streak ends ---> Resting --- timer ---> Claiming
//! ```
//!
//! - A mutex, and the side of the writers, has at most one hold, and no attempt while it has that hold ([`Slot::fits`]).
//!   The slot of a semaphore can have many holds. The slot of the readers has an open hold, and may have older holds,
//!   which end when their last turn ends.
//! - Each call for a fair mutex has a slot of its own, with one claim for the whole life of the slot. So the order of
//!   all calls is the order of the store's queue. A hold of such a slot also serves the calls of this client that directly
//!   follow in that queue. They leave their own slots ([`Effect::HandOver`]).
//! - The slot of a semaphore can send further claims beside its attempt (`further`).
//! - A lost hold stays in the slot until the guards of its turns are dropped.
//! - `Waiting` ends in `Idle` when the last waiting call has left.
//! - `Claiming` always lasts until the answer arrives, even if all waiting calls have left. Only the answer shows
//!   whether there is a hold to release.
//! - In `Releasing`, the release of the last hold is in flight and no call waits. A call that arrives in this stage
//!   continues the streak: the slot goes to `Claiming`, or to `Resting` if the streak has reached its limit.
//!
//! # A dropped future
//! A user can drop the future of a call at any time. Before the answer, the drop causes [`Event::Cancel`]. What happens
//! then depends on the state of the call:
//!
//! **The claim is in flight.** [`Event::Cancel`] removes the call from the queue. The claim is not released yet: the
//! store can apply the claim at any time, so a release could overtake the claim and find nothing to release. The slot
//! stays in [`Stage::Claiming`] until the answer arrives. There are three cases:
//! - *Granted*: the next waiting call gets the hold. If no call waits, the hold is released.
//! - *Busy* (another client holds the key): if other calls wait, the slot continues to wait for the key. If no call
//!   waits, the slot becomes idle. The claim is also released in three cases: an earlier request of the claim had no
//!   answer, or the claim has asked for a place, or one of its requests has reported to the store that this client
//!   *starves* (has waited for a second while the lock changed hands, see `streak`).
//! - *No answer*: the store may have applied the claim, or may still apply it. If other calls wait, the claim is
//!   repeated with the same id. If no call waits, the claim is released. That release is repeated until the store has
//!   answered it. One request timeout later the release is sent once more, because the store may have applied the claim
//!   in the meantime ([`super::releases`]). If the claim was sent in a pass, the old hold is released, too.
//!
//! **The grant has arrived, and the turn is in the oneshot of the call.** The oneshot is the channel for the call's
//! answer. The turn is dropped together with the oneshot. This ends the turn in the same way as the drop of a guard
//! does ([`Event::TurnEnded`]). A turn that the call shares with its owner is in the owner's table, and is dropped
//! there.
//!
//! **The call waits, and no claim is in flight.** [`Event::Cancel`] removes the call from the queue. If no other call
//! waits, the slot becomes idle. As in the case *busy*, the claim is released if it is unsure, has asked for a place or
//! has reported starvation.
//!
//! **The call is a follower of a fair mutex.** It waits in its own slot, as above, and the release of its claim removes
//! its place. Its ticket stays in the list of followers, and is skipped there. If the hold was handed over to it, it
//! has left its slot, which ignores the event. Then the drop of its turn hands the hold over to the next follower.
//!
//! **Further claims are in flight.** They belong to no call, and one request timeout is their limit. Granted: as above.
//! Busy: nothing remains of a further claim. No answer: it is released. The slot exists until all of them have ended.
//!
//! **A reader joins an open hold.** It needs no claim, so its turn starts when the call arrives, or never if the future
//! was dropped before ([`Call::has_gone`]). The drop of its turn ends this turn only. The last turn releases the hold.
//!
//! **A downgrade.** Its future has the writer's turn. The drop of this turn causes [`Event::TurnEnded`], which ends the
//! turn, and the hold is not renewed any more. If no request is in flight, both claims are released. Otherwise the slot
//! waits for the answer, for one request timeout at most. Granted: the new hold serves the readers of this client that
//! wait, or is released. Busy: claims that are unsure are released. No answer: both claims are released.
//!
//! **The call is part of a deadlock, and lingers** (`super::deadlocks`). It has left its slot, and its claim has ended
//! as if it had been cancelled. The next search, 100 ms later at most, drops it.
//!
//! A release that the store does not answer is repeated ([`super::releases`]). At the latest, the hold expires after
//! its ttl, and a place after [`bandog_core::PLACE`].
//!
//! # Modules
//! - `state`: the state of a slot; `event`: the events, the effects, and what a slot knows about its surroundings;
//! - `queue`: the waiting calls; `waiting`: how calls enter the queue, time out and leave;
//! - `attempt`: a claim that is not granted yet; `claiming`: how claims are sent and answered;
//! - `hold`: a granted hold with its deadline and renewals (`validity`; `lease`: a fixed lease); `holds`: the holds of one slot; `turn`: one
//!   turn; `turns`: how turns begin and end; `readers`: how readers share a hold;
//! - `further`, `further_claims`: further claims of a semaphore; `downgrade`, `pending_downgrade`: how a writer becomes a reader;
//! - `policy`: what distinguishes the kinds of locks; `polls`: when a waiting client claims again although no notification arrived;
//! - `streak`: how a busy client lets other clients get the key.

mod attempt;
mod claiming;
mod downgrade;
mod event;
mod further;
mod further_claims;
mod hold;
mod holds;
mod lease;
mod pending_downgrade;
mod policy;
mod polls;
mod queue;
mod readers;
mod state;
mod streak;
mod turn;
mod turns;
mod validity;
mod waiting;

use bandog_core::{Claim, Error, Moment};

use self::{
    attempt::Queued,
    hold::HoldDue,
    policy::{HoldsAtOnce, Serves},
    state::{Claiming, Stage, WakeUps},
    turns::release,
};
use crate::{
    caller::Caller,
    engine::call::Call,
    lane::SlotId,
    terms::{HoldId, Terms, Ticket},
};

pub(super) use self::{
    event::{Counts, Effect, Event, NewTurn, SlotContext},
    hold::Loss,
    state::Slot,
};
pub(crate) use self::{streak::MAX_TURNS, waiting::FIRST_ANSWER};

impl Slot {
    /// Handles an event, and adds the resulting effects to the context.
    pub(super) fn on(&mut self, event: Event, cx: &mut SlotContext) {
        match event {
            Event::Lock(call) => self.lock(call, cx),
            Event::Cancel(ticket) => drop(self.queue.remove(ticket)),
            Event::TurnEnded { hold, ticket, report } => self.turn_ended(hold, ticket, report, cx),
            Event::Follow { hold, fence, follower, report } => self.follow(hold, fence, follower, report, cx),
            Event::WarnBefore { hold, ticket, grace } => self.warn_before(hold, ticket, grace, cx),
            Event::Detach { hold, ticket, report } => self.detach(hold, ticket, report, cx),
            Event::Extend { hold, ttl, report } => self.extend(hold, ttl, report, cx),
            Event::Claimed { claim, asked_at, answer, has_older_call } => {
                self.claimed(claim, asked_at, answer, has_older_call, cx);
            }
            Event::Renewed { hold, asked_at, answer } => self.renewed(hold, asked_at, answer, cx),
            Event::Released { woke_no_client } => self.released(woke_no_client, cx),
            Event::ReleaseFailed => self.release_ended(),
            Event::Subscribed(subscription) => self.subscribed(subscription, cx),
            Event::Notified => self.notified(cx),
            Event::WriterWaits(waits) => self.writer_waits(waits),
            Event::Downgrade { hold, turn, call } => self.downgrade(hold, turn, call, cx),
            Event::Adopt(adoption) => self.adopt(*adoption, cx),
            Event::Reconnected => {
                self.renew_now(cx);
                self.may_be_free(cx);
            }
            Event::Recheck => self.renew_now(cx),
            Event::Due => self.due(cx),
            Event::Close => self.close(cx),
        }
        self.settle(cx);
    }

    /// The moment at which the slot needs [`Event::Due`].
    pub(super) fn next_due(&self) -> Option<Moment> {
        let stage = match &self.stage {
            Stage::Waiting { attempt, retry_at } => Some(attempt.place_due.map_or(*retry_at, |due| due.min(*retry_at))),
            Stage::Resting { until } => Some(*until),
            Stage::Idle | Stage::Claiming(_) | Stage::Releasing(_) => None,
        };
        let downgrade = self.downgrade.as_ref().and_then(|downgrade| downgrade.next_due());
        [stage, self.holds.next_due(), downgrade, self.queue.next_due()].into_iter().flatten().min()
    }

    /// Whether the slot has no call, no claim and no hold. The engine then removes it.
    pub(super) fn is_unused(&self) -> bool {
        let is_claiming = !matches!(self.stage, Stage::Idle) || self.further.len() > 0;
        self.queue.is_empty() && !is_claiming && self.holds.is_empty() && self.downgrade.is_none()
    }

    /// Whether a call waits for the store to grant the key.
    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty() && matches!(self.stage, Stage::Waiting { .. } | Stage::Claiming(_))
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether this call for a fair mutex holds the lock, or has its place behind the older calls of this client (see
    /// [`super::fair_calls`]).
    pub(super) fn is_in_order(&self) -> bool {
        let attempt = match &self.stage {
            Stage::Waiting { attempt, .. } | Stage::Claiming(Claiming { attempt, .. }) => Some(attempt),
            Stage::Idle | Stage::Resting { .. } | Stage::Releasing(_) => None,
        };
        self.is_held() || attempt.is_some_and(|attempt| matches!(attempt.queued, Queued::InOrder { .. }))
    }

    /// Number of the calls that wait for a hold of another call. A call whose first claim is in flight may get the lock
    /// with the answer, so it does not count.
    pub(super) fn waiting_calls(&self) -> usize {
        let is_first_claim = matches!(self.stage, Stage::Claiming(_)) && matches!(self.wake_ups, WakeUps::Off);
        let maybe_served = match self.policy.serves {
            Serves::Together if is_first_claim => self.queue.len(),
            _ => usize::from(is_first_claim) + self.further.len(),
        };
        self.queue.len().saturating_sub(maybe_served)
    }

    /// Whether a call with these terms does not wait for another call: it shares the hold of readers, or can have a claim
    /// of its own.
    pub(super) fn can_serve(&self, terms: Terms, cx: &SlotContext) -> bool {
        self.has_room(terms) || self.holds.open().is_some_and(|open| open.can_share(terms, cx.now, cx.round_trip))
    }

    /// Whether the call with this ticket waits.
    pub(super) fn has_call(&self, ticket: Ticket) -> bool {
        self.queue.get(ticket).is_some()
    }

    pub(super) fn id(&self) -> &SlotId {
        &self.id
    }

    pub(super) fn counts(&self) -> Counts {
        let downgrades = self.downgrade.as_ref().is_some_and(|downgrade| downgrade.is_in_flight());
        Counts {
            waiting: self.queue.len(),
            holds: self.holds.len(),
            claiming: usize::from(matches!(self.stage, Stage::Claiming(_)) || downgrades) + self.further.len(),
        }
    }

    /// Since when this task or thread has a turn that is not lost. `None` if it has no such turn.
    pub(super) fn turn_of(&self, caller: Caller) -> Option<Moment> {
        let holds = self.holds.iter().filter(|hold| !hold.is_lost());
        holds.filter_map(|hold| hold.turn_of(caller)).map(|turn| turn.since).min()
    }

    /// Removes a call from the queue. A claim in flight stays until its answer arrives.
    pub(super) fn take_call(&mut self, ticket: Ticket, cx: &mut SlotContext) -> Option<Box<Call>> {
        let call = self.queue.remove(ticket)?;
        self.settle(cx);
        Some(call)
    }

    /// The terms of a call that waits.
    pub(super) fn terms_of(&self, ticket: Ticket) -> Option<Terms> {
        self.queue.get(ticket).map(|call| call.terms)
    }

    /// Whether this is a hold of the slot, also a lost one, or the claim that waits with a place.
    pub(super) fn has_hold(&mut self, id: HoldId) -> bool {
        let waits = matches!(&self.stage, Stage::Waiting { attempt, .. } if attempt.claim.id.number == id);
        waits || self.downgraded_hold(id).is_some() || self.holds.get(id).is_some()
    }

    /// The claim for a renewal that is sent now. `None` means that the hold or the wait has ended since the renewal was
    /// requested.
    pub(super) fn renewal_sent(&mut self, id: HoldId, cx: &SlotContext) -> Option<Claim> {
        if let Stage::Waiting { attempt, .. } = &self.stage
            && attempt.claim.id.number == id
        {
            return Some(attempt.claim.clone());
        }
        if let Some(hold) = self.downgraded_hold(id) {
            return hold.renewal_sent(cx.now, cx.round_trip);
        }
        self.holds.get_present(id)?;
        self.holds.change(id, |hold| hold.renewal_sent(cx.now, cx.round_trip)).flatten()
    }

    /// Marks all turns as lost, because the engine ends.
    pub(super) fn lose_all(&self) {
        self.holds.iter().flat_map(|hold| hold.turns().iter()).for_each(|turn| turn.status.lose());
        self.downgrade.iter().for_each(|downgrade| downgrade.lose());
    }

    /// Brings the attempt in line with the queue, after each event: calls that wait need an attempt, unless they wait
    /// for a present hold, and an attempt needs a call that waits.
    fn settle(&mut self, cx: &mut SlotContext) {
        let Some(first) = self.queue.first() else {
            return self.clean_up_without_waiters(cx);
        };
        let needs_claim = match &self.stage {
            // Each further claim in flight may serve a call.
            Stage::Idle => self.queue.len() > self.further.len() && self.fits(first.terms),
            // The call whose claim waits has left the queue, and the first call wants another number of permits. These may
            // be free. A claim without an answer is repeated soon, and then on the terms of the first call.
            Stage::Waiting { attempt, .. } => attempt.terms.kind != first.terms.kind && attempt.faults == 0,
            Stage::Claiming(_) | Stage::Resting { .. } | Stage::Releasing(_) => false,
        };
        if needs_claim {
            self.claim_next(cx);
        }
        if self.policy.holds != HoldsAtOnce::UpToLimit {
            return;
        }
        let waits_for_own_hold = matches!(self.stage, Stage::Idle | Stage::Resting { .. }) && self.further.len() == 0;
        if waits_for_own_hold && self.queue.has_try_locks() {
            for call in self.queue.remove_try_locks(|_| true) {
                cx.emit(Effect::Refuse(call));
            }
        }
        self.claim_further(cx);
    }

    /// Handles the slot's timer. The holds are checked first, so that no call gets a hold that has expired. Waiting
    /// calls are checked last, so that a call that can be served now does not time out.
    fn due(&mut self, cx: &mut SlotContext) {
        let now = cx.now;
        while let Some(id) = self.holds.due(now) {
            self.hold_is_due(id, cx);
        }
        self.downgrade_is_due(cx);
        match &mut self.stage {
            Stage::Waiting { retry_at: moment, .. } | Stage::Resting { until: moment } if *moment <= now => {
                self.claim_next(cx);
            }
            Stage::Waiting { attempt, .. } => {
                if attempt.keep_place(now) {
                    cx.emit(Effect::Renew(attempt.claim.id.number));
                }
            }
            Stage::Idle | Stage::Claiming(_) | Stage::Resting { .. } | Stage::Releasing(_) => {}
        }
        while let Some(ticket) = self.queue.due(now) {
            self.waiter_is_due(ticket, cx);
        }
    }

    fn hold_is_due(&mut self, id: HoldId, cx: &mut SlotContext) {
        let now = cx.now;
        let due = self.holds.change(id, |hold| (hold.lose_ended_turns(now), hold.due(now)));
        let Some((ended, due)) = due else { return };
        let all_ended = !ended.is_empty() && matches!(due, HoldDue::Lost);
        for fence in ended {
            cx.emit(Effect::Lost { fence: Some(fence), loss: Loss::ByMaxHold });
        }
        match due {
            HoldDue::Lost if all_ended => self.lose_quietly(id),
            HoldDue::Lost => self.lose(id, cx),
            HoldDue::Renewal => cx.emit(Effect::Renew(id)),
            HoldDue::Nothing => {}
        }
    }

    /// Answers all calls with `ErrorKind::Closed` and releases all holds.
    fn close(&mut self, cx: &mut SlotContext) {
        self.fail_all(&Error::closed(), cx);
        self.fail_downgrade(&Error::closed(), cx);
        let ids: Vec<_> = self.holds.iter().map(hold::Hold::id).collect();
        for hold in ids.into_iter().filter_map(|id| self.holds.remove(id)) {
            for turn in hold.turns().iter() {
                cx.emit(Effect::TurnEnded { held_for: cx.now.since(turn.since), released: None });
                turn.status.close();
            }
            release(&hold, None, cx);
        }
    }
}

#[cfg(test)]
mod tests;
