//! The engine's state, and its loop: a round after the other.

use std::{
    mem::ManuallyDrop,
    sync::{Arc, Weak, atomic::AtomicU64},
    time::Duration,
};

use bandog_core::{Backend, ClientId, Clock, Key, Member, Moment};
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    calls::Calls,
    deadlocks::state::Deadlocks,
    fair_calls::FairCalls,
    health::state::StoreHealth,
    map::Map,
    metrics::Metrics,
    msg::Msg,
    notifications::SlotNotifications,
    outages::Outages,
    outbox::Outbox,
    record_subscriptions::state::RecordSubscriber,
    registration::state::Registration,
    releases::Releases,
    self_deadlock::warnings::DeadlockWarnings,
    slot::{Counts, Event, Slot, SlotContext},
    timers::{Timer, Timers},
};
use crate::{
    lane::SlotId,
    process::HomeProcess,
    terms::{HoldId, Terms, Ticket},
    turn::TurnClient,
};

/// An engine on its own thread polls its mailbox for this time after a hold was handed over. The turn of the next call
/// often ends sooner than a sleeping thread would wake up.
const SPIN: Duration = Duration::from_micros(30);
/// Maximum number of messages processed in one round.
const MAX_MESSAGES: usize = 256;
/// Maximum interval at which the engine reads the clock. A timer alone is not enough, because a timer can stop while
/// the machine is suspended. The deadlines do not stop.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A slot. The entry exists while the slot has a waiting call, a claim or a hold.
pub(in crate::engine) struct SlotEntry {
    pub(super) slot: Slot,
    /// When the slot's timer fires: when the slot is due, or earlier. `None` if the timer is not set.
    pub(super) timer: Option<Moment>,
}

pub(crate) struct Engine {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) client: ClientId,
    pub(super) clock: Clock,
    /// Timeout of a request.
    pub(super) timeout: Duration,
    pub(super) mailbox: mpsc::UnboundedReceiver<Msg>,
    /// The number of the backend's present connection. The number rises with each reconnection.
    pub(super) epoch: watch::Receiver<u64>,
    pub(super) notifications: SlotNotifications,
    pub(super) calls: Calls,
    pub(super) timers: Timers,
    pub(super) outbox: Outbox,

    /// Each turn gets this client. The reference is weak, so that the engine does not keep its client alive.
    pub(super) turn_client: Option<Weak<dyn TurnClient>>,
    /// The context of the slots. `cx.now` is the last reading of the clock. `cx.now` is never later
    /// than the present, so a deadline that counts from `cx.now` is never too late.
    pub(super) cx: SlotContext,
    pub(super) slots: Map<SlotId, SlotEntry>,
    pub(super) fair_calls: FairCalls,
    /// The totals over all slots.
    pub(super) counts: Counts,
    /// Maximum number of waiting calls.
    pub(super) max_waiting: usize,
    pub(super) releases: Releases,
    /// When the next release must be sent again. `None` if the timer is not set.
    pub(super) releases_timer: Option<Moment>,
    pub(super) record_subscribers: Map<Ticket, RecordSubscriber>,

    /// Whether the engine is allowed to poll its mailbox for [`SPIN`]. True if the engine runs on its own thread.
    pub(super) may_spin: bool,
    /// Whether a hold was handed over in this round.
    pub(super) handed_over: bool,
    /// The end of the time in which the engine polls its mailbox.
    pub(super) spin_until: Option<Moment>,
    pub(super) registration: Registration,
    pub(super) metrics: Metrics,
    pub(super) deadlock_warnings: DeadlockWarnings,
    pub(super) deadlocks: Deadlocks,
    pub(super) store_health: StoreHealth,
    pub(super) outages: Outages,
    /// Callers that wait until no release is pending and no request is in flight. The callers in this field and in
    /// `closers` are answered by the drop of their oneshot. When the engine is dropped, the fields above are dropped
    /// first. Those fields can contain the last handle of the backend. So when these callers get their answer, the
    /// backend is closed already.
    pub(super) idle_waiters: Vec<oneshot::Sender<()>>,
    /// Set when the client closes: the latest moment at which the engine ends.
    pub(super) closing: Option<Moment>,
    /// Whether the last handle was dropped. No message can arrive after that.
    pub(super) no_handles: bool,
    /// Callers that wait for the end of the engine, because they have closed the client.
    pub(super) closers: Vec<oneshot::Sender<()>>,
}

impl Engine {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        member: Member,
        terms: Terms,
        max_waiting: usize,
        clock: Clock,
        mailbox: mpsc::UnboundedReceiver<Msg>,
        numbers: Arc<AtomicU64>,
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
            notifications: SlotNotifications::default(),
            timers: Timers::default(),
            outbox: Outbox::new(now, profile.max_steps),
            turn_client: None,
            cx: SlotContext::new(member.id, profile.timeout, now, numbers),
            slots: Map::default(),
            fair_calls: FairCalls::default(),
            counts: Counts::default(),
            max_waiting,
            releases: Releases::new(profile.timeout, profile.may_undo),
            releases_timer: None,
            record_subscribers: Map::default(),
            may_spin: false,
            handed_over: false,
            spin_until: None,
            registration: Registration::new(member, terms.ttl),
            metrics: Metrics::new(),
            deadlock_warnings: DeadlockWarnings::default(),
            deadlocks: Deadlocks::default(),
            store_health: StoreHealth::default(),
            outages: Outages::default(),
            idle_waiters: Vec::new(),
            closing: None,
            no_handles: false,
            closers: Vec::new(),
        }
    }

    /// Runs until the client is closed or its last handle is dropped. Then the engine continues until the store has
    /// answered all releases and the backend has ended its own work, for at most two request timeouts.
    pub(crate) async fn run(mut self) {
        let mut messages = Vec::with_capacity(MAX_MESSAGES);
        let home = HomeProcess::current();
        self.epoch.mark_unchanged();
        while !self.must_end() {
            self.sleep(&mut messages).await;
            // The child of a fork has a copy of the user's runtime, and with it of this task. It must not use the connections,
            // which the parent uses, and must not drop them, because both processes share the runtime's poller.
            if !self.may_spin && home.was_left() {
                self.mailbox.close();
                let _not_dropped = ManuallyDrop::new(self);
                return;
            }
            self.process(&mut messages);
            self.flush().await;
        }
        let left = self.closing.map(|end| end.since(self.clock.now())).unwrap_or_default();
        if !left.is_zero() {
            self.backend.drain(left).await;
        }
    }

    /// Polls the mailbox until a message arrives. The engine polls only until [`SPIN`] has passed since a hold was last
    /// handed over. Within this time, the engine polls again after each message. The first message is often not the
    /// expected release, because the caller that has just released the lock often sends its next call first.
    fn spin(&mut self, messages: &mut Vec<Msg>) {
        if std::mem::take(&mut self.handed_over) {
            self.spin_until = Some(self.clock.now() + SPIN);
        }
        let Some(until) = self.spin_until else { return };
        while messages.is_empty() && self.clock.now() < until {
            match self.mailbox.try_recv() {
                Ok(msg) => messages.push(msg),
                Err(_) => std::thread::yield_now(),
            }
        }
        if messages.is_empty() {
            self.spin_until = None;
        }
    }

    /// Returns when there is work. After that, `self.calls` contains the answers that are ready, and `messages` the
    /// messages that are ready.
    async fn sleep(&mut self, messages: &mut Vec<Msg>) {
        if self.may_spin && self.calls.is_empty() {
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
            // After `LastHandleDropped` the mailbox has no sender, so `recv_many` would always return immediately.
            _ = self.mailbox.recv_many(messages, MAX_MESSAGES), if !self.no_handles => {}
            () = self.notifications.arrived() => {}
            // `process` must still see that the epoch has changed, so the epoch is marked as changed again. After the
            // backend has ended, `changed` returns an error. The error does not match `Ok`, so `select!` ignores this
            // branch then.
            Ok(()) = self.epoch.changed() => self.epoch.mark_changed(),
            () = tokio::time::sleep(sleep_for.unwrap_or_default()), if sleep_for.is_some() => {}
        }
    }

    /// Processes all events that are ready.
    fn process(&mut self, messages: &mut Vec<Msg>) {
        while messages.len() < MAX_MESSAGES
            && let Ok(msg) = self.mailbox.try_recv()
        {
            messages.push(msg);
        }
        // The clock is read after the messages have arrived. The limit of a call counts from this time, so a call that
        // arrives after it would wait for less than its limit.
        self.cx.now = self.clock.now();
        while let Some(completion) = self.calls.take_completion() {
            self.complete(completion);
        }
        if self.epoch.has_changed().is_ok_and(|changed| changed) {
            self.epoch.mark_unchanged();
            self.reconnected();
        }
        for msg in messages.drain(..) {
            self.handle_message(msg);
        }
        for slot in self.notifications.take() {
            self.on(&slot, Event::Notified);
        }
        let now = self.cx.now;
        while let Some(timer) = self.timers.due(now) {
            match timer {
                Timer::Releases => self.releases_are_due(),
                Timer::Slot(slot) => self.slot_is_due(&slot),
                Timer::RecordSubscriber(id) => self.record_subscriber_is_due(id),
                Timer::Registration => self.registration_is_due(now),
                Timer::Health => self.health_is_due(),
                Timer::Deadlocks => self.search_is_due(now),
            }
        }
    }

    /// Sends the collected renewals and steps. Steps are claims, releases, and passes (one request that releases a
    /// hold and claims a new one).
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

    /// Sends one renewal request for these holds, without the holds that have ended since they were collected.
    fn send_renewals(&mut self, holds: Vec<(SlotId, HoldId)>) {
        let now = self.clock.now();
        self.cx.now = now;
        let sent = |(id, hold): (SlotId, HoldId)| self.change(&id, |slot, cx| slot.renewal_sent(hold, cx)).flatten();
        let claims: Vec<_> = holds.into_iter().filter_map(sent).collect();
        if !claims.is_empty() {
            self.calls.renew(now, claims);
        }
    }

    fn handle_message(&mut self, msg: Msg) {
        match msg {
            Msg::Start(client) => self.turn_client = Some(client),
            Msg::Lock(key, call) => self.lock(key, call),
            // After the client was closed, the slot does not exist any more. Then `call` is dropped, and the caller gets
            // `ErrorKind::Closed`.
            Msg::Downgrade { slot, hold, turn, call } => self.on(&slot, Event::Downgrade { hold, turn, call }),
            Msg::Cancel { slot, ticket } => self.on(&slot, Event::Cancel(ticket)),
            // After the client was closed, the slot does not exist any more. Then `report` is dropped, and the caller
            // of `release()` gets `ErrorKind::Closed`.
            Msg::Release { slot, hold, ticket, report } => self.on(&slot, Event::TurnEnded { hold, ticket, report }),
            Msg::WarnBefore { slot, hold, ticket, grace } => self.on(&slot, Event::WarnBefore { hold, ticket, grace }),
            Msg::Detach { slot, hold, ticket, report } => {
                self.on(&slot, Event::Detach { hold, ticket, report });
            }
            Msg::Extend { slot, hold, ttl, report } => self.on(&slot, Event::Extend { hold, ttl, report }),
            Msg::Recheck(key) => self.recheck(&key),
            Msg::SubscribeRecord { id, key, notifier } => self.subscribe_record(id, key, notifier),
            Msg::SubscribeLatch { id, key, notifier, until } => self.subscribe_latch(id, key, notifier, until),
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

    /// Handles a reconnection. The store may have lost all holds and the last releases, and notifications may have been
    /// missed.
    fn reconnected(&mut self) {
        if *self.epoch.borrow() <= 1 {
            return; // This was the first connection. Nothing can have been lost or missed before it.
        }
        for slot in self.slot_ids() {
            self.on(&slot, Event::Reconnected);
        }
        self.repeat_recent_releases();
        self.notify_record_subscribers();
        self.register_again();
    }

    /// Releases all holds and answers all waiting calls with `ErrorKind::Closed`. [`Engine::run`] returns when the
    /// store has answered the releases.
    fn close(&mut self) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(self.cx.now + self.timeout * 2);
        self.cx.is_closing = true;
        self.record_subscribers.clear();
        self.deadlocks = Deadlocks::default(); // Calls that linger get `ErrorKind::Closed`, because their oneshots are dropped.
        self.stop_probing();
        for slot in self.slot_ids() {
            self.on(&slot, Event::Close);
        }
        self.deregister();
    }

    /// The client of new turns. `None` if all of its handles are gone.
    pub(super) fn turn_client(&self) -> Option<Arc<dyn TurnClient>> {
        self.turn_client.as_ref().and_then(Weak::upgrade)
    }

    fn slot_ids(&self) -> Vec<SlotId> {
        self.slots.keys().cloned().collect()
    }

    /// Checks the holds of a key, because an operator has changed the key. This is rare, so all slots are searched.
    fn recheck(&mut self, key: &Key) {
        let slots: Vec<_> = self.slots.keys().filter(|slot| slot.key == *key).cloned().collect();
        for slot in slots {
            self.on(&slot, Event::Recheck);
        }
    }

    fn is_idle(&self) -> bool {
        self.releases.is_empty() && self.outbox.is_empty() && self.calls.is_empty() && self.counts.claiming == 0
    }

    fn must_end(&self) -> bool {
        self.closing.is_some_and(|end| self.is_idle() || self.clock.now() >= end)
    }
}

/// An engine can also end by a panic, or because its runtime ends. In both cases, all guards must report a loss.
impl Drop for Engine {
    fn drop(&mut self) {
        self.slots.values().for_each(|entry| entry.slot.lose_all());
        // The oneshots of waiting calls are dropped with the engine. Their callers get `ErrorKind::Closed`.
    }
}
