//! The events that a slot handles, the effects with which it answers, and what it knows about its surroundings. The
//! words *claim*, *hold* and *turn* are explained in [`super`].

use std::{
    ops::{Add, Sub},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{Claim, ClaimId, ClientId, Error, Fence, Moment, Renewal, Result, Step, Subscription, Verdict};

use super::{attempt::Attempt, hold::Loss, pending_downgrade::Adoption};
use crate::{
    caller::Caller,
    engine::call::Call,
    lane::{Lane, SlotId},
    terms::{HoldId, Terms, Ticket},
    turn::Report,
    turn_status::TurnStatus,
};

/// An event of a key.
pub(in crate::engine) enum Event {
    /// A call has arrived.
    Lock(Box<Call>),
    /// A caller has dropped its future.
    Cancel(Ticket),
    /// The last guard of a turn was dropped or released. `report`: where the result of the release goes, if a caller
    /// waits for it.
    TurnEnded { hold: HoldId, ticket: Ticket, report: Option<Report> },
    /// The futures of this turn must be woken when `grace` is left before the deadline.
    WarnBefore { hold: HoldId, ticket: Ticket, grace: Duration },
    /// A caller leaves the hold of this turn in the store. `report`: where the result goes.
    Detach { hold: HoldId, ticket: Ticket, report: Report },
    /// A caller extends the fixed lease of this hold to at least `ttl`. `report`: where the result goes.
    Extend { hold: HoldId, ttl: Duration, report: Report },
    /// The hold of a fair mutex gets the call that directly follows in the store's queue, or `None` if there is no such
    /// call any more. This answers [`Effect::HandOver`].
    Follow { hold: HoldId, fence: Fence, follower: Option<Box<Call>>, report: Option<Report> },
    /// The request of a claim or a pass has ended. (A pass releases a hold and claims the key again in one request.)
    /// `answer` is the store's answer, or an error if the store did not answer in time. `has_older_call`: an older call
    /// of this client holds the same fair mutex, or has a place before this call.
    Claimed { claim: HoldId, asked_at: Moment, answer: Result<Verdict>, has_older_call: bool },
    /// A renewal has ended. `answer` is the store's answer, or an error if the store did not answer in time.
    Renewed { hold: HoldId, asked_at: Moment, answer: Result<Renewal> },
    /// The store has answered a release of this key. `woke_no_client`: the release has notified no other client.
    Released { woke_no_client: bool },
    /// A release of this key was refused, or had no answer.
    ReleaseFailed,
    /// The backend has answered a subscription.
    Subscribed(Result<Subscription>),
    /// A notification: a client has released the key.
    Notified,
    /// A writer of this client begins to wait for the key, or no writer waits any more. Only the slot of the readers
    /// gets this event.
    WriterWaits(bool),
    /// A writer wants to become a reader. `hold` and `turn`: the hold and the ticket of the writer's turn. Only the slot of
    /// the writers gets this event.
    Downgrade { hold: HoldId, turn: Ticket, call: Box<Call> },
    /// A downgrade was granted. Only the slot of the readers gets this event.
    Adopt(Box<Adoption>),
    /// The backend has reconnected. The store may have lost the hold, and this client may have missed notifications.
    Reconnected,
    /// An operator has changed the key, so the store may not have the hold any more.
    Recheck,
    /// The moment of [`super::Slot::next_due`] has come.
    Due,
    /// The client closes.
    Close,
}

/// An action of the engine for a slot. The engine executes the effects in the order in which the slot emitted them.
pub(in crate::engine) enum Effect {
    /// Send a claim or a pass.
    Send(Step),
    /// Release a claim. `unsure`: the store may still apply one of the claim's requests. `report`: where the result
    /// goes, if a caller waits for it.
    Release { claim: Claim, unsure: bool, report: Option<Report> },
    /// Release an unsure claim (one of its requests had no answer) whose hold was passed. The release is sent when
    /// the store can no longer apply a request of that claim.
    ReleaseLater(Claim),
    /// Renew a hold, or the place of a claim that waits. The engine renews the holds of several keys in one request.
    /// When the engine sends that request, [`super::Slot::renewal_sent`] returns the claim.
    Renew(HoldId),
    /// Subscribe to notifications about releases of this claim's key.
    Subscribe(Claim),
    /// The turn of this call begins.
    StartTurn { call: Box<Call>, turn: NewTurn },
    /// A turn of this hold of a fair mutex has ended. Find the call that directly follows in the store's queue, and answer
    /// with [`Event::Follow`], also if there is none. That call must have these terms. `fence` is the fence of its turn.
    HandOver { hold: HoldId, fence: Fence, terms: Terms, report: Option<Report> },
    /// Move the hold of a downgrade to the slot of the readers.
    Adopt(Box<Adoption>),
    /// Answer this call with "the lock is held".
    Refuse(Box<Call>),
    /// Answer this call with an error.
    Fail(Box<Call>, Error),
    /// Report the result of a release, of an extension or of a detachment.
    Report(Report, Result<()>),
    /// The store has granted the key to this client.
    HoldBegan,
    /// A hold of this client stays in the store until this moment, without its client.
    Detached { until: Moment },
    /// The last guard of a turn was dropped, or the client closes. `released`: the fence of the turn, if the turn was not
    /// lost, and the client does not close.
    TurnEnded { held_for: Duration, released: Option<Fence> },
    /// The hold and the guards of its turn are lost.
    Lost { fence: Option<Fence>, loss: Loss },
    /// A call begins to wait for a lock that another client holds.
    WaitBegan,
    /// A call has waited for some time since `since`. It may wait for itself, if its own task or thread took a turn of
    /// the key before that.
    CheckForDeadlock { caller: Caller, since: Moment },
    /// The watchdog has renewed the hold.
    Renewed,
    /// A renewal was refused or had no answer.
    RenewalFailed(Error),
    /// The store does not allow this user to subscribe to the key.
    SubscriptionDenied(Error),
}

/// A turn that begins.
pub(in crate::engine) struct NewTurn {
    pub(in crate::engine) hold: HoldId,
    pub(in crate::engine) fence: Fence,
    /// The ttl of the hold.
    pub(in crate::engine) ttl: Duration,
    /// The status that the guards of the turn read.
    pub(in crate::engine) status: Arc<TurnStatus>,
    /// How long the call has waited.
    pub(in crate::engine) waited: Duration,
    /// Whether the hold has already served another call of this client.
    pub(in crate::engine) is_handed_over: bool,
}

/// The context of the slots, and the effects that the slots have emitted.
pub(in crate::engine) struct SlotContext {
    /// The newest reading of the clock.
    pub(in crate::engine) now: Moment,
    /// Average duration of a request and its answer. Newer requests count more.
    pub(in crate::engine) round_trip: Duration,
    /// Whether the store has ever answered this client.
    pub(in crate::engine) answered: bool,
    /// Whether the client closes.
    pub(in crate::engine) is_closing: bool,
    /// The effects that the engine has not executed yet.
    pub(in crate::engine) effects: Vec<Effect>,
    /// Timeout of a request.
    pub(super) timeout: Duration,
    pub(super) client: ClientId,
    /// The numbers of calls and claims. A call for a fair mutex and its claim have the same number.
    numbers: Arc<AtomicU64>,
}

impl SlotContext {
    pub(in crate::engine) fn new(client: ClientId, timeout: Duration, now: Moment, numbers: Arc<AtomicU64>) -> Self {
        Self {
            now,
            round_trip: Duration::from_millis(1),
            answered: false,
            is_closing: false,
            effects: Vec::new(),
            timeout,
            client,
            numbers,
        }
    }

    pub(super) fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(super) fn new_attempt(&mut self, slot: &SlotId, terms: Terms) -> Box<Attempt> {
        let number = match slot.lane {
            Lane::Fair(ticket) => ticket,
            Lane::Mutex | Lane::Read | Lane::Write | Lane::Permits(_) => self.numbers.fetch_add(1, Relaxed),
        };
        let id = ClaimId { client: self.client, number };
        let claim = Claim { fences: terms.fences.into(), ..Claim::new(slot.key.clone(), id, terms.kind, terms.ttl) };
        Box::new(Attempt::new(claim, terms, self.now))
    }
}

/// Numbers of one slot, for metrics and limits. The engine keeps the totals over all slots.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Counts {
    /// Calls that wait.
    pub(in crate::engine) waiting: usize,
    /// Holds, including lost holds whose guards still exist.
    pub(in crate::engine) holds: usize,
    /// Claims in flight.
    pub(in crate::engine) claiming: usize,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            holds: self.holds + other.holds,
            claiming: self.claiming + other.claiming,
        }
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            waiting: self.waiting - other.waiting,
            holds: self.holds - other.holds,
            claiming: self.claiming - other.claiming,
        }
    }
}
