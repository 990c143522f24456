//! The state machine of one key in this client. [`Slot::on`] takes an event and answers with effects. The state machine
//! does no I/O, reads no clock and has no channel. So a test can send it any sequence of events (`tests`).
//!
//! # Words
//! - *Claim*: a request for the key, with an id. A claim without an answer is repeated with the same id.
//! - *In flight*: sent to the store, and not answered yet.
//! - *Hold*: what the store gives for a claim. The key belongs to this client until the hold's deadline.
//! - *Turn*: it begins when a call gets the hold, and ends when the last guard of the turn is dropped. A hold serves
//!   the waiting calls of this client, one turn after another. Calls of one owner can share a turn.
//! - *Exchange*: one request that releases a hold and claims a new one, so that no other client can get the key between
//!   the two.
//! - *Streak*: consecutive turns of this client at the key, during which other clients had no chance to get the key.
//! - *Rest*: a pause after a streak, in which this client does not claim the key, so that other clients can get it.
//! - *Unsure claim*: a claim for which a request was sent and not answered. The store may have applied that request, or
//!   may still apply it.
//!
//! # Stages
//! ```text
//!          lock                    busy, or no answer
//!   Idle ---------> Claiming ---------------------------------> Waiting
//!    ^                |  ^ ^                                      |
//!    |        granted |  |  \------- notification, timer ---------/
//!    |                v  | exchange
//!    +- Releasing <-- Held --- streak ends ---> Resting --- timer ---> Claiming
//! ```
//!
//! - When a hold is lost, the slot leaves `Held` immediately, even if guards of the lost turn still exist.
//! - `Waiting` ends in `Idle` when the last waiting call has left.
//! - `Claiming` always lasts until the answer arrives, even if all waiting calls have left. Only the answer tells
//!   whether there is a hold to release.
//! - In `Releasing`, the release of the last hold is in flight and no call waits. A call that arrives in this stage
//!   continues the streak: the slot goes to `Claiming`, or to `Resting` if the streak has reached its limit.
//!
//! # A dropped future
//! A user can drop the future of `lock()` at any time. What happens then depends on the state of the call:
//!
//! **The claim is in flight.** [`Event::Cancel`] removes the call from the queue. The claim is not released yet: the
//! store can apply the claim at any time, so a release could overtake the claim and find nothing to release. The slot
//! stays in [`Stage::Claiming`] until the answer arrives. There are three cases:
//! - *Granted*: the next waiting call gets the hold. If no call waits, the hold is released.
//! - *Busy* (another client holds the key): if other calls wait, the slot continues to wait for the key. If no call
//!   waits, the slot becomes idle. The claim is also released in two cases: an earlier request of the claim had no
//!   answer, or one of its requests has told the store that this client *starves* (has waited for a second while the
//!   lock changed hands, see `streak`).
//! - *No answer*: the store may have applied the claim, or may still apply it. If other calls wait, the claim is
//!   repeated with the same id. If no call waits, the claim is released. That release is repeated until the store has
//!   answered it. One request timeout later the release is sent once more, because the store may have applied the claim
//!   in the meantime ([`super::releases`]). If the claim was sent as an exchange, the old hold is released, too.
//!
//! **The grant has arrived, and the turn is in the oneshot of the call.** The oneshot is the channel for the call's
//! answer. The turn is dropped together with the oneshot. This ends the turn in the same way as the drop of a guard
//! does.
//!
//! **The call waits, and no claim is in flight.** [`Event::Cancel`] removes the call from the queue. If no other call
//! waits, the slot becomes idle. As in the case *busy*, the claim is released if it is unsure or has reported
//! starvation.
//!
//! # Modules
//! - `event`: the events, the effects, and what a slot knows about its surroundings;
//! - `queue`: the waiting calls; `waiting`: how calls enter the queue, time out and leave;
//! - `attempt`: a claim that is not granted yet; `claiming`: how claims are sent and answered;
//! - `hold`: a granted hold with its deadline and renewals; `turns`: how turns begin and end;
//! - `polls`: when a waiting client claims again although no notification arrived;
//! - `streak`: how a busy client lets other clients get the key.

mod attempt;
mod claiming;
mod event;
mod hold;
mod polls;
mod queue;
mod streak;
mod turns;
mod waiting;

use std::mem;

use bandog_core::{Claim, Error, Key, Moment, Subscription};

use self::{
    attempt::Attempt,
    hold::{Hold, HoldDue},
    queue::Queue,
    streak::Streak,
    turns::release,
};
use super::msg::{HoldId, Ticket};

pub(super) use self::event::{Call, Counts, Effect, Event, NewCall, NewTurn, Report, SlotContext};
pub(crate) use self::{streak::MAX_TURNS, waiting::FIRST_ANSWER};

/// One key in this client. The slot has only one claim and one subscription, even if many calls wait. Both use the
/// terms of the first waiting call.
pub(super) struct Slot<C> {
    key: Key,
    /// The calls that wait for the key.
    queue: Queue<C>,
    stage: Stage,
    /// The subscription to releases of the key. A notification wakes the waiting calls.
    wake_ups: WakeUps,
    /// Lost holds whose guards still exist.
    lost: Vec<Hold>,
    /// How often the slot has learned that the key was held: the store reported another holder, or a hold of this
    /// client ended. When a call times out, this number decides whether the call is answered with "held" or with an
    /// error.
    refusals: u64,
    /// The error of the last claim. Cleared when the store answers a claim.
    fault: Option<Error>,
}

/// The present claim or hold of the key. Attempts and holds are boxed, because a client can have many slots, so each
/// slot should be small.
#[derive(Default)]
enum Stage {
    /// There is no claim and no hold.
    #[default]
    Idle,
    /// A claim or an exchange is in flight.
    Claiming(Claiming),
    /// Another client holds the key, or the store did not answer. The claim is sent again after a notification, or at
    /// `retry_at`.
    Waiting { attempt: Box<Attempt>, retry_at: Moment },
    /// This client holds the key.
    Held(Box<Hold>),
    /// A streak has ended. This client does not claim the key before `until`, so that other clients can get the key.
    Resting { until: Moment },
    /// The release of the hold is in flight, and no call waits. A call that arrives before the store's answer continues
    /// the streak.
    Releasing(Streak),
}

/// A claim in flight.
struct Claiming {
    attempt: Box<Attempt>,
    /// The newest call that had already arrived when the claim was sent. The answer "busy" counts only for this call
    /// and for earlier calls, because the store may have decided before later calls arrived.
    last_covered: Option<Ticket>,
    /// Whether a notification arrived after the claim was sent.
    is_notified: bool,
}

/// This client's subscription to releases of the key.
#[derive(Default)]
enum WakeUps {
    #[default]
    Off,
    /// The backend has not answered the subscription yet.
    Subscribing,
    /// The backend has subscribed this client. A *silent* subscription never notifies.
    On(Subscription),
}

impl WakeUps {
    /// Whether this client expects notifications of releases. The result is already true while the backend has not
    /// answered the subscription yet.
    fn expects_notifications(&self) -> bool {
        match self {
            Self::Off => false,
            Self::Subscribing => true,
            Self::On(subscription) => !subscription.is_silent(),
        }
    }
}

impl<C: Call> Slot<C> {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            queue: Queue::default(),
            stage: Stage::Idle,
            wake_ups: WakeUps::Off,
            lost: Vec::new(),
            refusals: 0,
            fault: None,
        }
    }

    /// Handles an event, and adds the resulting effects to the context.
    pub(super) fn on(&mut self, event: Event<C>, cx: &mut SlotContext<C>) {
        match event {
            Event::Lock(call) => self.lock(call, cx),
            Event::Cancel(ticket) => drop(self.take_call(ticket, cx)),
            Event::TurnEnded { hold, report } => self.turn_ended(hold, report, cx),
            Event::WarnBefore { hold, grace } => self.warn_before(hold, grace, cx),
            Event::Claimed { claim, asked_at, answer } => self.claimed(claim, asked_at, answer, cx),
            Event::Renewed { hold, asked_at, answer } => self.renewed(hold, asked_at, answer, cx),
            Event::Released { woke_no_client } => self.released(woke_no_client, cx),
            Event::ReleaseFailed => self.release_ended(cx),
            Event::Subscribed(subscription) => self.subscribed(subscription, cx),
            Event::Notified => self.notified(cx),
            Event::Reconnected => {
                self.renew_now(cx);
                self.may_be_free(cx);
            }
            Event::Recheck => self.renew_now(cx),
            Event::Due => self.due(cx),
            Event::Close => self.close(cx),
        }
    }

    /// The moment at which the slot needs [`Event::Due`].
    pub(super) fn next_due(&self) -> Option<Moment> {
        let stage = match &self.stage {
            Stage::Waiting { retry_at: moment, .. } | Stage::Resting { until: moment } => Some(*moment),
            Stage::Held(hold) => Some(hold.wake_at()),
            Stage::Idle | Stage::Claiming(_) | Stage::Releasing(_) => None,
        };
        [stage, self.queue.next_due()].into_iter().flatten().min()
    }

    /// Whether the slot has no call, no claim and no hold. The engine then removes it.
    pub(super) fn is_unused(&self) -> bool {
        self.queue.is_empty() && matches!(self.stage, Stage::Idle) && self.lost.is_empty()
    }

    /// Whether a call waits for the store to grant the key.
    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty() && matches!(self.stage, Stage::Waiting { .. } | Stage::Claiming(_))
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held(_))
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            waiting: self.queue.len(),
            holds: self.lost.len() + usize::from(self.is_held()),
            claiming: usize::from(matches!(self.stage, Stage::Claiming(_))),
        }
    }

    /// The waiting calls, in the order of their arrival.
    pub(super) fn calls(&self) -> impl Iterator<Item = (Ticket, &C)> {
        self.queue.iter().map(|(ticket, waiter)| (ticket, &waiter.call))
    }

    /// Removes a call from the queue. A claim in flight stays until its answer arrives.
    pub(super) fn take_call(&mut self, ticket: Ticket, cx: &mut SlotContext<C>) -> Option<C> {
        let waiter = self.queue.remove(ticket)?;
        self.clean_up_without_waiters(cx);
        Some(waiter.call)
    }

    /// The claim for a renewal that is sent now. `None` means that the hold has ended since the renewal was requested.
    pub(super) fn renewal_sent(&mut self, hold: HoldId, cx: &SlotContext<C>) -> Option<Claim> {
        self.present_hold(hold)?.renewal_sent(cx.now, cx.round_trip)
    }

    /// Marks all turns as lost, because the engine ends.
    pub(super) fn lose_all(&self) {
        let present = match &self.stage {
            Stage::Held(hold) => Some(hold.as_ref()),
            Stage::Idle | Stage::Claiming(_) | Stage::Waiting { .. } | Stage::Resting { .. } | Stage::Releasing(_) => {
                None
            }
        };
        self.lost.iter().chain(present).for_each(|hold| hold.status().lose());
    }

    /// Handles the slot's timer. The hold is checked first, so that no call gets a hold that has expired. Waiting calls
    /// are checked last, so that a call that can be served now does not time out.
    fn due(&mut self, cx: &mut SlotContext<C>) {
        let now = cx.now;
        match &mut self.stage {
            Stage::Held(hold) if hold.wake_at() <= now => match hold.due(now) {
                HoldDue::Lost => self.lose(cx),
                HoldDue::Renewal => cx.emit(Effect::Renew(hold.id())),
                HoldDue::Nothing => {}
            },
            Stage::Waiting { retry_at: moment, .. } | Stage::Resting { until: moment } if *moment <= now => {
                self.claim_next(cx);
            }
            Stage::Idle
            | Stage::Claiming(_)
            | Stage::Waiting { .. }
            | Stage::Held(_)
            | Stage::Resting { .. }
            | Stage::Releasing(_) => {}
        }
        while let Some(ticket) = self.queue.due(now) {
            self.waiter_is_due(ticket, cx);
        }
    }

    /// Answers all calls with `ErrorKind::Closed` and releases all holds.
    fn close(&mut self, cx: &mut SlotContext<C>) {
        self.fail_all(&Error::closed(), cx);
        let present = self.take_hold().map(|hold| *hold);
        for hold in mem::take(&mut self.lost).into_iter().chain(present) {
            cx.emit(Effect::TurnEnded { held_for: cx.now.since(hold.turn_since()) });
            hold.status().close();
            release(&hold, None, cx);
        }
        self.clean_up_without_waiters(cx);
    }
}

#[cfg(test)]
mod tests;
