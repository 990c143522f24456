//! The engine: one actor per client. It owns every queue, hold, deadline and pending release of the client.
//!
//! Users send it messages ([`Msg`]) and await a oneshot. The engine itself polls the futures of the backend's calls. So
//! all state is in one place, and a dropped future of a user is one more message. The engine shares little with its
//! users: the [`crate::turn_status::TurnStatus`] of each turn, the turns of each [`crate::Owner`], and the list of keys
//! that were notified.
//!
//! # A round
//! The engine sleeps until there is work. It processes all answers, messages, notifications and timers that are ready,
//! in this order, and then sends the steps that they caused. Answers come first, so that a message sees what the store
//! has decided before it. Timers come last, so that nothing times out whose answer has arrived.
//!
//! # A dropped future
//! A user's call may be dropped while its claim is in flight. Then its [`Msg::Cancel`] removes the waiter from the
//! queue, and the claim stays: the store may apply it at any time, so a release must not overtake it. The slot remains
//! in [`slot::Stage::Claiming`] until the answer arrives:
//! - *granted*: the next waiter gets the hold. Without a waiter the engine releases it;
//! - *busy*: the slot waits for its other waiters. Without a waiter it is removed, and an unsure claim (`releases`) is
//!   released;
//! - *no answer*: the store may have applied the claim, or may still do so. If other calls wait, the engine repeats the
//!   claim with the same id. Otherwise it releases the claim, repeats the release until the store answers, and sends it
//!   once more one request timeout later (`releases`).
//!
//! If the grant is already in the user's oneshot, the turn is dropped with it. That frees the hold like any guard.
//!
//! # Modules
//! - `queue`: the local queues, and claims until the store grants them;
//! - `hold`: granted holds, their turns and deadlines; `renewals`: how holds are renewed;
//! - `releases`: releases until the store has answered them;
//! - `slot`: the state of one key; `rest`, `polls`: how a busy client lets others go first, and when a waiter polls;
//! - `self_deadlock`: calls that may wait for themselves;
//! - `record_subscriptions`: records to which users subscribe;
//! - `registration`: reports this client to the store's registry, for operators;
//! - `health`: how the store answers, for readiness probes;
//! - `calls`, `timers`, `notifications`: the events that the engine waits for; `msg`: the messages of its users;
//! - `runner`: the thread or task of the engine; `metrics`: its counters.

mod calls;
mod health;
mod hold;
mod metrics;
mod msg;
mod notifications;
mod polls;
mod queue;
mod record_subscriptions;
mod registration;
mod releases;
mod renewals;
mod rest;
mod runner;
mod self_deadlock;
mod slot;
mod timers;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Answer, Backend, Claim, ClaimId, ClientId, Clock, Error, Key, Kind, Member, Moment, Result, Step};
use tokio::sync::{mpsc, oneshot, watch};

use self::{
    calls::{Calls, Completion},
    health::StoreHealth,
    hold::Hold,
    metrics::Metrics,
    notifications::KeyNotifications,
    record_subscriptions::RecordSubscriber,
    registration::Registration,
    releases::PendingRelease,
    slot::Slot,
    timers::{Timer, Timers},
};
use crate::client::Handle;

pub(crate) use self::msg::{HoldId, LockRequest, Msg, Patience, Terms, Ticket, TurnGrant};
pub(crate) use self::runner::Runner;
pub(crate) use self::slot::MAX_TURNS;

/// Maximum number of steps in one call. A larger batch would delay its first step.
const MAX_BATCH: usize = 32;
/// Minimum number of steps in flight to a near store at which a batch that is not full waits for the next answer: many
/// small batches would cost both sides more than the wait.
const GATHER_FROM: usize = MAX_BATCH / 2;
/// Maximum round trip of a near store, and maximum time for which a batch waits for more steps.
const NEAR: Duration = Duration::from_millis(1);
/// Time for which an engine on its own thread polls its mailbox after it passed a turn on within the process: the turn
/// often ends sooner than a sleeping thread wakes up.
const SPIN: Duration = Duration::from_micros(30);
/// Maximum number of keys in one renewal call.
const MAX_RENEWALS: usize = 512;
/// Maximum number of renewal calls in flight, so that they do not crowd out claims.
const MAX_RENEWAL_CALLS: usize = 2;
/// Maximum number of messages processed in one round.
const MAX_MESSAGES: usize = 256;
/// Minimum interval between two logged outages, for a store that alternates between silence and answers.
const OUTAGE_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum interval at which the engine reads the clock: the machine may have been suspended.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A map with a fast hash, because each call uses it several times. The hash is seeded like the standard one.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

pub(crate) struct Engine {
    backend: Arc<dyn Backend>,
    client: ClientId,
    clock: Clock,
    /// The time of the last clock reading. It is never later than the present, so deadlines that are counted from it
    /// are safe.
    now: Moment,
    timeout: Duration,
    mailbox: mpsc::UnboundedReceiver<Msg>,
    /// The number of the backend's present connection.
    epoch: watch::Receiver<u64>,
    notifications: KeyNotifications,
    calls: Calls,
    timers: Timers,

    handle: Weak<Handle>,
    slots: Map<Key, Slot>,
    /// Number of calls in the slots' queues, and its maximum.
    waiting: usize,
    max_waiting: usize,
    /// At most one hold of a key is not lost, and that one is its slot's. Lost holds stay until their guards are
    /// dropped.
    holds: Map<HoldId, Hold>,
    releases: Map<HoldId, PendingRelease>,
    record_subscribers: Map<Ticket, RecordSubscriber>,

    outgoing: Vec<Step>,
    sent_at: Moment,
    /// Whether the engine may spin ([`SPIN`]): it has a thread of its own.
    may_spin: bool,
    /// Whether a turn was passed on in this round.
    passed_on: bool,
    /// Holds to renew.
    renewals: Vec<HoldId>,
    /// Number of claims made so far: the number of the last [`ClaimId`].
    claims: u64,
    registration: Registration,
    metrics: Metrics,
    /// Names for which a self-deadlock was logged, and when.
    deadlock_warnings: Map<Key, Moment>,
    store_health: StoreHealth,
    /// Whether the store has ever answered.
    answered: bool,
    /// Whether the store did not answer the last request.
    is_away: bool,
    outage_logged_at: Option<Moment>,
    /// Whether the present outage was logged, so that its end is logged as well.
    outage_is_logged: bool,
    /// Smoothed duration of a request.
    round_trip: Duration,
    /// Callers that wait until no release is pending and no call in flight. They and `closers` are answered by being
    /// dropped. The fields above may hold the last handle of a backend, so they are dropped before them.
    idle_waiters: Vec<oneshot::Sender<()>>,
    /// When the client closes: the latest moment at which the engine ends.
    closing: Option<Moment>,
    /// The last handle was dropped, so no message can come any more.
    no_handles: bool,
    closers: Vec<oneshot::Sender<()>>,
}

impl Engine {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        member: Member,
        terms: Terms,
        max_waiting: usize,
        clock: Clock,
        mailbox: mpsc::UnboundedReceiver<Msg>,
    ) -> Self {
        let profile = backend.profile();
        Self {
            calls: Calls::new(Arc::clone(&backend)),
            backend,
            client: member.id,
            clock,
            now: clock.now(),
            timeout: profile.timeout,
            mailbox,
            epoch: profile.epoch,
            notifications: KeyNotifications::default(),
            timers: Timers::default(),
            handle: Weak::new(),
            slots: Map::default(),
            waiting: 0,
            max_waiting,
            holds: Map::default(),
            releases: Map::default(),
            record_subscribers: Map::default(),
            outgoing: Vec::new(),
            sent_at: clock.now(),
            may_spin: false,
            passed_on: false,
            renewals: Vec::new(),
            claims: 0,
            registration: Registration::new(member, terms.ttl),
            metrics: Metrics::new(),
            deadlock_warnings: Map::default(),
            store_health: StoreHealth::default(),
            answered: false,
            is_away: false,
            outage_logged_at: None,
            outage_is_logged: false,
            round_trip: Duration::from_millis(1),
            idle_waiters: Vec::new(),
            closing: None,
            no_handles: false,
            closers: Vec::new(),
        }
    }

    /// Runs until the client is closed or its last handle was dropped, and no release is pending.
    pub(crate) async fn run(mut self) {
        let mut messages = Vec::with_capacity(MAX_MESSAGES);
        self.epoch.mark_unchanged();
        while !self.is_over() {
            self.sleep(&mut messages).await;
            self.process(&mut messages);
            self.flush().await;
        }
    }

    /// Polls the mailbox for a moment.
    fn spin(&mut self, messages: &mut Vec<Msg>) {
        let until = self.clock.now() + SPIN;
        while messages.is_empty() && self.clock.now() < until {
            match self.mailbox.try_recv() {
                Ok(msg) => messages.push(msg),
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Returns when there is work. Ready answers are then in `calls`, and ready messages in `messages`.
    async fn sleep(&mut self, messages: &mut Vec<Msg>) {
        if std::mem::take(&mut self.passed_on) && self.may_spin && self.calls.is_empty() {
            self.spin(messages);
            if !messages.is_empty() {
                return;
            }
        }
        let now = self.clock.now();
        let clock_check = if self.clock.is_virtual() { Duration::MAX } else { CLOCK_CHECK_INTERVAL };
        let due = self.timers.nearest().map(|moment| moment.since(now).min(clock_check));
        let closing = self.closing.map(|end| end.since(now));
        let gathered = (!self.outgoing.is_empty()).then_some(NEAR);
        let sleep_for = [due, closing, gathered].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = self.calls.completed() => {}
            // The last handle sends `LastHandleDropped`. After that the mailbox has no sender and would always be
            // ready.
            _ = self.mailbox.recv_many(messages, MAX_MESSAGES), if !self.no_handles => {}
            () = self.notifications.arrived() => {}
            // `process` reads it. After the backend has ended, this branch is disabled.
            Ok(()) = self.epoch.changed() => self.epoch.mark_changed(),
            () = tokio::time::sleep(sleep_for.unwrap_or_default()), if sleep_for.is_some() => {}
        }
    }

    /// Processes all events that are ready.
    fn process(&mut self, messages: &mut Vec<Msg>) {
        self.now = self.clock.now();
        while let Some(completion) = self.calls.take_completion() {
            self.complete(completion);
        }
        if self.epoch.has_changed().is_ok_and(|changed| changed) {
            self.epoch.mark_unchanged();
            self.reconnected();
        }
        while messages.len() < MAX_MESSAGES
            && let Ok(msg) = self.mailbox.try_recv()
        {
            messages.push(msg);
        }
        for msg in messages.drain(..) {
            self.handle_message(msg);
        }
        for key in self.notifications.take() {
            self.notified(&key);
        }
        let now = self.now;
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::Hold(id) => self.hold_is_due(id, now),
                Timer::PendingRelease(id) => self.release_is_due(id),
                Timer::Slot(key) => self.slot_is_due(&key),
                Timer::SelfDeadlock(key, ticket) => self.deadlock_check_is_due(&key, ticket),
                Timer::Waiter(key, ticket) => self.waiter_is_due(&key, ticket, now),
                Timer::RecordSubscriber(id) => self.record_subscriber_is_due(id),
                Timer::Registration => self.registration_is_due(now),
                Timer::Health => self.health_is_due(),
            }
        }
    }

    /// Sends the collected renewals and steps.
    async fn flush(&mut self) {
        loop {
            while !self.renewals.is_empty() && self.calls.renewing() < MAX_RENEWAL_CALLS {
                self.send_renewals();
            }
            if !self.outgoing.is_empty() && !self.waits_for_more() {
                let rest = self.outgoing.split_off(self.outgoing.len().min(MAX_BATCH));
                let steps = std::mem::replace(&mut self.outgoing, rest);
                self.now = self.clock.now();
                self.sent_at = self.now;
                self.calls.apply(self.now, steps);
            }
            self.calls.poll().await;
            if self.outgoing.is_empty() || self.waits_for_more() {
                break;
            }
            tokio::task::yield_now().await;
        }
        if !self.idle_waiters.is_empty() && self.is_idle() {
            self.idle_waiters.clear();
        }
        self.metrics.set_gauges(self.holds.len(), self.waiting, self.releases.len());
    }

    /// Whether a batch that is not full waits for more steps.
    fn waits_for_more(&self) -> bool {
        let can_wait = self.outgoing.len() < MAX_BATCH && self.calls.steps() >= GATHER_FROM;
        can_wait && self.round_trip < NEAR && self.now.since(self.sent_at) < NEAR
    }

    fn handle_message(&mut self, msg: Msg) {
        match msg {
            Msg::Start(handle) => self.handle = handle,
            Msg::Lock(request) => self.lock(request),
            Msg::Cancel { key, ticket } => self.cancel(&key, ticket),
            Msg::Release { hold, report } => self.turn_ended(hold, report),
            Msg::WarnBefore { hold, grace } => self.warn_before(hold, grace),
            Msg::Recheck(key) => self.recheck(&key),
            Msg::SubscribeRecord { id, key, notifier } => self.subscribe_record(id, key, notifier),
            Msg::UnsubscribeRecord(id) => self.unsubscribe_record(id),
            Msg::Ping(reply) => self.calls.ping(reply),
            Msg::CheckHealth(caller) => self.health(caller),
            Msg::Query(query) => self.calls.query(query(Arc::clone(&self.backend))),
            Msg::WaitForIdle(reply) => self.idle_waiters.push(reply),
            Msg::Close(reply) => {
                self.closers.push(reply);
                self.close();
            }
            Msg::LastHandleDropped => {
                self.no_handles = true;
                self.close();
            }
        }
    }

    fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Applied { asked_at, steps, answers } => {
                if answers.iter().any(Result::is_ok) {
                    self.measure_round_trip(asked_at);
                }
                for (step, answer) in steps.into_iter().zip(answers) {
                    self.step_answered(asked_at, &step, answer);
                }
            }
            Completion::Renewed { asked_at, claims, answers } => {
                for (claim, answer) in claims.into_iter().zip(answers) {
                    self.note_answer("renew", &answer);
                    self.renewed(asked_at, claim.id.number, answer);
                }
            }
            Completion::Subscribed { key, subscription } => self.subscribed(&key, subscription),
            Completion::RecordSubscribed { id, subscription } => self.record_subscribed(id, subscription),
            Completion::Registered(result) => self.registered(result),
            Completion::Pinged { reply, result } => {
                self.note_answer("ping", &result);
                // The caller may have gone.
                let _ = reply.send(result);
            }
            Completion::Probed(answer) => self.probed(answer),
            Completion::QueryEnded => {}
        }
    }

    fn step_answered(&mut self, asked_at: Moment, step: &Step, answer: Result<Answer>) {
        self.note_answer(step.verb(), &answer);
        match (step, answer) {
            (Step::Claim(claim) | Step::Pass { to: claim, .. }, Ok(Answer::Claimed(verdict))) => {
                self.claim_answered(asked_at, claim, verdict);
            }
            (Step::Claim(claim) | Step::Pass { to: claim, .. }, Err(error)) => self.claim_failed(claim, error),
            (Step::Release(claim), Ok(Answer::Released(released))) => self.released(claim.id.number, released),
            (Step::Release(claim), Err(error)) => self.release_failed(claim.id.number, error),
            (Step::Claim(claim) | Step::Pass { to: claim, .. }, Ok(Answer::Released(_))) => {
                self.claim_failed(claim, mismatch(step));
            }
            (Step::Release(claim), Ok(Answer::Claimed(_))) => self.release_failed(claim.id.number, mismatch(step)),
        }
    }

    fn note_answer<T>(&mut self, verb: &'static str, answer: &Result<T>) {
        let fault = answer.as_ref().err();
        if fault.is_some() {
            self.metrics.error(verb);
        }
        let silent = fault.filter(|error| error.is_retryable());
        self.answered |= silent.is_none();
        match silent {
            Some(error) => self.store_health.failed(self.now, error),
            None => self.store_health.answered(self.now),
        }
        // One log line per change and none per retry; few lines for a store that alternates between silence and
        // answers.
        match silent {
            Some(error) if self.answered => {
                let began = !std::mem::replace(&mut self.is_away, true);
                let may_log = self.outage_logged_at.is_none_or(|logged| self.now.since(logged) >= OUTAGE_LOG_INTERVAL);
                let is_logged_elsewhere = || self.handle.upgrade().is_some_and(|handle| handle.has_outage_reporter());
                if may_log && (began || !self.outage_is_logged) && !is_logged_elsewhere() {
                    (self.outage_logged_at, self.outage_is_logged) = (Some(self.now), true);
                    tracing::warn!(%error, "the store does not answer; holds last until their deadlines");
                }
            }
            None if std::mem::take(&mut self.is_away) => {
                if std::mem::take(&mut self.outage_is_logged) {
                    tracing::info!("the store answers again");
                }
            }
            Some(_) | None => {}
        }
    }

    fn measure_round_trip(&mut self, asked_at: Moment) {
        self.round_trip = self.round_trip * 7 / 8 + self.now.since(asked_at) / 8;
    }

    /// After a reconnection: the store may have lost all holds, and notifications may have been missed.
    fn reconnected(&mut self) {
        if *self.epoch.borrow() <= 1 {
            return; // No request precedes the first connection, so nothing can have been lost or missed.
        }
        let ids: Vec<_> = self.holds.keys().copied().collect();
        for id in ids {
            self.renew_now(id);
        }
        let keys: Vec<_> = self.slots.keys().cloned().collect();
        for key in keys {
            self.may_be_free(&key);
        }
        self.notify_record_subscribers();
        self.register_again();
    }

    fn new_claim(&mut self, key: &Key, terms: Terms) -> Claim {
        self.claims += 1;
        let id = ClaimId { client: self.client, number: self.claims };
        Claim { key: key.clone(), id, kind: Kind::Mutex, ttl: terms.ttl, fences: terms.fences, offers: false }
    }

    /// Releases all holds and fails all waiters with `Closed`. `run` ends when the store has answered the releases.
    fn close(&mut self) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(self.now + self.timeout * 2);
        self.record_subscribers.clear();
        self.stop_probing();
        let keys: Vec<_> = self.slots.keys().cloned().collect();
        for key in keys {
            self.fail_all(&key, &Error::closed());
        }
        let ids: Vec<_> = self.holds.keys().copied().collect();
        for id in ids {
            let hold = &self.holds[&id];
            self.metrics.held(self.now.since(hold.turn_since()));
            hold.close();
            self.release_hold(id, None);
        }
        self.deregister();
    }

    fn is_idle(&self) -> bool {
        let is_claiming = self.slots.values().any(|slot| matches!(slot.stage, slot::Stage::Claiming(_)));
        self.releases.is_empty() && self.outgoing.is_empty() && self.calls.is_empty() && !is_claiming
    }

    fn is_over(&self) -> bool {
        self.closing.is_some_and(|end| self.is_idle() || self.clock.now() >= end)
    }
}

/// However the engine ends, by a panic or with its runtime, no guard may remain valid.
impl Drop for Engine {
    fn drop(&mut self) {
        for hold in self.holds.values() {
            hold.lose();
        }
        // The callers see the drop of their oneshots as `Closed`.
    }
}

fn mismatch(step: &Step) -> Error {
    let message = "the backend gave an answer that does not fit the request";
    Error::new(bandog_core::ErrorKind::Corrupt, message).during(step.verb()).at(step.key())
}

/// How much earlier than in the store a hold ends here: for the drift of the clocks, and to give the user time to stop.
fn margin(ttl: Duration) -> Duration {
    (ttl / 100).max(Duration::from_millis(5))
}
