//! The reference backend, which keeps its data in maps of this process.

mod messages;
mod objects;
mod queues;
mod receivers;
mod record_table;
mod records;
mod subscribers;
mod work_queues;

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::watch;

use self::{
    messages::MessageSubscribers, objects::Objects, receivers::Receivers, record_table::RecordTable,
    subscribers::Subscribers, work_queues::WorkQueues,
};
use crate::{
    Answer, Backend, Claim, ClaimId, ClientId, Clock, Error, Fence, Finding, Holding, IfUnused, Inspect, Key, Kind,
    Latches, Leases, LockState, Member, Moment, NamesPage, Notifier, Pattern, Portion, Profile, QuorumNode, Released,
    Renewal, Reports, Result, Row, SqlDialect, SqlStatement, Step, Subscription, Usage, Verdict,
    leases::no_fence_sql,
    messages::{Channel, Channels, Messages, Sink},
    queues::Queues,
    structures::{
        Action, CacheChange, CacheChanges, CacheOp, Cursor, EntryEvents, EntryKey, MapChange, MapChanges, ObjectRow,
        ObjectState, Op, Page, Part, Reply, Source, Structures,
    },
};

/// Maximum number of names in a part of all names.
const PAGE: usize = 1000;

/// A store in the memory of this process, for tests and for programs of one process. Clones share their locks and
/// records.
///
/// The store is the reference for other backends: it keeps all promises of the backend traits. Its fences are counters,
/// which start again with each new store.
///
/// ```
/// use bandog::backend::{Clock, Memory};
/// let store = Memory::new(Clock::system());
/// let the_same = store.clone();
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    clock: Clock,
    state: Arc<Mutex<MemoryState>>,
    /// The sender of [`Profile::epoch`]. This backend has no connections, so the number never changes.
    epoch: Arc<watch::Sender<u64>>,
    /// Whether the store has statements for transactions of users.
    has_sql: bool,
}

#[derive(Debug, Default)]
struct MemoryState {
    locks: BTreeMap<Key, LockState>,
    /// The time of the last grant of each name.
    granted: HashMap<Key, Moment>,
    /// The greatest fence of a name that was deleted. The fences of new names begin after it.
    forgotten: u64,
    records: RecordTable,
    objects: Objects,
    queues: WorkQueues,
    /// The subscribers of the elements of objects.
    element_subscribers: Subscribers,
    /// Those that get the changes of each cache.
    cache_subscribers: Receivers<CacheChanges>,
    /// Those that get the changes of each map.
    map_subscribers: Receivers<MapChanges>,
    /// Those that get the events of each timed map.
    entry_subscribers: Receivers<EntryEvents>,
    subscribers: Subscribers,
    message_subscribers: MessageSubscribers,
    /// The rows of the registry, with the time at which each row expires.
    members: HashMap<ClientId, (Member, Moment)>,
    /// The settings that all clients share.
    settings: HashMap<String, String>,
    reports: Reports,
}

impl Memory {
    /// Creates an empty store that uses this clock.
    pub fn new(clock: Clock) -> Self {
        Self { clock, state: Arc::default(), epoch: Arc::new(watch::Sender::new(0)), has_sql: false }
    }

    /// The same store, with statements for transactions in any database ([`SqlDialect::Any`]), for the tests of a program.
    ///
    /// The store checks the claim or the run when it makes the statement. The transaction keeps no other claim from the
    /// lock, and the store does not remember that a run was completed.
    #[must_use]
    pub fn with_sql(self) -> Self {
        Self { has_sql: true, ..self }
    }

    /// Locks the state, and then reads the present time. Because of this order, the time of a decision is never before
    /// the time of an earlier decision.
    fn state_and_time(&self) -> (MutexGuard<'_, MemoryState>, Moment) {
        let state = self.state();
        let now = self.clock.now();
        (state, now)
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and then delivers what this reports to subscribers.
    fn change<T>(&self, change: impl FnOnce(&mut MemoryState, Moment) -> T) -> T {
        let (mut state, now) = self.state_and_time();
        let result = change(&mut state, now);
        Reports::unlock(state, &self.state, |state| &mut state.reports);
        result
    }
}

#[async_trait]
impl Leases for Memory {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        self.change(|state, now| {
            let apply = |step: &Step| state.apply(step, now).map_err(|error| error.during(step.verb()).at(step.key()));
            steps.iter().map(apply).collect()
        })
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (mut state, now) = self.state_and_time();
        claims.iter().map(|claim| Ok(state.lock(&claim.key).renew(claim, now))).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let queued = match claim.kind {
            Kind::Fair => Some(claim.id),
            Kind::Mutex | Kind::Read | Kind::Write | Kind::Permits { .. } => None,
        };
        let id = self.state().subscribers.add(&claim.key, queued, notifier);
        let (shared, key) = (self.clone(), claim.key.clone());
        Ok(Subscription::new(move || {
            let removed = shared.state().subscribers.remove(&key, id);
            drop(removed);
        }))
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        self.change(|state, now| {
            let before = state.lock(key).set_limit(permits, now).map_err(|error| error.during("set_limit").at(key))?;
            state.subscribers.notify(key, None, &mut state.reports);
            Ok(before)
        })
    }

    async fn register(&self, member: &Member, ttl: Duration) -> Result<()> {
        let (mut state, now) = self.state_and_time();
        state.members.insert(member.id, (member.clone(), now + ttl));
        Ok(())
    }

    async fn deregister(&self, client: ClientId) -> Result<()> {
        self.state().members.remove(&client);
        Ok(())
    }

    async fn fence_sql(&self, holding: &Holding, fence: Fence) -> Result<SqlStatement> {
        if !self.has_sql {
            return Err(no_fence_sql(holding));
        }
        let (state, now) = self.state_and_time();
        if !state.is_held(holding, now) {
            return Err(Error::lost(&holding.key).during("fence"));
        }
        Ok(SqlStatement::of_memory(&holding.key, fence.get()))
    }

    fn profile(&self) -> Profile {
        Profile {
            store: "memory".into(),
            timeout: Duration::from_secs(3),
            kinds: LockState::KINDS,
            outlive_clients: LockState::KINDS,
            has_records: true,
            fence_survives_failover: true,
            may_undo: Duration::ZERO,
            checks_locks_in: self.has_sql.then_some(SqlDialect::Any),
            completes_runs_in: self.has_sql.then_some(SqlDialect::Any),
            expiry: "this process's clock",
            max_steps: Profile::MAX_STEPS,
            epoch: self.epoch.subscribe(),
        }
    }
}

#[async_trait]
impl QuorumNode for Memory {
    async fn uptime(&self) -> Result<Duration> {
        Ok(Duration::MAX) // The data are lost only together with this process.
    }

    async fn setting(&self, name: &str, text: Option<&str>) -> Result<Option<String>> {
        let mut state = self.state();
        if let (Some(text), false) = (text, state.settings.contains_key(name)) {
            state.settings.insert(name.to_owned(), text.to_owned());
        }
        Ok(state.settings.get(name).cloned())
    }
}

#[async_trait]
impl Inspect for Memory {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        let (state, now) = self.state_and_time();
        let rows = state.locks.iter().filter(|(key, _)| pattern.matches(key.as_str()));
        Ok(rows.filter_map(|(key, lock)| lock.row(key, now)).collect())
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let (state, now) = self.state_and_time();
        let held = state.locks.get(key).and_then(|lock| lock.row(key, now));
        Ok(held.unwrap_or_else(|| Row::free(key)))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        let (mut state, now) = self.state_and_time();
        state.members.retain(|_, (_, until)| now < *until);
        Ok(state.members.values().map(|(member, _)| member.clone()).collect())
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.change(|state, now| {
            let lock = state.lock(key);
            let (row, evicted, next) = (lock.row(key, now), lock.evict(now), lock.next_in_queue(now));
            state.notify(key, evicted, next);
            Ok(row)
        })
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        let (mut state, now) = self.state_and_time();
        let is_unused =
            |lock: &LockState| lock.row(key, now).is_none() && lock.places().iter().all(|place| place.until <= now);
        let is_free = state.locks.get(key).is_none_or(is_unused);
        if is_free {
            state.forget(key);
        }
        Ok(is_free)
    }

    async fn names_page(&self, pattern: &Pattern, _: Duration, after: Option<&str>) -> Result<NamesPage> {
        let state = self.state();
        let first = after.map(Key::new).transpose()?.map_or(Bound::Unbounded, Bound::Excluded);
        let names = state.locks.range((first, Bound::Unbounded)).map(|(key, _)| key);
        let keys: Vec<_> = names.take(PAGE).collect();
        let next = keys.get(PAGE - 1).map(|key| key.as_str().to_owned());
        let matching = keys.iter().filter(|key| pattern.matches(key.as_str()));
        Ok(NamesPage { keys: matching.copied().cloned().collect(), seen: keys.len() as u64, next })
    }

    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        let (mut state, now) = self.state_and_time();
        let usage = |key| {
            let usage = state.usage(key, unused_for, now);
            if (usage, then) == (Usage::Unused, IfUnused::Forget) {
                state.forget(key);
            }
            usage
        };
        Ok(keys.iter().map(usage).collect())
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding::fine("memory", "the store exists only in this process, so no other process sees its locks")])
    }
}

impl Latches for Memory {}

impl Backend for Memory {
    fn structures(&self) -> Option<Arc<dyn Structures>> {
        Some(Arc::new(self.clone()))
    }

    fn messages(&self) -> Option<Arc<dyn Messages>> {
        Some(Arc::new(self.clone()))
    }

    fn queues(&self) -> Option<Arc<dyn Queues>> {
        Some(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Messages for Memory {
    async fn publish(&self, messages: &[(Channel, Vec<u8>)]) -> Vec<Result<u64>> {
        self.change(|state, _| {
            let MemoryState { message_subscribers, reports, .. } = state;
            messages
                .iter()
                .map(|(channel, payload)| Ok(message_subscribers.publish(channel, payload, reports)))
                .collect()
        })
    }

    async fn subscribe_messages(&self, channels: &Channels, sink: Sink) -> Result<Subscription> {
        let id = self.state().message_subscribers.add(channels.clone(), sink);
        let shared = self.clone();
        Ok(Subscription::new(move || {
            let ended = shared.state().message_subscribers.remove(id);
            drop(ended);
        }))
    }
}

#[async_trait]
impl Structures for Memory {
    async fn run(&self, ops: &[Op]) -> Vec<Result<Reply>> {
        self.change(|state, now| {
            state.objects.expire(now);
            let wall = objects::wall_millis(self.clock);
            ops.iter().map(|op| state.run(op, now, wall)).collect()
        })
    }

    async fn page(&self, key: &Key, part: Part, from: &Cursor, about: Portion) -> Result<Page> {
        let (mut state, now) = self.state_and_time();
        state.objects.expire(now);
        objects::page(&state.objects, key, part, from, about, now)
    }

    async fn objects(
        &self,
        pattern: &Pattern,
        from: &Cursor,
        about: usize,
    ) -> Result<(Vec<ObjectRow>, Option<Cursor>)> {
        let (mut state, now) = self.state_and_time();
        state.objects.expire(now);
        objects::objects(&state.objects, pattern, from, about, now)
    }

    async fn describe(&self, key: &Key) -> Result<Vec<ObjectState>> {
        let (mut state, now) = self.state_and_time();
        state.objects.expire(now);
        Ok(objects::describe(&state.objects, key, now).into_iter().collect())
    }

    async fn subscribe_fill(&self, key: &Key, _: &EntryKey, notifier: Notifier) -> Result<Subscription> {
        self.subscribe_object(key, notifier)
    }

    async fn track_cache(&self, key: &Key, changes: CacheChanges) -> Result<Subscription> {
        let id = self.state().cache_subscribers.add(key, changes.clone());
        changes.report(CacheChange::Any); // From now on each change is reported.
        let shared = self.clone();
        Ok(Subscription::new(move || {
            let removed = shared.state().cache_subscribers.remove(&id);
            drop(removed);
        }))
    }

    async fn track_map(&self, key: &Key, changes: MapChanges) -> Result<Subscription> {
        let id = self.state().map_subscribers.add(key, changes.clone());
        changes.report(MapChange::Any); // From now on each change is reported.
        let shared = self.clone();
        Ok(Subscription::new(move || {
            let removed = shared.state().map_subscribers.remove(&id);
            drop(removed);
        }))
    }

    async fn subscribe_entries(&self, key: &Key, events: EntryEvents) -> Result<Subscription> {
        let id = self.state().entry_subscribers.add(key, events);
        let shared = self.clone();
        Ok(Subscription::new(move || {
            let removed = shared.state().entry_subscribers.remove(&id);
            drop(removed);
        }))
    }

    async fn subscribe_elements(&self, key: &Key, _: Source, notifier: Notifier) -> Result<Subscription> {
        self.subscribe_object(key, notifier)
    }
}

impl Memory {
    /// Notifies after changes of an object or a cache.
    fn subscribe_object(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let id = self.state().element_subscribers.add(key, None, notifier);
        let (shared, key) = (self.clone(), key.clone());
        Ok(Subscription::new(move || {
            let removed = shared.state().element_subscribers.remove(&key, id);
            drop(removed);
        }))
    }
}

impl MemoryState {
    /// Applies an operation on an object, and reports it.
    fn run(&mut self, op: &Op, now: Moment, wall: u64) -> Result<Reply> {
        let (reply, grown) = objects::run(&mut self.objects, op, now, wall);
        if let Some(key) = grown {
            self.element_subscribers.notify(&key, None, &mut self.reports);
        }
        match &op.action {
            Action::Cache(action) => self.report_change(&op.key, action),
            Action::Timed(..) => self.report_events(&op.key),
            Action::Map(op) | Action::Copied(op) if op.written().next().is_none() => {}
            _ => {
                for changes in self.map_subscribers.of(&op.key) {
                    let changes = changes.clone();
                    self.reports.add(move || changes.report(MapChange::Any));
                }
            }
        }
        reply
    }

    /// Reports a change of a cache.
    fn report_change(&mut self, key: &Key, op: &CacheOp) {
        let change = match op {
            CacheOp::Put(at, _) | CacheOp::Remove(at) | CacheOp::Fill { at, .. } => CacheChange::Entry(at.clone()),
            CacheOp::Clear { .. } => CacheChange::Any,
            CacheOp::Get(_)
            | CacheOp::Look(_)
            | CacheOp::Begin { .. }
            | CacheOp::Extend { .. }
            | CacheOp::End { .. } => {
                return;
            }
        };
        for changes in self.cache_subscribers.of(key) {
            let (changes, change) = (changes.clone(), change.clone());
            self.reports.add(move || changes.report(change));
        }
    }

    /// Reports the events of the last operation on a timed map.
    fn report_events(&mut self, key: &Key) {
        for event in self.objects.take_events() {
            for events in self.entry_subscribers.of(key) {
                let (events, event) = (events.clone(), event.clone());
                self.reports.add(move || events.report(event));
            }
        }
    }

    /// Applies a step. If other claims can get the key after the step, their subscribers are notified.
    fn apply(&mut self, step: &Step, now: Moment) -> Result<Answer> {
        let lock = self.lock(step.key());
        let answer = lock.apply(step, now)?;
        let wakes_others = lock.wakes_others(step, &answer);
        Ok(match answer {
            Answer::Released(released) => {
                let next = lock.next_in_queue(now);
                Answer::Released(self.notify(step.key(), released, next))
            }
            Answer::Claimed(verdict) => {
                if wakes_others {
                    self.subscribers.notify(step.key(), None, &mut self.reports);
                }
                if let Verdict::Granted { .. } = verdict {
                    self.granted.insert(step.key().clone(), now);
                }
                Answer::Claimed(verdict)
            }
        })
    }

    /// The state of the lock with this name. A lock without a state gets the state of a free lock.
    fn lock(&mut self, key: &Key) -> &mut LockState {
        let new = || LockState::of_mutex(None, false, Fence::new(self.forgotten));
        self.locks.entry(key.clone()).or_insert_with(new)
    }

    /// Whether this name is used. Fences are counters, so the store keeps the times of the grants.
    fn usage(&self, key: &Key, unused_for: Duration, now: Moment) -> Usage {
        let Some(lock) = self.locks.get(key) else { return Usage::Absent };
        let is_old = self.granted.get(key).is_none_or(|granted| now.since(*granted) > unused_for);
        if is_old && !lock.is_in_use(now) { Usage::Unused } else { Usage::Used }
    }

    /// Deletes the state of a lock.
    fn forget(&mut self, key: &Key) {
        self.granted.remove(key);
        let fence = self.locks.remove(key).map_or(0, |lock| lock.fence().get());
        self.forgotten = self.forgotten.max(fence);
    }

    /// Notifies the subscribers of a key if `released` says that other claims can get the key now. `next` is the claim
    /// that is next in the queue. Then `released` is returned with the number of notified clients. The number is 0 if
    /// no subscriber was notified. Otherwise it is None, because this backend does not know to which clients the
    /// subscribers belong.
    fn notify(&mut self, key: &Key, released: Released, next: Option<ClaimId>) -> Released {
        if released == Released::NotHeld {
            return released;
        }
        let has_notified = self.subscribers.notify(key, next, &mut self.reports);
        match released {
            Released::Freed { .. } => Released::freed(has_notified),
            released @ (Released::LeftQueue | Released::NotHeld) => released,
        }
    }
}
