//! The events of a slot, its effects, and what it knows of the world around it.

use std::{
    ops::{Add, Sub},
    sync::Arc,
    time::Duration,
};

use bandog_core::{Claim, ClaimId, ClientId, Error, Fence, Key, Moment, Renewal, Result, Step, Subscription, Verdict};
use tokio::sync::oneshot;

use super::attempt::Attempt;
use crate::{
    caller::Caller,
    engine::msg::{HoldId, Patience, Terms, Ticket},
    turn_status::TurnStatus,
};

/// Where the result of a release goes.
pub(in crate::engine) type Report = oneshot::Sender<Result<()>>;

/// The caller's end of a waiting call. The slot hands it on, and asks it only this.
pub(in crate::engine) trait Call {
    /// Whether the caller has dropped its future.
    fn has_gone(&self) -> bool;

    /// Whether both calls are of one [`crate::Owner`], so that they share a turn.
    fn shares_with(&self, other: &Self) -> bool;
}

/// A call that waits for the key from now on.
pub(in crate::engine) struct NewCall<C> {
    pub(in crate::engine) ticket: Ticket,
    pub(in crate::engine) caller: Caller,
    pub(in crate::engine) terms: Terms,
    pub(in crate::engine) patience: Patience,
    pub(in crate::engine) call: C,
}

/// What happens to a key.
pub(in crate::engine) enum Event<C> {
    /// A call came.
    Lock(NewCall<C>),
    /// A caller has dropped its future.
    Cancel(Ticket),
    /// The last guard of a turn was dropped or released.
    TurnEnded { hold: HoldId, report: Option<Report> },
    /// A guard wants to be woken this long before its deadline.
    WarnBefore { hold: HoldId, grace: Duration },
    /// The store has answered a claim or an exchange, or has not answered it in time.
    Claimed { claim: HoldId, asked_at: Moment, answer: Result<Verdict> },
    /// The store has answered a renewal, or has not answered it in time.
    Renewed { hold: HoldId, asked_at: Moment, answer: Result<Renewal> },
    /// The store has answered a release of this key.
    Released { woke_no_client: bool },
    /// The store has refused a release of this key, or has not answered it.
    ReleaseFailed,
    /// The backend has answered a subscription.
    Subscribed(Result<Subscription>),
    /// A client has released the key.
    Notified,
    /// The store was reached again. It may have lost the hold, and notifications may have been missed.
    Reconnected,
    /// An operator has changed the key: the store may have lost the hold.
    Recheck,
    /// The moment of [`Slot::next_due`] has come.
    Due,
    /// The client closes.
    Close,
}

/// What a slot asks its engine to do. The engine executes effects in their order.
pub(in crate::engine) enum Effect<C> {
    /// Send a claim or an exchange.
    Send(Step),
    /// Release a claim. `unsure`: one of its requests may still be applied.
    Release { claim: Claim, unsure: bool, report: Option<Report> },
    /// Release a claim that was exchanged, after the last moment at which one of its requests may be applied.
    ReleaseLater(Claim),
    /// Renew a hold together with others: [`Slot::renewal_sent`] gives the claim.
    Renew(HoldId),
    /// Subscribe to releases of the key of this claim.
    Subscribe(Claim),
    /// A turn begins for this caller.
    StartTurn { call: C, turn: NewTurn },
    /// Answer a caller that the lock is held.
    Refuse(C),
    /// Answer a caller with an error.
    Fail(C, Error),
    /// Report the result of a release.
    Report(Report, Result<()>),
    /// The store has granted the key to this client.
    HoldBegan,
    /// A turn has ended, with or without a loss.
    TurnEnded { held_for: Duration },
    /// A turn has ended with a release by its guard.
    TurnReleased { fence: Option<Fence> },
    /// A hold and its guards are lost.
    Lost { fence: Option<Fence>, by_max_hold: bool, is_quiet: bool },
    /// A call waits for another client.
    WaitBegan,
    /// A call may wait for a turn that its own task or thread has had for this time.
    MayWaitForItself { caller: Caller, held_for: Duration },
    /// The watchdog has renewed the hold.
    Renewed,
    /// A renewal had no answer.
    RenewalFailed(Error),
    /// This user may not subscribe to the key.
    SubscriptionDenied(Error),
}

/// A turn that begins.
pub(in crate::engine) struct NewTurn {
    pub(in crate::engine) hold: HoldId,
    pub(in crate::engine) fence: Fence,
    pub(in crate::engine) status: Arc<TurnStatus>,
    /// How long the call has waited.
    pub(in crate::engine) waited: Duration,
    /// Whether the hold was passed on from another call of this client.
    pub(in crate::engine) is_passed_on: bool,
}

/// What slots know of the world around them, and the effects that they have collected.
pub(in crate::engine) struct SlotContext<C> {
    /// The present time, or shortly before it.
    pub(in crate::engine) now: Moment,
    /// Smoothed duration of a request.
    pub(in crate::engine) round_trip: Duration,
    /// Whether the store has ever answered.
    pub(in crate::engine) answered: bool,
    /// Whether the client closes.
    pub(in crate::engine) is_closing: bool,
    pub(in crate::engine) effects: Vec<Effect<C>>,
    /// Timeout of a request.
    pub(super) timeout: Duration,
    pub(super) client: ClientId,
    /// Number of claims made so far: the number of the last [`ClaimId`].
    claims: u64,
}

impl<C> SlotContext<C> {
    pub(in crate::engine) fn new(client: ClientId, timeout: Duration, now: Moment) -> Self {
        Self {
            now,
            round_trip: Duration::from_millis(1),
            answered: false,
            is_closing: false,
            effects: Vec::new(),
            timeout,
            client,
            claims: 0,
        }
    }

    pub(super) fn emit(&mut self, effect: Effect<C>) {
        self.effects.push(effect);
    }

    pub(super) fn new_attempt(&mut self, key: &Key, terms: Terms) -> Box<Attempt> {
        self.claims += 1;
        let id = ClaimId { client: self.client, number: self.claims };
        let claim =
            Claim { key: key.clone(), id, kind: terms.kind, ttl: terms.ttl, fences: terms.fences, offers: false };
        Box::new(Attempt::new(claim, terms, self.now))
    }
}

/// What the sums over all slots count.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Counts {
    /// Calls that wait.
    pub(in crate::engine) waiting: usize,
    /// Holds, also lost ones whose guards are not dropped yet.
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
