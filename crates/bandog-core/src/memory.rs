//! The reference backend: a map in this process.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::{
    Answer, Bell, Claim, ClaimId, ClientId, Clock, Fence, Fences, Finding, Inspect, Key, Leases, Member, Moment,
    Pattern, Profile, Released, Renewal, Result, Ringer, Row, Step, Verdict,
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
    rows: BTreeMap<Key, Record>,
    listeners: HashMap<Key, BTreeMap<u64, Ringer>>,
    listener: u64,
    members: HashMap<ClientId, (Member, Moment)>,
}

#[derive(Debug)]
struct Record {
    holder: Option<Holder>,
    fence: Fence,
}

#[derive(Debug)]
struct Holder {
    id: ClaimId,
    until: Moment,
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
        claims.iter().map(|claim| Ok(state.renew(claim, now))).collect()
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
        Ok(rows.filter_map(|(key, record)| record.row(key, now)).collect())
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let now = self.clock.now();
        let state = self.state();
        let held = state.rows.get(key).and_then(|record| record.row(key, now));
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
        Ok(self.state().free(key, now, |_| true))
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
        match step {
            Step::Claim(claim) => Answer::Claimed(self.claim(claim, None, now)),
            Step::Pass { from, to } => Answer::Claimed(self.claim(to, Some(from.id), now)),
            Step::Release(claim) => Answer::Released(self.release(claim, now)),
        }
    }

    fn claim(&mut self, claim: &Claim, from: Option<ClaimId>, now: Moment) -> Verdict {
        let record = self.rows.entry(claim.key.clone()).or_insert(Record { holder: None, fence: Fence::new(0) });
        match record.live(now) {
            Some(holder) if holder.id == claim.id => {}
            Some(holder) if Some(holder.id) != from => {
                return Verdict::Busy { retry_after: holder.until.since(now) };
            }
            Some(_) | None => record.fence = Fence::new(record.fence.get() + u64::from(claim.fences.get())),
        }
        record.holder = Some(Holder { id: claim.id, until: now + claim.ttl });
        Verdict::Granted { fences: Fences::ending(record.fence, claim.fences), valid_for: claim.ttl }
    }

    fn renew(&mut self, claim: &Claim, now: Moment) -> Renewal {
        let holder = self.rows.get_mut(&claim.key).and_then(|record| record.live(now));
        match holder {
            Some(holder) if holder.id == claim.id => {
                holder.until = now + claim.ttl;
                Renewal::Extended { valid_for: claim.ttl }
            }
            Some(_) | None => Renewal::Gone,
        }
    }

    fn release(&mut self, claim: &Claim, now: Moment) -> Released {
        self.free(&claim.key, now, |holder| holder.id == claim.id)
    }

    /// Takes a key from its holder, if it is the right one.
    fn free(&mut self, key: &Key, now: Moment, is_right: impl FnOnce(&Holder) -> bool) -> Released {
        let Some(record) = self.rows.get_mut(key) else {
            return Released::NotHeld;
        };
        if record.live(now).is_none_or(|holder| !is_right(holder)) {
            return Released::NotHeld;
        }
        record.holder = None;
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

impl Record {
    /// The holder whose lease has not run out.
    fn live(&mut self, now: Moment) -> Option<&mut Holder> {
        self.holder.as_mut().filter(|holder| now < holder.until)
    }

    fn row(&self, key: &Key, now: Moment) -> Option<Row> {
        let holder = self.holder.as_ref().filter(|holder| now < holder.until)?;
        let ttl = Some(holder.until.since(now));
        Some(Row { fence: Some(self.fence), ttl, ..Row::held(key, holder.id.to_string()) })
    }
}
