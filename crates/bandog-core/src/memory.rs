//! The reference backend: a map in this process.

mod listeners;
mod records;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::watch;

use self::{listeners::Listeners, records::Recorded};
use crate::{
    Answer, Claim, ClientId, Clock, Finding, Inspect, Key, Leases, LockState, Member, Moment, Notifier, Pattern,
    Profile, Released, Renewal, Result, Row, Step, Subscription,
};

/// Leases and records in this process's memory, for tests and for programs of one process. Clones share the same
/// locks and records.
///
/// Everything that another backend promises it promises too; what it says is what the laws of the conformance suite
/// are checked against first. Fences rise as long as the store lives.
///
/// ```
/// use bandog::{Clock, backend::Memory};
/// let store = Memory::new(Clock::system());
/// let the_same = store.clone();
/// ```
#[derive(Debug, Clone)]
pub struct Memory {
    clock: Clock,
    state: Arc<Mutex<State>>,
    epoch: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<Key, LockState>,
    recorded: Recorded,
    listeners: Listeners,
    members: HashMap<ClientId, (Member, Moment)>,
}

impl Memory {
    /// An empty store that reads this clock.
    pub fn new(clock: Clock) -> Self {
        Self { clock, state: Arc::default(), epoch: Arc::new(watch::Sender::new(0)) }
    }

    /// The state, and the time since it cannot change: nothing is judged by a time before what others have seen.
    fn at_once(&self) -> (MutexGuard<'_, State>, Moment) {
        let state = self.state();
        let now = self.clock.now();
        (state, now)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Leases for Memory {
    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let (mut state, now) = self.at_once();
        steps.iter().map(|step| Ok(state.apply(step, now))).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let (mut state, now) = self.at_once();
        claims.iter().map(|claim| Ok(state.lock(&claim.key).renew(claim, now))).collect()
    }

    async fn subscribe(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let number = self.state().listeners.add(key, notifier);
        let (shared, key) = (self.clone(), key.clone());
        Ok(Subscription::new(move || shared.state().listeners.remove(&key, number)))
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        let (mut state, now) = self.at_once();
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
            fence_survives_failover: true,
            expiry: "this process's clock",
            epoch: self.epoch.subscribe(),
        }
    }
}

#[async_trait]
impl Inspect for Memory {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        let (state, now) = self.at_once();
        let rows = state.rows.iter().filter(|(key, _)| pattern.matches(key.as_str()));
        Ok(rows.filter_map(|(key, lock)| lock.row(key, now)).collect())
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let (state, now) = self.at_once();
        let held = state.rows.get(key).and_then(|lock| lock.row(key, now));
        Ok(held.unwrap_or_else(|| Row::free(key)))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        let (mut state, now) = self.at_once();
        state.members.retain(|_, (_, until)| now < *until);
        Ok(state.members.values().map(|(member, _)| member.clone()).collect())
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        let (mut state, now) = self.at_once();
        let lock = state.lock(key);
        let (row, evicted) = (lock.row(key, now), lock.evict(now));
        state.ring(key, evicted);
        Ok(row)
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding::fine(
            "memory",
            "the store lives and ends with this process, so nobody else can see its locks",
        )])
    }
}

impl State {
    fn apply(&mut self, step: &Step, now: Moment) -> Answer {
        match self.lock(step.key()).apply(step, now) {
            Answer::Released(released) => Answer::Released(self.ring(step.key(), released)),
            claimed @ Answer::Claimed(_) => claimed,
        }
    }

    fn lock(&mut self, key: &Key) -> &mut LockState {
        self.rows.entry(key.clone()).or_default()
    }

    /// Notifications for a key, if it has been freed.
    fn ring(&self, key: &Key, released: Released) -> Released {
        if released == Released::NotHeld {
            return released;
        }
        let is_heard = self.listeners.ring(key);
        Released::Freed { others: if is_heard { None } else { Some(0) } }
    }
}
