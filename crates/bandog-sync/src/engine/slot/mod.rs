//! One key in this client, as a state machine: [`Slot::on`] takes an event and answers with effects. It does no I/O,
//! reads no clock and has no channel, so a test can drive it through any interleaving (`tests`).
//!
//! ```text
//!          lock                    busy, or no answer
//!   Idle ---------> Claiming ---------------------------------> Waiting
//!    ^                |  ^ ^                                      |
//!    |        granted |  |  \------- notification, timer ---------/
//!    |                v  | exchange
//!    +- Releasing <-- Held --- streak ends ---> Resting --- timer ---> Claiming
//! ```
//!
//! In `Releasing` the release of the last hold is in flight. A call that comes then continues the streak: in `Claiming`
//! or, if the streak is over, in `Resting`.
//!
//! A lost hold leaves `Held` immediately, although its guards still exist. `Waiting` ends in `Idle` when no waiter is
//! left. `Claiming` never ends before its answer arrives, even if all waiters have gone: the answer decides whether
//! there is a hold to release.
//!
//! # A dropped future
//! A user's call may be dropped while its claim is in flight. Then [`Event::Cancel`] removes the waiter from the queue,
//! and the claim stays: the store may apply it at any time, so a release must not overtake it. The slot remains in
//! [`Stage::Claiming`] until the answer arrives:
//! - *granted*: the next waiter gets the hold. Without a waiter the hold is released;
//! - *busy*: the slot waits for its other waiters. Without a waiter it is removed, and an unsure claim is released;
//! - *no answer*: the store may have applied the claim, or may still do so. If other calls wait, the claim is repeated
//!   with the same id. Otherwise it is released, and the release is repeated until the store has answered it and once
//!   more one request timeout later ([`super::releases`]).
//!
//! If the grant is already in the user's oneshot, the turn is dropped with it. That frees the hold like any guard.

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

pub(crate) use self::streak::MAX_TURNS;
pub(super) use self::{
    event::{Call, Counts, Effect, Event, NewCall, NewTurn, Report, SlotContext},
    waiting::FIRST_ANSWER,
};

/// One key in this client. Only the first in its queue claims, subscribes and polls.
pub(super) struct Slot<C> {
    key: Key,
    queue: Queue<C>,
    stage: Stage,
    wake_ups: WakeUps,
    /// Holds that are lost, and whose guards are not dropped yet.
    lost: Vec<Hold>,
    /// Number of times that waiters of this key were shown a holder: another client by the store, or this client's own
    /// hold.
    refusals: u64,
    /// The last error of a claim, until the store answers again.
    fault: Option<Error>,
}

/// Where the claim or hold of a key stands. Attempts and holds are boxed, because many slots are large.
#[derive(Default)]
enum Stage {
    /// There is no claim and no hold.
    #[default]
    Idle,
    /// A claim or an exchange is in flight.
    Claiming(Claiming),
    /// Another client holds the key, or the store does not answer. A notification or `retry_at` starts the next attempt.
    Waiting { attempt: Box<Attempt>, retry_at: Moment },
    /// This client has this hold, which is not lost.
    Held(Box<Hold>),
    /// A streak has ended. Until this moment, this client lets others go first.
    Resting { until: Moment },
    /// The release of the hold is in flight, and no call waits. A call that comes before the store's answer continues
    /// the streak.
    Releasing(Streak),
}

/// A claim in flight.
struct Claiming {
    attempt: Box<Attempt>,
    /// The last call that came before the claim was sent. The answer does not count for later calls: the store may have
    /// decided before they came.
    last_covered: Option<Ticket>,
    /// Whether a notification came after the claim was sent.
    is_notified: bool,
}

/// This client's subscription to releases of the key.
#[derive(Default)]
enum WakeUps {
    #[default]
    Off,
    /// The backend has not answered yet.
    Subscribing,
    On(Subscription),
}

impl WakeUps {
    /// Whether releases should wake this client. While the backend still subscribes, they should.
    fn hears_releases(&self) -> bool {
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

    /// Handles an event. The effects are added to those of the context.
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

    /// When [`Event::Due`] is to come.
    pub(super) fn next_due(&self) -> Option<Moment> {
        let stage = match &self.stage {
            Stage::Waiting { retry_at: moment, .. } | Stage::Resting { until: moment } => Some(*moment),
            Stage::Held(hold) => Some(hold.wake_at()),
            Stage::Idle | Stage::Claiming(_) | Stage::Releasing(_) => None,
        };
        [stage, self.queue.next_due()].into_iter().flatten().min()
    }

    /// Whether the slot can be removed.
    pub(super) fn is_unused(&self) -> bool {
        self.queue.is_empty() && matches!(self.stage, Stage::Idle) && self.lost.is_empty()
    }

    /// Whether a call waits here for another client.
    pub(super) fn is_waiting(&self) -> bool {
        !self.queue.is_empty() && matches!(self.stage, Stage::Waiting { .. } | Stage::Claiming(_))
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, Stage::Held(_))
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            waiting: self.queue.len(),
            holds: self.lost.len() + usize::from(self.is_held()),
            claiming: usize::from(matches!(self.stage, Stage::Claiming(_))),
        }
    }

    /// The waiting calls, in the order in which they came.
    pub(super) fn calls(&self) -> impl Iterator<Item = (Ticket, &C)> {
        self.queue.iter().map(|(ticket, waiter)| (ticket, &waiter.call))
    }

    /// Removes a call from the queue. A claim in flight stays, for other calls or until its answer ends it.
    pub(super) fn take_call(&mut self, ticket: Ticket, cx: &mut SlotContext<C>) -> Option<C> {
        let waiter = self.queue.remove(ticket)?;
        self.clean_up_if_unwanted(cx);
        Some(waiter.call)
    }

    /// The claim of a renewal that is sent now. `None`: the hold has ended meanwhile.
    pub(super) fn renewal_sent(&mut self, hold: HoldId, cx: &SlotContext<C>) -> Option<Claim> {
        self.present_hold(hold)?.renewal_sent(cx.now, cx.round_trip)
    }

    /// Makes all guards lost, because the engine ends.
    pub(super) fn lose_all(&self) {
        let present = match &self.stage {
            Stage::Held(hold) => Some(hold.as_ref()),
            Stage::Idle | Stage::Claiming(_) | Stage::Waiting { .. } | Stage::Resting { .. } | Stage::Releasing(_) => {
                None
            }
        };
        self.lost.iter().chain(present).for_each(|hold| hold.status().lose());
    }

    /// The slot's timer. The hold comes first, so that no waiter is served by a hold that has expired; waiters come last,
    /// so that no call times out that can be served.
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

    /// Fails all calls with `Closed` and releases all holds.
    fn close(&mut self, cx: &mut SlotContext<C>) {
        self.fail_all(&Error::closed(), cx);
        let present = self.take_hold().map(|hold| *hold);
        for hold in mem::take(&mut self.lost).into_iter().chain(present) {
            cx.emit(Effect::TurnEnded { held_for: cx.now.since(hold.turn_since()) });
            hold.status().close();
            release(&hold, None, cx);
        }
        self.clean_up_if_unwanted(cx);
    }
}

#[cfg(test)]
mod tests;
