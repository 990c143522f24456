//! The engine: one actor per client, which owns every queue, hold, deadline and pending of it.
//!
//! Users send it messages and await a oneshot; the backend's calls are futures that it polls itself. So all state is
//! in one place, and a dropped future of a user is just one more message. What it shares with its users is small: each
//! turn's [`crate::turn_status::TurnStatus`], an [`crate::Owner`]'s table of turns, and the list of keys whose subscription rang.
//!
//! A round: sleep until there is something; take every answer, message, ring and timer that is ready, in this order;
//! send what came of it. Answers come first, so that a message finds what the store has decided before it; timers last,
//! so that nothing is given up whose answer is there.
//! - `queue`: the local queues, and claims until the store grants them;
//! - `hold`: what the store has granted: turns and deadlines; `renewals`: how it is kept;
//! - `releases`: releases until the store has answered them;
//! - `rest`, `polls`: how a busy client lets others go first, and how a waiter asks that nothing wakes;
//! - `self_deadlock`: calls that may wait for themselves;
//! - `record_subscriptions`: records to which users subscribe;
//! - `registration`: who this client is, for operators;
//! - `health`: how the store answers, for readiness probes;
//! - `calls`, `timers`, `rings`: what it waits for; `metrics`: what it counts.

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

use bandog_core::{
    Answer, Backend, Claim, ClaimId, ClientId, Clock, Error, Key, Kind, Member, Moment, Renewal, Result, Step,
};
use tokio::sync::{mpsc, oneshot, watch};

use self::{
    calls::{Calls, Done},
    health::StoreHealth,
    hold::Held,
    metrics::Metrics,
    notifications::Notifications,
    record_subscriptions::RecordSubscriber,
    registration::Registration,
    releases::PendingRelease,
    slot::Slot,
    timers::{Timer, Timers},
};
use crate::client::Handle;

pub(crate) use self::msg::{Given, HoldId, Msg, Patience, Terms, Ticket, Want};
pub(crate) use self::runner::Runner;
pub(crate) use self::slot::TURNS;

/// Steps in one call: so that the wire carries the first while the second is packed.
const BATCH: usize = 32;
/// With so many steps on the way to a store that is near, a batch that is not full waits for the next answer: many
/// small batches would cost both sides more than the wait.
const GATHER: usize = BATCH / 2;
/// A store is near that answers within this time, and nothing waits for longer to gather.
const NEAR: Duration = Duration::from_millis(1);
/// How long an engine with a thread of its own looks for the next message after a turn that was passed on within the
/// process: the turn is often over sooner than a sleeping thread is awake.
const LINGER: Duration = Duration::from_micros(30);
/// Keys in one renewal.
const RENEWALS: usize = 512;
/// Renewals in flight at a time, so that they do not crowd out claims.
const RENEWING: usize = 2;
/// Messages taken in one round.
const MAIL: usize = 256;
/// A store that is silent and answers by turns is logged once in this time.
const TELL_AGAIN: Duration = Duration::from_secs(10);
/// The engine looks at the clock at least this often, since the machine may have slept.
const LOOK: Duration = Duration::from_secs(1);

/// Looked into several times a call, so its hash is a quick one; it is seeded like the standard one.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

pub(crate) struct Engine {
    backend: Arc<dyn Backend>,
    client: ClientId,
    clock: Clock,
    /// The last look at the clock. It is never later than the present, so deadlines that are counted from it are safe.
    now: Moment,
    timeout: Duration,
    mailbox: mpsc::UnboundedReceiver<Msg>,
    epoch: watch::Receiver<u64>,
    notifications: Notifications,
    calls: Calls,
    timers: Timers,

    handle: Weak<Handle>,
    slots: Map<Key, Slot>,
    /// How many calls stand in the slots' queues, and how many may.
    waiting: usize,
    max_waiting: usize,
    /// At most one of a key is not lost, and that one is its slot's. Lost ones stay until their guards have gone.
    holds: Map<HoldId, Held>,
    releases: Map<HoldId, PendingRelease>,
    record_subscribers: Map<Ticket, RecordSubscriber>,

    /// Steps to send.
    out: Vec<Step>,
    /// When steps were last sent.
    sent_at: Moment,
    /// Whether it may keep its thread busy while it has nothing to do.
    lingers: bool,
    /// A turn was passed on in this round.
    passed_on: bool,
    /// Holds to renew.
    renewals: Vec<HoldId>,
    claims: u64,
    registration: Registration,
    metrics: Metrics,
    /// The names of which it was logged that a caller waits for itself, and when.
    suspects: Map<Key, Moment>,
    store_health: StoreHealth,
    /// Whether the store has ever answered.
    answered: bool,
    /// Whether the store was silent the last time.
    away: bool,
    /// When that was logged last.
    away_told: Option<Moment>,
    /// Whether the next answer is worth a line too.
    away_is_news: bool,
    /// How long a request takes, smoothed.
    trip: Duration,
    /// Who waits until nothing is owed. They, and closers, are answered by being dropped; so the fields above, which
    /// may hold the last handle of a backend, go before them.
    idlers: Vec<oneshot::Sender<()>>,
    /// Set when the client closes: until when it may take.
    closing: Option<Moment>,
    /// Nobody is left who could send a message.
    alone: bool,
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
            notifications: Notifications::default(),
            timers: Timers::default(),
            handle: Weak::new(),
            slots: Map::default(),
            waiting: 0,
            max_waiting,
            holds: Map::default(),
            releases: Map::default(),
            record_subscribers: Map::default(),
            out: Vec::new(),
            sent_at: clock.now(),
            lingers: false,
            passed_on: false,
            renewals: Vec::new(),
            claims: 0,
            registration: Registration::new(member, terms.ttl),
            metrics: Metrics::new(),
            suspects: Map::default(),
            store_health: StoreHealth::default(),
            answered: false,
            away: false,
            away_told: None,
            away_is_news: false,
            trip: Duration::from_millis(1),
            idlers: Vec::new(),
            closing: None,
            alone: false,
            closers: Vec::new(),
        }
    }

    /// Runs until the client is closed or its last handle has gone, and nothing is owed.
    pub(crate) async fn run(mut self) {
        let mut mail = Vec::with_capacity(MAIL);
        self.epoch.mark_unchanged();
        while !self.is_over() {
            self.sleep(&mut mail).await;
            self.take(&mut mail);
            self.flush().await;
        }
    }

    /// Looks for the next message for a moment.
    fn linger(&mut self, mail: &mut Vec<Msg>) {
        let until = self.clock.now() + LINGER;
        while mail.is_empty() && self.clock.now() < until {
            match self.mailbox.try_recv() {
                Ok(msg) => mail.push(msg),
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Returns when there is something to do. Answers and messages that are ready are in `mail` and `calls` then.
    async fn sleep(&mut self, mail: &mut Vec<Msg>) {
        if std::mem::take(&mut self.passed_on) && self.lingers && self.calls.is_empty() {
            self.linger(mail);
            if !mail.is_empty() {
                return;
            }
        }
        let now = self.clock.now();
        let look = if self.clock.is_virtual() { Duration::MAX } else { LOOK };
        let due = self.timers.nearest().map(|moment| moment.since(now).min(look));
        let end = self.closing.map(|end| end.since(now));
        let gathered = (!self.out.is_empty()).then_some(NEAR);
        let nap = [due, end, gathered].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = self.calls.answered() => {}
            // The sender lives in handles, and the last of them says `Leave`; a mailbox without a sender is always ready.
            _ = self.mailbox.recv_many(mail, MAIL), if !self.alone => {}
            () = self.notifications.rung() => {}
            // Looked at below; a backend that has ended tells of nothing any more.
            Ok(()) = self.epoch.changed() => self.epoch.mark_changed(),
            () = tokio::time::sleep(nap.unwrap_or_default()), if nap.is_some() => {}
        }
    }

    /// Takes what is ready.
    fn take(&mut self, mail: &mut Vec<Msg>) {
        self.now = self.clock.now();
        while let Some(done) = self.calls.take() {
            self.done(done);
        }
        if self.epoch.has_changed().is_ok_and(|changed| changed) {
            self.epoch.mark_unchanged();
            self.reconnected();
        }
        while mail.len() < MAIL
            && let Ok(msg) = self.mailbox.try_recv()
        {
            mail.push(msg);
        }
        for msg in mail.drain(..) {
            self.received(msg);
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
                Timer::Suspect(key, ticket) => self.suspect_is_due(&key, ticket),
                Timer::Ticket(key, ticket) => self.time_is_up(&key, ticket, now),
                Timer::RecordSubscriber(id) => self.record_subscriber_is_due(id),
                Timer::Registration => self.registration_is_due(now),
                Timer::Health => self.health_is_due(),
            }
        }
    }

    /// Sends what is to be sent.
    async fn flush(&mut self) {
        loop {
            while !self.renewals.is_empty() && self.calls.renewing() < RENEWING {
                self.send_renewals();
            }
            if !self.out.is_empty() && !self.gathers() {
                let rest = self.out.split_off(self.out.len().min(BATCH));
                let steps = std::mem::replace(&mut self.out, rest);
                self.now = self.clock.now();
                self.sent_at = self.now;
                self.calls.apply(self.now, steps);
            }
            self.calls.poll().await;
            if self.out.is_empty() || self.gathers() {
                break;
            }
            tokio::task::yield_now().await;
        }
        if !self.idlers.is_empty() && self.is_idle() {
            self.idlers.clear();
        }
        self.metrics.levels(self.holds.len(), self.waiting, self.releases.len());
    }

    /// Whether what is to be sent waits for more.
    fn gathers(&self) -> bool {
        let few = self.out.len() < BATCH && self.calls.steps() >= GATHER;
        few && self.trip < NEAR && self.now.since(self.sent_at) < NEAR
    }

    fn received(&mut self, msg: Msg) {
        match msg {
            Msg::Begin(handle) => self.handle = handle,
            Msg::Want(want) => self.want(want),
            Msg::Quit { key, ticket } => self.quit(&key, ticket),
            Msg::Free { hold, report } => self.free(hold, report),
            Msg::WarnBefore { hold, grace } => self.warn_before(hold, grace),
            Msg::Recheck(key) => self.recheck(&key),
            Msg::SubscribeRecord { id, key, notifier } => self.subscribe_record(id, key, notifier),
            Msg::UnsubscribeRecord(id) => self.unsubscribe_record(id),
            Msg::Ping(reply) => self.calls.ping(reply),
            Msg::Health(caller) => self.health(caller),
            Msg::Look(look) => self.calls.look(look(Arc::clone(&self.backend))),
            Msg::Idle(reply) => self.idlers.push(reply),
            Msg::Close(reply) => {
                self.closers.push(reply);
                self.close();
            }
            Msg::LastHandleGone => {
                self.alone = true;
                self.close();
            }
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Applied { asked_at, steps, answers } => {
                if answers.iter().any(Result::is_ok) {
                    self.measure(asked_at);
                }
                for (step, answer) in steps.into_iter().zip(answers) {
                    self.applied(asked_at, &step, answer);
                }
            }
            Done::Renewed { asked_at, claims, answers } => {
                for (claim, answer) in claims.into_iter().zip(answers) {
                    self.note_answer("renew", &answer);
                    self.renewed(asked_at, claim.id.number, answer);
                }
            }
            Done::Subscribed { key, subscription } => self.subscribed(&key, subscription),
            Done::RecordSubscribed { id, subscription } => self.record_subscribed(id, subscription),
            Done::Announced(result) => self.announced(result),
            Done::Pinged { reply, result } => {
                self.note_answer("ping", &result);
                // The caller may have gone.
                let _ = reply.send(result);
            }
            Done::Probed(answer) => self.probed(answer),
            Done::Looked => {}
        }
    }

    fn applied(&mut self, asked_at: Moment, step: &Step, answer: Result<Answer>) {
        self.note_answer(step.verb(), &answer);
        match (step, answer) {
            (Step::Claim(claim) | Step::Pass { to: claim, .. }, Ok(Answer::Claimed(verdict))) => {
                self.claimed(asked_at, claim, verdict);
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
        // One line for each change, none for each retry, and few for a store that cannot make up its mind.
        match silent {
            Some(error) if self.answered => {
                let began = !std::mem::replace(&mut self.away, true);
                let is_news = self.away_told.is_none_or(|told| self.now.since(told) >= TELL_AGAIN);
                let is_told = || self.handle.upgrade().is_some_and(|handle| handle.has_teller());
                if is_news && (began || !self.away_is_news) && !is_told() {
                    (self.away_told, self.away_is_news) = (Some(self.now), true);
                    tracing::warn!(%error, "the store does not answer; holds last until their deadlines");
                }
            }
            None if std::mem::take(&mut self.away) => {
                if std::mem::take(&mut self.away_is_news) {
                    tracing::info!("the store answers again");
                }
            }
            Some(_) | None => {}
        }
    }

    fn measure(&mut self, asked_at: Moment) {
        self.trip = self.trip * 7 / 8 + self.now.since(asked_at) / 8;
    }

    /// The store may have forgotten everything, and rings may have been missed.
    fn reconnected(&mut self) {
        if *self.epoch.borrow() <= 1 {
            return; // Nothing was asked before the first connection, so nothing can have been forgotten or missed.
        }
        let ids: Vec<_> = self.holds.keys().copied().collect();
        for id in ids {
            self.renew_now(id);
        }
        let keys: Vec<_> = self.slots.keys().cloned().collect();
        for key in keys {
            self.notified(&key);
        }
        self.notify_record_subscribers();
        self.announce_again();
    }

    fn new_claim(&mut self, key: &Key, terms: Terms) -> Claim {
        self.claims += 1;
        let id = ClaimId { client: self.client, number: self.claims };
        Claim { key: key.clone(), id, kind: Kind::Mutex, ttl: terms.ttl, fences: terms.fences, offers: false }
    }

    /// Gives everything back, answers everybody, and lets `run` end when the store has answered.
    fn close(&mut self) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(self.now + self.timeout * 2);
        self.record_subscribers.clear();
        self.stop_probing();
        let keys: Vec<_> = self.slots.keys().cloned().collect();
        for key in keys {
            self.refuse_all(&key, &Error::closed());
        }
        let ids: Vec<_> = self.holds.keys().copied().collect();
        for id in ids {
            let held = &self.holds[&id];
            self.metrics.held(self.now.since(held.turn_since()));
            held.close();
            self.give_back(id, None);
        }
        self.withdraw();
    }

    fn is_idle(&self) -> bool {
        let asking = self.slots.values().any(|slot| matches!(slot.stage, slot::Stage::Claiming(_)));
        self.releases.is_empty() && self.out.is_empty() && self.calls.is_empty() && !asking
    }

    fn is_over(&self) -> bool {
        self.closing.is_some_and(|end| self.is_idle() || self.clock.now() >= end)
    }
}

/// However the engine ends, nobody may go on believing: not after a panic, nor when its runtime has ended.
impl Drop for Engine {
    fn drop(&mut self) {
        for held in self.holds.values() {
            held.lose();
        }
        // Replies that are dropped with the queues and the mailbox say `Closed`.
    }
}

fn mismatch(step: &Step) -> Error {
    let message = "the backend gave an answer that does not fit the request";
    Error::new(bandog_core::ErrorKind::Corrupt, message).during(step.verb()).at(step.key())
}

/// How much earlier than the store we let a hold end: for the clocks' drift, and for the user to stop.
fn margin(ttl: Duration) -> Duration {
    (ttl / 100).max(Duration::from_millis(5))
}

/// An answer of the store to a renewal.
type Renewed = Result<Renewal>;
