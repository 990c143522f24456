//! The state of one key in this client: its local queue, and where its claim or hold stands.
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
//! A lost hold leaves `Held` at once, though its guards live on. `Waiting` ends in `Idle` when no waiter is left.
//! `Claiming` never ends before its answer arrives, even if all waiters have gone: the answer decides whether there is
//! a hold to release.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::Duration,
};

use bandog_core::{Claim, Error, MAX_BLOCK, Moment, Step, Subscription};

use super::{
    msg::{HoldId, LockReply, Terms, Ticket},
    polls::Polls,
};
use crate::{Owner, caller::Caller};

/// Maximum number of turns in a streak. After it, the client lets others go first.
pub(crate) const MAX_TURNS: NonZeroU32 = MAX_BLOCK;
/// Maximum duration of a streak: this time, or [`MAX_STREAK_TRIPS`] round trips if they are longer.
const MAX_STREAK: Duration = Duration::from_millis(20);
const MAX_STREAK_TRIPS: u32 = 16;

/// One key in this client. Only the first in its queue claims, subscribes and polls.
#[derive(Default)]
pub(super) struct Slot {
    /// Boxed, because a node of the map has room for eleven waiters, and most queues have one.
    pub(super) queue: BTreeMap<Ticket, Box<Waiter>>,
    /// The calls in the queue that want a single answer (`try_lock`).
    pub(super) try_locks: BTreeSet<Ticket>,
    /// The last of these calls that came before the present claim was sent. The answer does not count for later ones.
    pub(super) last_covered: Option<Ticket>,
    pub(super) stage: Stage,
    pub(super) wake_ups: WakeUps,
    /// Whether a notification came after the last claim was sent.
    pub(super) notified: bool,
    /// Number of times that waiters of this key were shown a holder: another client by the store, or this client's own
    /// hold.
    pub(super) refusals: u64,
    /// The last error of a claim, until the store answers again.
    pub(super) fault: Option<Error>,
    pub(super) timer: Option<Moment>,
}

/// Where the claim or hold of a key stands. Attempts are boxed, because most slots have a hold.
#[derive(Default)]
pub(super) enum Stage {
    /// There is no claim and no hold.
    #[default]
    Idle,
    /// A claim or an exchange is in flight.
    Claiming(Box<Attempt>),
    /// Another client holds the key, or the store does not answer. A notification or the timer starts the next attempt.
    Waiting(Box<Attempt>),
    /// This client has this hold. It is in [`super::Engine::holds`] and not lost.
    Held(HoldId),
    /// A streak has ended. Until the timer, this client lets others go first.
    Resting,
    /// The release of the hold is in flight, and no call waits. A call that comes before the store's answer continues
    /// the streak.
    Releasing(Streak),
}

/// A claim that is not granted yet. It is not bound to one waiter: the first in the queue when the answer comes gets
/// the hold.
pub(super) struct Attempt {
    pub(super) claim: Claim,
    /// When this client began to wait for a grant.
    pub(super) since: Moment,
    pub(super) terms: Terms,
    /// The hold that this claim exchanges, until the store reports another holder.
    pub(super) from: Option<Claim>,
    /// The streak that continues, unless the store reports another holder.
    pub(super) streak: Option<Streak>,
    pub(super) polls: Polls,
    /// Whether a client has released the key since this client began to wait, and another client got it.
    pub(super) is_contended: bool,
    /// Whether a request of this claim has asked for an offer, so that the store may have noted it.
    pub(super) has_asked_for_offer: bool,
    /// Whether the store may have applied, or may still apply, a request of this claim that had no answer. It stays set
    /// until the claim ends: a later answer to another request does not clear it.
    pub(super) unsure: bool,
    /// Number of consecutive requests without an answer.
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

/// The row of turns that this client has had at a key without letting others go first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streak {
    pub(super) turns: u32,
    pub(super) since: Moment,
}

impl Streak {
    /// Whether this client must let others go first now.
    pub(super) fn must_end(self, now: Moment, round_trip: Duration) -> bool {
        self.turns >= MAX_TURNS.get() || now.since(self.since) >= MAX_STREAK.max(round_trip * MAX_STREAK_TRIPS)
    }
}

/// This client's subscription to releases of the key.
#[derive(Default)]
pub(super) enum WakeUps {
    #[default]
    Off,
    /// The backend has not answered yet.
    Subscribing,
    On(Subscription),
}

impl WakeUps {
    /// Whether releases should wake this client. While the backend still subscribes, they should.
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
    /// When to check for a self-deadlock.
    pub(super) deadlock_timer: Option<Moment>,
    pub(super) terms: Terms,
    /// [`Slot::refusals`] when the call came.
    pub(super) refusals_before: u64,
    /// When the call came.
    pub(super) since: Moment,
    /// When the call gives up.
    pub(super) until: Option<Moment>,
    pub(super) timer: Option<Moment>,
    pub(super) reply: LockReply,
}

impl Slot {
    /// Whether the slot can be removed.
    pub(super) fn is_unused(&self) -> bool {
        self.queue.is_empty() && matches!(self.stage, Stage::Idle)
    }

    /// The answer to a waiter that timed out: it is refused (`Ok`) only if a holder was seen while it waited. Otherwise
    /// it gets the error.
    pub(super) fn timeout_answer(&self, waiter: &Waiter) -> Result<(), Error> {
        let is_held = matches!(self.stage, Stage::Held(_) | Stage::Resting);
        if is_held || self.refusals > waiter.refusals_before {
            return Ok(());
        }
        Err(self.fault.clone().unwrap_or_else(|| Error::unavailable("the store has not answered in time")))
    }
}
