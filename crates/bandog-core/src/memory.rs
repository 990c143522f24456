//! The reference backend, which keeps its data in maps of this process.

mod records;
mod subscribers;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::watch;

use self::{records::RecordTable, subscribers::Subscribers};
use crate::{
    Answer, Claim, ClientId, Clock, Finding, Inspect, Key, Leases, LockState, Member, Moment, Notifier, Pattern,
    Profile, Released, Renewal, Result, Row, Step, Subscription,
};

/// A store in the memory of this process, for tests and for programs of one process. Clones share their locks and
/// records.
///
/// The store is the reference for other backends: it keeps all promises of the backend traits. Its fences are counters,
/// which start again with each new store.
///
/// ```
/// use bandog::{Clock, backend::Memory};
/// let store = Memory::new(Clock::system());
/// let the_same = store.clone();
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    clock: Clock,
    state: Arc<Mutex<MemoryState>>,
    /// The sender of [`Profile::epoch`]. This backend has no connections, so the number never changes.
    epoch: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct MemoryState {
    locks: BTreeMap<Key, LockState>,
    records: RecordTable,
    subscribers: Subscribers,
    /// The rows of the registry, with the time at which each row expires.
    members: HashMap<ClientId, (Member, Moment)>,
}

impl Memory {
    /// Creates an empty store that uses this clock.
    pub fn new(clock: Clock) -> Self {
        Self { clock, state: Arc::default(), epoch: Arc::new(watch::Sender::new(0)) }
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
}

#[async_trait]
impl Leases for Memory {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let (mut state, now) = self.state_and_time();
        steps.iter().map(|step| Ok(state.apply(step, now))).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (mut state, now) = self.state_and_time();
        claims.iter().map(|claim| Ok(state.lock(&claim.key).renew(claim, now))).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let id = self.state().subscribers.add(&claim.key, notifier);
        let (shared, key) = (self.clone(), claim.key.clone());
        Ok(Subscription::new(move || shared.state().subscribers.remove(&key, id)))
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        let (mut state, now) = self.state_and_time();
        state.members.insert(member.id, (member.clone(), now + ttl));
        Ok(())
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.state().members.remove(&client);
        Ok(())
    }

    fn profile(&self) -> Profile {
        Profile {
            store: "memory".into(),
            timeout: Duration::from_secs(3),
            kinds: LockState::KINDS,
            fence_survives_failover: true,
            expiry: "this process's clock",
            epoch: self.epoch.subscribe(),
        }
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
        let (mut state, now) = self.state_and_time();
        let lock = state.lock(key);
        let (row, evicted) = (lock.row(key, now), lock.evict(now));
        state.notify(key, evicted);
        Ok(row)
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding::fine("memory", "the store exists only in this process, so no other process sees its locks")])
    }
}

impl MemoryState {
    /// Applies a step. If the step frees a key, the subscribers of the key are notified.
    fn apply(&mut self, step: &Step, now: Moment) -> Answer {
        match self.lock(step.key()).apply(step, now) {
            Answer::Released(released) => Answer::Released(self.notify(step.key(), released)),
            claimed @ Answer::Claimed(_) => claimed,
        }
    }

    /// The state of the lock with this name. A lock without a state gets the state of a free lock.
    fn lock(&mut self, key: &Key) -> &mut LockState {
        self.locks.entry(key.clone()).or_default()
    }

    /// Notifies the subscribers of a key if `released` says that the key is free. Then `released` is returned with the
    /// number of notified clients. The number is 0 if the key has no subscriber. Otherwise it is None, because this
    /// backend does not know to which clients the subscribers belong.
    fn notify(&self, key: &Key, released: Released) -> Released {
        if released == Released::NotHeld {
            return released;
        }
        let has_subscribers = self.subscribers.notify(key);
        Released::Freed { others: if has_subscribers { None } else { Some(0) } }
    }
}
