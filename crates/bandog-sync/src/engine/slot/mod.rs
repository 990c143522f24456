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
mod hold;
mod polls;
mod queue;
mod streak;

use std::{
    mem,
    ops::{Add, Sub},
    sync::Arc,
    time::Duration,
};

use bandog_core::{
    Claim, ClaimId, ClientId, Error, ErrorKind, Fence, Fences, Key, Kind, Moment, Renewal, Result, Step, Subscription,
    Verdict,
};
use tokio::sync::oneshot;

use self::{
    attempt::Attempt,
    hold::{Extension, Hold, HoldDue},
    polls::MAX_POLL_INTERVAL,
    queue::{Queue, Waiter},
    streak::{Streak, rest_until},
};
use super::{
    backoff::backoff_after,
    msg::{HoldId, Patience, Terms, Ticket},
};
use crate::{caller::Caller, turn_status::TurnStatus};

pub(crate) use self::streak::MAX_TURNS;

/// Maximum wait of a call while the store has never answered.
pub(super) const FIRST_ANSWER: Duration = Duration::from_secs(5);
/// Minimum wait of a call before a check whether it waits for itself, unless its time limit is shorter.
const DEADLOCK_CHECK_AFTER: Duration = Duration::from_secs(1);

/// Where the result of a release goes.
pub(super) type Report = oneshot::Sender<Result<()>>;

/// The caller's end of a waiting call. The slot hands it on, and asks it only this.
pub(super) trait Call {
    /// Whether the caller has dropped its future.
    fn has_gone(&self) -> bool;

    /// Whether both calls are of one [`crate::Owner`], so that they share a turn.
    fn shares_with(&self, other: &Self) -> bool;
}

/// A call that waits for the key from now on.
pub(super) struct NewCall<C> {
    pub(super) ticket: Ticket,
    pub(super) caller: Caller,
    pub(super) terms: Terms,
    pub(super) patience: Patience,
    pub(super) call: C,
}

/// What happens to a key.
pub(super) enum Event<C> {
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
pub(super) enum Effect<C> {
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
pub(super) struct NewTurn {
    pub(super) hold: HoldId,
    pub(super) fence: Fence,
    pub(super) status: Arc<TurnStatus>,
    /// How long the call has waited.
    pub(super) waited: Duration,
    /// Whether the hold was passed on from another call of this client.
    pub(super) is_passed_on: bool,
}

/// What slots know of the world around them, and the effects that they have collected.
pub(super) struct SlotContext<C> {
    /// The present time, or shortly before it.
    pub(super) now: Moment,
    /// Smoothed duration of a request.
    pub(super) round_trip: Duration,
    /// Whether the store has ever answered.
    pub(super) answered: bool,
    /// Whether the client closes.
    pub(super) is_closing: bool,
    pub(super) effects: Vec<Effect<C>>,
    /// Timeout of a request.
    timeout: Duration,
    client: ClientId,
    /// Number of claims made so far: the number of the last [`ClaimId`].
    claims: u64,
}

impl<C> SlotContext<C> {
    pub(super) fn new(client: ClientId, timeout: Duration, now: Moment) -> Self {
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

    fn emit(&mut self, effect: Effect<C>) {
        self.effects.push(effect);
    }

    fn new_attempt(&mut self, key: &Key, terms: Terms) -> Box<Attempt> {
        self.claims += 1;
        let (id, kind) = (ClaimId { client: self.client, number: self.claims }, Kind::Mutex);
        let claim = Claim { key: key.clone(), id, kind, ttl: terms.ttl, fences: terms.fences, offers: false };
        Box::new(Attempt::new(claim, terms, self.now))
    }
}

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

/// What the sums over all slots count.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Calls that wait.
    pub(super) waiting: usize,
    /// Holds, also lost ones whose guards are not dropped yet.
    pub(super) holds: usize,
    /// Claims in flight.
    pub(super) claiming: usize,
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

    fn lock(&mut self, call: NewCall<C>, cx: &mut SlotContext<C>) {
        let patience = call.patience;
        let is_once = matches!(patience, Patience::Once);
        // A call that soon gives up claims immediately, because its limit may pass before the next poll.
        let is_brief = patience.ends_within(MAX_POLL_INTERVAL * 2);
        match &self.stage {
            Stage::Held(_) | Stage::Resting { .. } if is_once => cx.emit(Effect::Refuse(call.call)),
            Stage::Held(hold) => {
                let may_deadlock = hold.was_taken_by(call.caller);
                self.enqueue(call, may_deadlock.then(|| cx.now + DEADLOCK_CHECK_AFTER), cx);
            }
            Stage::Claiming(_) | Stage::Resting { .. } => self.enqueue(call, None, cx),
            Stage::Waiting { .. } if !is_brief => self.enqueue(call, None, cx),
            Stage::Releasing(streak) if !is_brief && streak.must_end(cx.now, cx.round_trip) => {
                self.enqueue(call, None, cx);
                self.rest(cx);
            }
            Stage::Idle | Stage::Waiting { .. } | Stage::Releasing(_) => {
                self.enqueue(call, None, cx);
                self.claim_next(cx);
            }
        }
    }

    fn enqueue(&mut self, call: NewCall<C>, deadlock_check: Option<Moment>, cx: &SlotContext<C>) {
        let NewCall { ticket, caller, terms, patience, call } = call;
        let is_try_lock = matches!(patience, Patience::Once);
        let mut waiter = Waiter::new(call, caller, terms, self.refusals, cx.now);
        waiter.until = match patience {
            Patience::Once => Some(cx.now + cx.timeout),
            Patience::For(wait) => Some(cx.now + wait),
            Patience::Forever => None,
        };
        waiter.first_answer_by = (!cx.answered).then(|| cx.now + FIRST_ANSWER);
        waiter.deadlock_check = deadlock_check;
        self.queue.insert(ticket, waiter, is_try_lock);
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

    /// A call has reached its time limit, or its limit for the store's first answer, or a check is due.
    fn waiter_is_due(&mut self, ticket: Ticket, cx: &mut SlotContext<C>) {
        if cx.answered {
            self.queue.change(ticket, |waiter| waiter.first_answer_by = None);
        }
        let Some(waiter) = self.queue.get(ticket) else { return };
        let has_timed_out = waiter.has_timed_out(cx.now);
        if waiter.deadlock_check.is_some_and(|check| has_timed_out || check <= cx.now) {
            self.check_for_deadlock(waiter, cx);
            self.queue.change(ticket, |waiter| waiter.deadlock_check = None);
        }
        if !has_timed_out {
            return;
        }
        let Some(waiter) = self.queue.remove(ticket) else { return };
        match self.timeout_answer(&waiter) {
            Ok(()) => cx.emit(Effect::Refuse(waiter.call)),
            Err(error) => cx.emit(Effect::Fail(waiter.call, error.during("lock").at(&self.key))),
        }
        self.clean_up_if_unwanted(cx);
    }

    /// The answer to a call that timed out: it is refused (`Ok`) only if a holder was seen while it waited. Otherwise it
    /// gets the error.
    fn timeout_answer(&self, waiter: &Waiter<C>) -> Result<()> {
        let is_held = matches!(self.stage, Stage::Held(_) | Stage::Resting { .. });
        if is_held || self.refusals > waiter.refusals_before {
            return Ok(());
        }
        Err(self.fault.clone().unwrap_or_else(|| Error::unavailable("the store has not answered in time")))
    }

    /// Reports a call that may wait for itself: the call came from the task that took the present turn. The engine
    /// cannot know which task has the guard now.
    fn check_for_deadlock(&self, waiter: &Waiter<C>, cx: &mut SlotContext<C>) {
        let Stage::Held(hold) = &self.stage else { return };
        // Otherwise another turn has begun meanwhile.
        if hold.was_taken_by(waiter.caller) && hold.turn_since() <= waiter.since {
            let held_for = cx.now.since(hold.turn_since());
            cx.emit(Effect::MayWaitForItself { caller: waiter.caller, held_for });
        }
    }

    /// If no call waits for the key, gives up its claim, unless the claim is in flight: its answer ends it then.
    fn clean_up_if_unwanted(&mut self, cx: &mut SlotContext<C>) {
        if !self.queue.is_empty() {
            return;
        }
        self.wake_ups = WakeUps::Off;
        match mem::take(&mut self.stage) {
            Stage::Waiting { attempt, .. } => abandon(&attempt, cx),
            stage @ (Stage::Claiming(_) | Stage::Held(_) | Stage::Releasing(_)) => self.stage = stage,
            Stage::Idle | Stage::Resting { .. } => {}
        }
    }

    /// Answers all calls with this error.
    fn fail_all(&mut self, error: &Error, cx: &mut SlotContext<C>) {
        while let Some(waiter) = self.queue.remove_first() {
            cx.emit(Effect::Fail(waiter.call, error.clone()));
        }
        self.clean_up_if_unwanted(cx);
    }

    /// Claims the key on the terms of the first waiter. Without a waiter it only cleans up.
    fn claim_next(&mut self, cx: &mut SlotContext<C>) {
        let Some(terms) = self.queue.first().map(|waiter| waiter.terms) else {
            return self.clean_up_if_unwanted(cx);
        };
        let attempt = match mem::take(&mut self.stage) {
            Stage::Waiting { attempt, .. } if attempt.terms == terms => attempt,
            Stage::Waiting { attempt: earlier, .. } => {
                abandon(&earlier, cx);
                let mut attempt = cx.new_attempt(&self.key, terms);
                attempt.continues_wait_of(&earlier);
                attempt
            }
            Stage::Releasing(streak) => {
                let mut attempt = cx.new_attempt(&self.key, terms);
                attempt.streak = Some(streak);
                attempt
            }
            Stage::Idle | Stage::Resting { .. } => cx.new_attempt(&self.key, terms),
            stage @ (Stage::Claiming(_) | Stage::Held(_)) => {
                self.stage = stage;
                return;
            }
        };
        self.send_claim(attempt, cx);
    }

    fn send_claim(&mut self, mut attempt: Box<Attempt>, cx: &mut SlotContext<C>) {
        cx.emit(Effect::Send(attempt.next_step(cx.now, self.wake_ups.hears_releases(), cx.round_trip)));
        let last_covered = self.queue.last();
        self.stage = Stage::Claiming(Claiming { attempt, last_covered, is_notified: false });
    }

    fn claimed(&mut self, claim: HoldId, asked_at: Moment, answer: Result<Verdict>, cx: &mut SlotContext<C>) {
        let claiming = match mem::take(&mut self.stage) {
            Stage::Claiming(claiming) if claiming.attempt.claim.id.number == claim => claiming,
            stage => {
                self.stage = stage;
                return;
            }
        };
        match answer {
            Ok(Verdict::Granted { fences, valid_for }) => {
                self.granted(&claiming.attempt, fences, asked_at, valid_for, cx)
            }
            Ok(Verdict::Busy { retry_after }) => self.refused(claiming, asked_at, retry_after, cx),
            Err(error) => self.claim_failed(claiming.attempt, error, cx),
        }
    }

    /// The store has granted the claim. The first in the queue gets the hold. If all waiters have gone, the hold is
    /// released.
    fn granted(
        &mut self,
        attempt: &Attempt,
        fences: Fences,
        asked_at: Moment,
        valid_for: Duration,
        cx: &mut SlotContext<C>,
    ) {
        let Some(hold) = Hold::granted(attempt, fences, asked_at, valid_for, cx.now) else {
            // The answer came too late for a safe turn.
            cx.emit(Effect::Release { claim: attempt.claim.clone(), unsure: attempt.unsure, report: None });
            return self.claim_next(cx);
        };
        cx.emit(Effect::HoldBegan);
        self.stage = Stage::Held(Box::new(hold));
        self.fault = None;
        self.serve_next(None, cx);
        self.clean_up_if_unwanted(cx);
    }

    /// Another client holds the key.
    fn refused(&mut self, claiming: Claiming, asked_at: Moment, retry_after: Duration, cx: &mut SlotContext<C>) {
        let Claiming { mut attempt, last_covered, is_notified } = claiming;
        let now = cx.now;
        attempt.refused(asked_at, now, retry_after);
        self.refusals += 1;
        self.fault = None;
        let subscribes = matches!(self.wake_ups, WakeUps::Off);
        let hears_releases = subscribes || self.wake_ups.hears_releases();
        let poll = attempt.polls.interval(now, hears_releases);
        let claim = subscribes.then(|| attempt.claim.clone());
        let retry_at = now + (retry_after + Duration::from_millis(1)).min(poll);
        self.stage = Stage::Waiting { attempt, retry_at };
        self.queue.discount_refusal(last_covered);
        while let Some(waiter) = last_covered.and_then(|last| self.queue.remove_try_lock(last)) {
            cx.emit(Effect::Refuse(waiter.call));
        }
        if self.queue.is_empty() {
            return self.clean_up_if_unwanted(cx);
        }
        // The answer may be older than the notification, and than calls that came while the claim was in flight.
        if is_notified || self.queue.has_try_locks() {
            return self.claim_next(cx);
        }
        if let Some(claim) = claim {
            self.wake_ups = WakeUps::Subscribing;
            cx.emit(Effect::Subscribe(claim));
            cx.emit(Effect::WaitBegan);
        }
    }

    /// The store has refused the request, or has not answered.
    fn claim_failed(&mut self, mut attempt: Box<Attempt>, error: Error, cx: &mut SlotContext<C>) {
        attempt.unsure |= error.maybe_applied();
        attempt.faults += 1;
        let retry_at = cx.now + backoff_after(attempt.faults);
        self.stage = Stage::Waiting { attempt, retry_at };
        if !error.is_retryable() {
            return self.fail_all(&error, cx);
        }
        self.fault = Some(error);
        self.clean_up_if_unwanted(cx);
    }

    /// A client has released the key.
    fn notified(&mut self, cx: &mut SlotContext<C>) {
        if let Stage::Waiting { attempt, .. } | Stage::Claiming(Claiming { attempt, .. }) = &mut self.stage {
            attempt.notified();
        }
        self.may_be_free(cx);
    }

    /// A waiter claims immediately, because the key may be free.
    fn may_be_free(&mut self, cx: &mut SlotContext<C>) {
        match &mut self.stage {
            Stage::Waiting { attempt, .. } => {
                attempt.polls.notified();
                self.claim_next(cx);
            }
            Stage::Claiming(claiming) => {
                claiming.attempt.polls.notified();
                claiming.is_notified = true;
            }
            // A resting client lets others go first. A holder has caused the notification itself.
            Stage::Idle | Stage::Held(_) | Stage::Resting { .. } | Stage::Releasing(_) => {}
        }
    }

    fn subscribed(&mut self, subscription: Result<Subscription>, cx: &mut SlotContext<C>) {
        if self.queue.is_empty() {
            self.wake_ups = WakeUps::Off;
            return;
        }
        match subscription {
            Ok(subscription) => {
                self.wake_ups = WakeUps::On(subscription);
                self.may_be_free(cx); // A release may have come before the subscription.
            }
            Err(error) if error.kind() == ErrorKind::Denied => {
                // No further attempt while calls wait.
                self.wake_ups = WakeUps::On(Subscription::silent());
                cx.emit(Effect::SubscriptionDenied(error));
            }
            Err(_) => self.wake_ups = WakeUps::Off,
        }
    }

    /// Decides about a hold without a turn:
    /// - release it if no call waits, or if the streak is over;
    /// - start the turn of the next waiter, if the hold can serve it as it is;
    /// - otherwise exchange it for a new hold.
    fn serve_next(&mut self, report: Option<Report>, cx: &mut SlotContext<C>) {
        while self.queue.first().is_some_and(|waiter| waiter.call.has_gone()) {
            self.queue.remove_first();
        }
        let Stage::Held(hold) = &mut self.stage else { return };
        let Some(terms) = self.queue.first().map(|waiter| waiter.terms) else {
            return self.release_hold(report, cx);
        };
        if !hold.is_fresh() && hold.streak().must_end(cx.now, cx.round_trip) {
            self.release_hold(report, cx);
            return self.rest(cx);
        }
        match hold.next_fence(terms, cx.now) {
            Some(fence) => self.start_turn(fence, cx),
            None => self.exchange(terms, cx),
        }
        if let Some(report) = report {
            cx.emit(Effect::Report(report, Ok(())));
        }
    }

    /// Starts the turn of the first waiter. Calls that want a single answer are refused, unless they share the turn.
    fn start_turn(&mut self, fence: Fence, cx: &mut SlotContext<C>) {
        let Stage::Held(hold) = &mut self.stage else { return };
        let Some(waiter) = self.queue.remove_first() else { return };
        let is_passed_on = !hold.is_fresh();
        hold.start_turn(fence, waiter.caller, cx.now);
        let (id, status, waited) = (hold.id(), Arc::clone(hold.status()), cx.now.since(waiter.since));
        let turn = NewTurn { hold: id, fence, status, waited, is_passed_on };
        for other in self.queue.remove_try_locks(|call| !call.shares_with(&waiter.call)) {
            cx.emit(Effect::Refuse(other.call));
        }
        cx.emit(Effect::StartTurn { call: waiter.call, turn });
    }

    /// Exchanges the hold for a new one in one step, so no other client can claim the key between the two.
    fn exchange(&mut self, terms: Terms, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        if hold.is_unsure() {
            cx.emit(Effect::ReleaseLater(hold.claim().clone()));
        }
        let mut attempt = cx.new_attempt(&self.key, terms);
        (attempt.from, attempt.streak) = (Some(hold.claim().clone()), Some(hold.streak()));
        self.send_claim(attempt, cx);
    }

    /// Releases the hold. The stage is `Idle` then, or `Releasing`.
    fn release_hold(&mut self, report: Option<Report>, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        release(&hold, report, cx);
        if self.queue.is_empty() && !cx.is_closing {
            self.stage = Stage::Releasing(hold.streak());
        }
        self.clean_up_if_unwanted(cx);
    }

    /// Removes the hold. The stage is `Idle` then.
    fn take_hold(&mut self) -> Option<Box<Hold>> {
        match mem::take(&mut self.stage) {
            Stage::Held(hold) => {
                self.refusals += 1; // Calls that have waited until now were shown a holder: this client.
                Some(hold)
            }
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    fn present_hold(&mut self, id: HoldId) -> Option<&mut Hold> {
        match &mut self.stage {
            Stage::Held(hold) if hold.id() == id => Some(hold),
            Stage::Idle
            | Stage::Claiming(_)
            | Stage::Waiting { .. }
            | Stage::Held(_)
            | Stage::Resting { .. }
            | Stage::Releasing(_) => None,
        }
    }

    /// The last guard of a turn was dropped or released.
    fn turn_ended(&mut self, id: HoldId, report: Option<Report>, cx: &mut SlotContext<C>) {
        let now = cx.now;
        if let Some(hold) = self.present_hold(id) {
            if hold.is_lost(now) {
                // A guard has read it as lost. The release goes before the next claim, or the client's own hold would
                // be in the way.
                let Some(hold) = self.take_hold() else { return };
                report_loss(&hold, cx);
                self.lost_turn_ended(&hold, report, cx);
                return self.claim_next(cx);
            }
            let (held_for, fence) = (now.since(hold.turn_since()), hold.fence());
            hold.status().release();
            cx.emit(Effect::TurnEnded { held_for });
            cx.emit(Effect::TurnReleased { fence });
            self.serve_next(report, cx);
        } else if let Some(at) = self.lost.iter().position(|hold| hold.id() == id) {
            let hold = self.lost.swap_remove(at);
            self.lost_turn_ended(&hold, report, cx);
        } else if let Some(report) = report {
            // The client was closed, and has released the hold.
            cx.emit(Effect::Report(report, Err(Error::closed())));
        }
    }

    /// The last guard of a lost turn was dropped or released. The store may still have the hold.
    fn lost_turn_ended(&self, hold: &Hold, report: Option<Report>, cx: &mut SlotContext<C>) {
        cx.emit(Effect::TurnEnded { held_for: cx.now.since(hold.turn_since()) });
        release(hold, None, cx);
        if let Some(report) = report {
            cx.emit(Effect::Report(report, Err(Error::lost(&self.key))));
        }
    }

    fn warn_before(&mut self, id: HoldId, grace: Duration, cx: &SlotContext<C>) {
        if let Some(hold) = self.present_hold(id) {
            hold.warn_before(grace, cx.now);
        }
    }

    /// Renews the hold, to find out whether the store still has it.
    fn renew_now(&mut self, cx: &mut SlotContext<C>) {
        if let Stage::Held(hold) = &mut self.stage
            && hold.renew_now(cx.now)
        {
            cx.emit(Effect::Renew(hold.id()));
        }
    }

    fn renewed(&mut self, id: HoldId, asked_at: Moment, answer: Result<Renewal>, cx: &mut SlotContext<C>) {
        let now = cx.now;
        let Some(hold) = self.present_hold(id) else { return };
        match answer {
            Ok(Renewal::Extended { valid_for }) => match hold.extended(asked_at, valid_for, now) {
                Extension::Renewed => cx.emit(Effect::Renewed),
                Extension::Unchanged => {}
                Extension::TooLate => self.lose(cx),
            },
            Ok(Renewal::Gone) => self.lose(cx),
            Err(error) => {
                hold.renewal_failed(asked_at, now);
                cx.emit(Effect::RenewalFailed(error));
            }
        }
    }

    /// This client does not have the hold any more. Its guards are lost, and the next in the queue claims.
    fn lose(&mut self, cx: &mut SlotContext<C>) {
        let Some(hold) = self.take_hold() else { return };
        report_loss(&hold, cx);
        self.lost.push(*hold);
        self.claim_next(cx);
    }

    /// Lets other clients go first for a few round trips, after the hold was released.
    fn rest(&mut self, cx: &SlotContext<C>) {
        self.stage = Stage::Resting { until: rest_until(cx.now, cx.round_trip) };
    }

    fn released(&mut self, woke_no_client: bool, cx: &mut SlotContext<C>) {
        match &self.stage {
            Stage::Resting { .. } if woke_no_client => self.claim_next(cx),
            // This client's own old claim may have been in the way.
            Stage::Waiting { .. } => self.may_be_free(cx),
            Stage::Releasing(_) => self.release_ended(cx),
            Stage::Idle | Stage::Claiming(_) | Stage::Held(_) | Stage::Resting { .. } => {}
        }
    }

    /// The release of a key without waiters was answered, or has failed.
    fn release_ended(&mut self, cx: &mut SlotContext<C>) {
        if matches!(self.stage, Stage::Releasing(_)) {
            self.stage = Stage::Idle;
            self.clean_up_if_unwanted(cx);
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

fn release<C>(hold: &Hold, report: Option<Report>, cx: &mut SlotContext<C>) {
    // Other clients than ours, such as Java's, get no offers: every second hold of a crowd that starves makes none.
    let offers = hold.streak().offers_at_end(cx.now) && (!hold.claim().offers || fastrand::bool());
    let claim = Claim { offers, ..hold.claim().clone() };
    cx.emit(Effect::Release { claim, unsure: hold.is_unsure(), report });
}

/// Makes a hold's guards lost.
fn report_loss<C>(hold: &Hold, cx: &mut SlotContext<C>) {
    hold.status().lose();
    let (by_max_hold, is_quiet) = (hold.max_hold_has_ended(cx.now), hold.is_quiet());
    cx.emit(Effect::Lost { fence: hold.fence(), by_max_hold, is_quiet });
}

/// Gives up a claim that is not in flight. If the store may have applied it, it is released.
fn abandon<C>(attempt: &Attempt, cx: &mut SlotContext<C>) {
    let unsure = attempt.unsure;
    // An exchange that was surely not applied has left the old hold as it was.
    let claims = attempt.from.clone().into_iter().chain(attempt.claim_to_release());
    for claim in claims {
        cx.emit(Effect::Release { claim, unsure, report: None });
    }
}

#[cfg(test)]
mod tests;
