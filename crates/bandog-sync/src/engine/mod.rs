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
//! # Decisions
//! The engine decides nothing about a key. It hands each event to the key's state machine ([`slot`]), or to that of the
//! pending releases ([`releases`]), and executes the effects that come back. Both do no I/O. What happens when a future
//! is dropped while its claim is in flight is described in [`slot`].
//!
//! # Modules
//! - `slot`: the state machine of one key, with its `queue`, `attempt`, `hold`, `streak` and `polls`;
//! - `releases`: releases until the store has answered them; `backoff`: delays before repeated requests;
//! - `effects`: how the engine executes the effects of slots; `outbox`: how requests are sent together;
//! - `self_deadlock`, `outages`: what is logged about calls that may wait for themselves, and about a silent store;
//! - `record_subscriptions`: records to which users subscribe;
//! - `registration`: reports this client to the store's registry, for operators;
//! - `health`: how the store answers, for readiness probes;
//! - `calls`, `timers`, `notifications`: the events that the engine waits for; `msg`: the messages of its users;
//! - `runner`: the thread or task of the engine; `metrics`: its counters.

mod backoff;
mod calls;
mod effects;
mod health;
mod metrics;
mod msg;
mod notifications;
mod outages;
mod outbox;
mod record_subscriptions;
mod registration;
mod releases;
mod runner;
mod self_deadlock;
mod slot;
mod timers;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Answer, Backend, ClientId, Clock, Error, ErrorKind, Key, Member, Moment, Result, Step};
use tokio::sync::{mpsc, oneshot, watch};

use self::{
    calls::{Calls, Completion},
    effects::WaitingCall,
    health::StoreHealth,
    metrics::Metrics,
    notifications::KeyNotifications,
    outages::{OutageLog, Outages},
    outbox::Outbox,
    record_subscriptions::RecordSubscriber,
    registration::Registration,
    releases::Releases,
    self_deadlock::DeadlockWarnings,
    slot::{Counts, Event, Slot, SlotContext},
    timers::{Timer, Timers},
};
use crate::handle::Handle;

pub(crate) use self::msg::{HoldId, LockRequest, Msg, Patience, Terms, Ticket, TurnGrant};
pub(crate) use self::runner::Runner;
pub(crate) use self::slot::MAX_TURNS;

/// Time for which an engine on its own thread polls its mailbox after it passed a turn on within the process: the turn
/// often ends sooner than a sleeping thread wakes up.
const SPIN: Duration = Duration::from_micros(30);
/// Maximum number of messages processed in one round.
const MAX_MESSAGES: usize = 256;
/// Maximum interval at which the engine reads the clock: the machine may have been suspended.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A map with a fast hash, because each call uses it several times. The hash is seeded like the standard one.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// A key with a call, a claim or a hold.
struct SlotEntry {
    slot: Slot<WaitingCall>,
    /// The slot's entry in the timers.
    timer: Option<Moment>,
}

pub(crate) struct Engine {
    backend: Arc<dyn Backend>,
    client: ClientId,
    clock: Clock,
    /// Timeout of a request.
    timeout: Duration,
    mailbox: mpsc::UnboundedReceiver<Msg>,
    /// The number of the backend's present connection.
    epoch: watch::Receiver<u64>,
    notifications: KeyNotifications,
    calls: Calls,
    timers: Timers,
    outbox: Outbox,

    handle: Weak<Handle>,
    /// What slots know of the world. Its `now` is the last reading of the clock. It is never later than the present, so
    /// deadlines that are counted from it are safe.
    cx: SlotContext<WaitingCall>,
    slots: Map<Key, SlotEntry>,
    /// The sum over all slots.
    counts: Counts,
    /// Maximum number of calls that wait.
    max_waiting: usize,
    releases: Releases,
    releases_timer: Option<Moment>,
    record_subscribers: Map<Ticket, RecordSubscriber>,

    /// Whether the engine may spin ([`SPIN`]): it has a thread of its own.
    may_spin: bool,
    /// Whether a turn was passed on in this round.
    passed_on: bool,
    registration: Registration,
    metrics: Metrics,
    deadlock_warnings: DeadlockWarnings,
    store_health: StoreHealth,
    outages: Outages,
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
        let now = clock.now();
        Self {
            calls: Calls::new(Arc::clone(&backend)),
            backend,
            client: member.id,
            clock,
            timeout: profile.timeout,
            mailbox,
            epoch: profile.epoch,
            notifications: KeyNotifications::default(),
            timers: Timers::default(),
            outbox: Outbox::new(now),
            handle: Weak::new(),
            cx: SlotContext::new(member.id, profile.timeout, now),
            slots: Map::default(),
            counts: Counts::default(),
            max_waiting,
            releases: Releases::new(profile.timeout),
            releases_timer: None,
            record_subscribers: Map::default(),
            may_spin: false,
            passed_on: false,
            registration: Registration::new(member, terms.ttl),
            metrics: Metrics::new(),
            deadlock_warnings: DeadlockWarnings::default(),
            store_health: StoreHealth::default(),
            outages: Outages::default(),
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
        let sleep_for = [due, closing, self.outbox.longest_wait()].into_iter().flatten().min();
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
        self.cx.now = self.clock.now();
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
            self.on(&key, Event::Notified);
        }
        let now = self.cx.now;
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::Releases => self.releases_are_due(),
                Timer::Slot(key) => self.slot_is_due(&key),
                Timer::RecordSubscriber(id) => self.record_subscriber_is_due(id),
                Timer::Registration => self.registration_is_due(now),
                Timer::Health => self.health_is_due(),
            }
        }
    }

    /// Sends the collected renewals and steps.
    async fn flush(&mut self) {
        loop {
            while let Some(renewals) = self.outbox.take_renewals(self.calls.renewing()) {
                self.send_renewals(renewals);
            }
            if self.is_batch_ready() {
                let now = self.clock.now();
                self.cx.now = now;
                self.calls.apply(now, self.outbox.take_batch(now));
            }
            self.calls.poll().await;
            if !self.is_batch_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        if !self.idle_waiters.is_empty() && self.is_idle() {
            self.idle_waiters.clear();
        }
        self.metrics.set_gauges(self.counts.holds, self.counts.waiting, self.releases.len());
    }

    fn is_batch_ready(&self) -> bool {
        self.outbox.is_ready(self.calls.steps(), self.cx.round_trip, self.cx.now)
    }

    fn send_renewals(&mut self, holds: Vec<(Key, HoldId)>) {
        let now = self.clock.now();
        self.cx.now = now;
        let sent = |(key, hold): (Key, HoldId)| self.change(&key, |slot, cx| slot.renewal_sent(hold, cx)).flatten();
        let claims: Vec<_> = holds.into_iter().filter_map(sent).collect();
        if !claims.is_empty() {
            self.calls.renew(now, claims);
        }
    }

    fn handle_message(&mut self, msg: Msg) {
        match msg {
            Msg::Start(handle) => self.handle = handle,
            Msg::Lock(request) => self.lock(request),
            Msg::Cancel { key, ticket } => self.on(&key, Event::Cancel(ticket)),
            // After the client was closed, the slot is gone. The caller sees the drop of its report as `Closed`.
            Msg::Release { key, hold, report } => self.on(&key, Event::TurnEnded { hold, report }),
            Msg::WarnBefore { key, hold, grace } => self.on(&key, Event::WarnBefore { hold, grace }),
            Msg::Recheck(key) => self.on(&key, Event::Recheck),
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
                    self.on(&claim.key, Event::Renewed { hold: claim.id.number, asked_at, answer });
                }
            }
            Completion::Subscribed { key, subscription } => self.on(&key, Event::Subscribed(subscription)),
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
        match step {
            Step::Claim(claim) | Step::Pass { to: claim, .. } => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::Claimed(verdict) => Ok(verdict),
                    Answer::Released(_) => Err(mismatch(step)),
                });
                self.on(&claim.key, Event::Claimed { claim: claim.id.number, asked_at, answer });
            }
            Step::Release(claim) => {
                let answer = answer.and_then(|answer| match answer {
                    Answer::Released(released) => Ok(released),
                    Answer::Claimed(_) => Err(mismatch(step)),
                });
                self.release_answered(claim.id.number, answer);
            }
        }
    }

    fn note_answer<T>(&mut self, verb: &'static str, answer: &Result<T>) {
        let fault = answer.as_ref().err();
        if fault.is_some() {
            self.metrics.error(verb);
        }
        let silence = fault.filter(|error| error.is_retryable());
        self.cx.answered |= silence.is_none();
        let now = self.cx.now;
        let log = match silence {
            Some(error) => {
                self.store_health.failed(now, error);
                let is_logged_elsewhere = || self.handle.upgrade().is_some_and(|handle| handle.has_outage_reporter());
                if self.cx.answered { self.outages.not_answered(now, is_logged_elsewhere) } else { OutageLog::Nothing }
            }
            None => {
                self.store_health.answered(now);
                self.outages.answered()
            }
        };
        match (log, silence) {
            (OutageLog::Began, Some(error)) => {
                tracing::warn!(%error, "the store does not answer; holds last until their deadlines");
            }
            (OutageLog::Ended, _) => tracing::info!("the store answers again"),
            (OutageLog::Began | OutageLog::Nothing, _) => {}
        }
    }

    fn measure_round_trip(&mut self, asked_at: Moment) {
        self.cx.round_trip = self.cx.round_trip * 7 / 8 + self.cx.now.since(asked_at) / 8;
    }

    /// After a reconnection: the store may have lost all holds, and notifications may have been missed.
    fn reconnected(&mut self) {
        if *self.epoch.borrow() <= 1 {
            return; // No request precedes the first connection, so nothing can have been lost or missed.
        }
        for key in self.keys() {
            self.on(&key, Event::Reconnected);
        }
        self.notify_record_subscribers();
        self.register_again();
    }

    /// Releases all holds and fails all waiters with `Closed`. `run` ends when the store has answered the releases.
    fn close(&mut self) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(self.cx.now + self.timeout * 2);
        self.cx.is_closing = true;
        self.record_subscribers.clear();
        self.stop_probing();
        for key in self.keys() {
            self.on(&key, Event::Close);
        }
        self.deregister();
    }

    fn keys(&self) -> Vec<Key> {
        self.slots.keys().cloned().collect()
    }

    fn is_idle(&self) -> bool {
        self.releases.is_empty() && self.outbox.is_empty() && self.calls.is_empty() && self.counts.claiming == 0
    }

    fn is_over(&self) -> bool {
        self.closing.is_some_and(|end| self.is_idle() || self.clock.now() >= end)
    }
}

/// However the engine ends, by a panic or with its runtime, no guard may remain valid.
impl Drop for Engine {
    fn drop(&mut self) {
        self.slots.values().for_each(|entry| entry.slot.lose_all());
        // The callers see the drop of their oneshots as `Closed`.
    }
}

fn mismatch(step: &Step) -> Error {
    let message = "the backend gave an answer that does not fit the request";
    Error::new(ErrorKind::Corrupt, message).during(step.verb()).at(step.key())
}
