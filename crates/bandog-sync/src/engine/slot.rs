//! One key as this client sees it: who waits here, and how it stands with the store.
//!
//! ```text
//!          want                    busy, or no answer
//!   Idle ---------> Claiming ----------------------------> Waiting
//!    ^                |  ^ ^                                 |
//!    |        granted |  |  \------- subscription, timer -----------/
//!    |                v  | pass
//!    +--- Leaving <-- Held ----- tired ---> Resting --- timer ---> Claiming
//! ```
//!
//! `Leaving` is the time in which a release is on its way: a call that comes then goes on with the streak, in `Claiming`
//! or, if that is over, in `Resting`.
//!
//! A hold that is lost leaves `Held` at once, though its guards live on. `Waiting` ends in `Idle` when nobody waits
//! any more; `Claiming` never does: its answer decides, so a slot outlives its step.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::Duration,
};

use bandog_core::{Claim, Error, MAX_BLOCK, Moment, Step, Subscription};

use super::{
    msg::{HoldId, Reply, Terms, Ticket},
    polls::Polls,
};
use crate::{Owner, caller::Caller};

/// A client lets others go first after this number of turns at a key, or after the longer of these two times.
pub(crate) const TURNS: NonZeroU32 = MAX_BLOCK;
const STREAK: Duration = Duration::from_millis(20);
const STREAK_TRIPS: u32 = 16;

/// The local queue of a key, of which only the first claims, listens and looks again.
#[derive(Default)]
pub(super) struct Slot {
    /// Boxed, because a node of the map has room for eleven, and most queues are of one.
    pub(super) queue: BTreeMap<Ticket, Box<Waiter>>,
    /// Those of the queue who want one answer only.
    pub(super) once: BTreeSet<Ticket>,
    /// The last of them that came before the present claim was sent: an answer says nothing to those who came later.
    pub(super) covered: Option<Ticket>,
    pub(super) stage: Stage,
    pub(super) wake_ups: WakeUps,
    /// The subscription rang since the last claim was sent.
    pub(super) notified: bool,
    /// How often whoever waited here was shown a holder: another client by the store, or one of our own.
    pub(super) refusals: u64,
    /// The last fault, until the store answers again.
    pub(super) fault: Option<Error>,
    pub(super) timer: Option<Moment>,
}

/// How a key stands with the store. Attempts are boxed, because most slots of a client stand for holds.
#[derive(Default)]
pub(super) enum Stage {
    /// Nothing is asked and nothing held.
    #[default]
    Idle,
    /// A step that claims is on its way.
    Claiming(Box<Attempt>),
    /// Somebody else holds the key, or the store does not answer: the subscription or the timer says when to ask again.
    Waiting(Box<Attempt>),
    /// This client holds it: that hold is in [`super::Engine::holds`] and not lost.
    Held(HoldId),
    /// This client has had many turns and lets others go first, until the timer.
    Resting,
    /// The hold is being given back, and no call of this client waits. A call that comes before the store has answered
    /// goes on with the streak.
    Leaving(Streak),
}

/// A claim that has not been granted yet, on behalf of whoever is first when the answer comes.
pub(super) struct Attempt {
    pub(super) claim: Claim,
    /// Since when this client has waited for a grant.
    pub(super) since: Moment,
    pub(super) terms: Terms,
    /// The hold that it takes over, if that has not been refused yet.
    pub(super) from: Option<Claim>,
    /// The streak that goes on, unless the store shows another holder.
    pub(super) streak: Option<Streak>,
    pub(super) polls: Polls,
    /// A request of it may have been applied although its answer was lost.
    pub(super) unsure: bool,
    /// Requests without an answer in a row.
    pub(super) faults: u32,
}

impl Attempt {
    pub(super) fn step(&self) -> Step {
        match &self.from {
            Some(from) => Step::Pass { from: from.clone(), to: self.claim.clone() },
            None => Step::Claim(self.claim.clone()),
        }
    }
}

/// How long this client has had the key without letting others in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streak {
    pub(super) turns: u32,
    pub(super) since: Moment,
}

impl Streak {
    /// Whether it has lasted as long as it may.
    pub(super) fn is_tired(self, now: Moment, trip: Duration) -> bool {
        self.turns >= TURNS.get() || now.since(self.since) >= STREAK.max(trip * STREAK_TRIPS)
    }
}

/// Whether this client hears the key's subscription.
#[derive(Default)]
pub(super) enum WakeUps {
    #[default]
    Off,
    /// The backend is about to listen.
    Subscribing,
    On(Subscription),
}

impl WakeUps {
    /// Whether a release should wake this client. While the backend is still subscribing, it should.
    pub(super) fn is_subscribed(&self) -> bool {
        match self {
            Self::Off => false,
            Self::Subscribing => true,
            Self::On(subscription) => !subscription.is_silent(),
        }
    }
}

/// A call in the queue.
pub(super) struct Waiter {
    pub(super) owner: Option<Owner>,
    /// The task or thread that waits.
    pub(super) caller: Caller,
    /// When to check whether it waits for itself.
    pub(super) suspect: Option<Moment>,
    pub(super) terms: Terms,
    /// What its slot's count was when it came.
    pub(super) refusals_before: u64,
    /// When it came.
    pub(super) since: Moment,
    /// When it gives up.
    pub(super) until: Option<Moment>,
    pub(super) timer: Option<Moment>,
    pub(super) reply: Reply,
}

impl Slot {
    /// Whether nothing is left here to know.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_empty() && matches!(self.stage, Stage::Idle)
    }

    /// What a waiter is told whose time is up: that it is busy only if somebody was seen to hold it meanwhile.
    pub(super) fn verdict(&self, waiter: &Waiter) -> Result<(), Error> {
        let held = matches!(self.stage, Stage::Held(_) | Stage::Resting);
        if held || self.refusals > waiter.refusals_before {
            return Ok(());
        }
        Err(self.fault.clone().unwrap_or_else(|| Error::unavailable("the store has not answered in time")))
    }
}
