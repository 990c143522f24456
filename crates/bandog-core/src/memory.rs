//! The reference backend: a map in this process.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    Answer, Bell, Claim, ClientId, Clock, Finding, Holding, Inspect, Key, Leases, Line, LockState, Member, Moment,
    Pattern, Profile, Reading, Record, Records, Released, Renewal, Result, Ringer, Row, Step, Swap, Swapped, Swaps,
    Version,
};

/// Leases in this process's memory, for tests and for programs of one process. Clones share the same locks.
///
/// Everything that another backend promises it promises too; what it says is what the laws of the conformance suite
/// are checked against first. Fences rise as long as the store lives.
///
/// ```
/// use bandog_core::{Clock, Memory};
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
    records: BTreeMap<Key, Kept>,
    /// The last of all records, so that a record that is made again has a greater one, even if no time has passed.
    version: Option<Version>,
    listeners: HashMap<Key, BTreeMap<u64, Ringer>>,
    listener: u64,
    members: HashMap<ClientId, (Member, Moment)>,
}

/// A record and its history by slot.
#[derive(Debug)]
struct Kept {
    record: Record,
    lines: BTreeMap<String, String>,
}

impl Memory {
    /// An empty store that reads this clock.
    pub fn new(clock: Clock) -> Self {
        Self { clock, state: Arc::default(), epoch: Arc::new(watch::Sender::new(0)) }
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
        let now = self.clock.now();
        let mut state = self.state();
        steps.iter().map(|step| Ok(state.apply(step, now))).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let now = self.clock.now();
        let mut state = self.state();
        claims.iter().map(|claim| Ok(state.lock(&claim.key).renew(claim, now))).collect()
    }

    async fn listen(&self, key: &Key, ringer: Ringer) -> Result<Bell> {
        let mut state = self.state();
        state.listener += 1;
        let number = state.listener;
        state.listeners.entry(key.clone()).or_default().insert(number, ringer);
        let (shared, key) = (self.clone(), key.clone());
        Ok(Bell::new(move || shared.state().stop_listening(&key, number)))
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        let until = self.clock.now() + ttl;
        self.state().members.insert(member.id, (member.clone(), until));
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
        let now = self.clock.now();
        let state = self.state();
        let rows = state.rows.iter().filter(|(key, _)| pattern.matches(key.as_str()));
        Ok(rows.filter_map(|(key, lock)| lock.row(key, now)).collect())
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let now = self.clock.now();
        let state = self.state();
        let held = state.rows.get(key).and_then(|lock| lock.row(key, now));
        Ok(held.unwrap_or_else(|| Row::free(key)))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        let now = self.clock.now();
        let mut state = self.state();
        state.members.retain(|_, (_, until)| now < *until);
        Ok(state.members.values().map(|(member, _)| member.clone()).collect())
    }

    async fn evict(&self, key: &Key) -> Result<Released> {
        let now = self.clock.now();
        let mut state = self.state();
        let evicted = state.lock(key).evict(now);
        Ok(state.ring(key, evicted))
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding::fine(
            "memory",
            "the store lives and ends with this process, so nobody else can see its locks",
        )])
    }
}

#[async_trait]
impl Records for Memory {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let mut state = self.state();
        let each = swaps.iter().map(|swap| Ok(state.swap(swap, now, wall))).collect();
        Ok(Swaps { now: wall, each })
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let state = self.state();
        let records = keys.iter().map(|key| Ok(state.records.get(key).map(|kept| kept.record.clone()))).collect();
        let held = holdings.iter().map(|holding| Ok(state.is_held(holding, now))).collect();
        Ok(Reading { now: wall, records, held })
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let state = self.state();
        Ok(state.records.keys().filter(|key| pattern.matches(key.as_str())).cloned().collect())
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        let state = self.state();
        let lines = state.records.get(key).into_iter().flat_map(|kept| &kept.lines);
        Ok(lines.map(|(slot, value)| Line { slot: slot.clone(), value: value.clone() }).collect())
    }
}

impl State {
    fn swap(&mut self, swap: &Swap, now: Moment, wall: SystemTime) -> Swapped {
        let kept = self.records.get(&swap.key);
        let last = kept.map(|kept| kept.record.version);
        if last != swap.from {
            return Swapped::Differs(kept.map(|kept| kept.record.clone()));
        }
        if let Some(missing) =
            swap.not_before.and_then(|time| time.duration_since(wall).ok()).filter(|by| !by.is_zero())
        {
            return Swapped::Early(missing);
        }
        if swap.held.as_ref().is_some_and(|holding| !self.is_held(holding, now)) {
            return Swapped::NotHeld;
        }
        let Some(value) = &swap.to else {
            self.records.remove(&swap.key);
            return Swapped::Done(None);
        };
        let version = Version::after(self.version, wall);
        self.version = Some(version);
        let record = Record { version, value: value.clone() };
        let mut lines = self.records.remove(&swap.key).map(|kept| kept.lines).unwrap_or_default();
        lines.extend(swap.lines.iter().map(|line| (line.slot.clone(), line.value.clone())));
        self.records.insert(swap.key.clone(), Kept { record, lines });
        Swapped::Done(Some(version))
    }

    fn is_held(&self, holding: &Holding, now: Moment) -> bool {
        self.rows.get(&holding.key).is_some_and(|state| state.is_held_by(holding.id, now))
    }

    fn apply(&mut self, step: &Step, now: Moment) -> Answer {
        match self.lock(step.key()).apply(step, now) {
            Answer::Released(released) => Answer::Released(self.ring(step.key(), released)),
            claimed @ Answer::Claimed(_) => claimed,
        }
    }

    fn lock(&mut self, key: &Key) -> &mut LockState {
        self.rows.entry(key.clone()).or_default()
    }

    /// Rings for a key, if it has been freed.
    fn ring(&self, key: &Key, released: Released) -> Released {
        if released == Released::NotHeld {
            return released;
        }
        let mut rung = 0;
        for ringer in self.listeners.get(key).into_iter().flat_map(BTreeMap::values) {
            ringer.ring();
            rung += 1;
        }
        Released::Freed { others: if rung == 0 { Some(0) } else { None } }
    }

    fn stop_listening(&mut self, key: &Key, number: u64) {
        let Some(ringers) = self.listeners.get_mut(key) else {
            return;
        };
        ringers.remove(&number);
        if ringers.is_empty() {
            self.listeners.remove(key);
        }
    }
}
