//! Random programs of owners. A model knows which owner holds which lock and waits for which lock, so it knows all
//! deadlocks. Each report must be one of these deadlocks, and each of these deadlocks must be reported in time.

#![expect(clippy::future_not_send, reason = "all owners of a program run on one thread")]

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    time::Duration,
};

use bandog_core::ErrorKind;
use bandog_sync::{Client, Guard, Owner};
use fastrand::Rng;
use tokio::{
    task::LocalSet,
    time::{self, Instant},
};

use super::LIMIT;
use crate::kit::{client, memory, ms};

const PROGRAMS: u64 = 1000;
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The number of an owner, and the number of its call.
type CallId = (usize, usize);

/// The state of the owners of one program.
#[derive(Default)]
struct Model {
    /// The owner of each held lock, and whether the hold lasts until the owner releases it.
    holds: BTreeMap<&'static str, (usize, bool)>,
    /// The call that each waiting owner makes, and the lock for which it waits. Calls with a time limit are left out.
    waits: BTreeMap<usize, (usize, &'static str)>,
    /// The calls that were part of a deadlock: when the deadlock began, and whether all of its members still waited, or
    /// had reported, when it was last checked.
    deadlocks: BTreeMap<CallId, (Instant, bool)>,
    reports: usize,
}

impl Model {
    /// The owners of the circle to which this owner belongs. Empty if there is none.
    fn circle(&self, first: usize) -> BTreeSet<usize> {
        let (mut circle, mut owner) = (BTreeSet::new(), first);
        loop {
            if !circle.insert(owner) {
                return if owner == first { circle } else { BTreeSet::new() };
            }
            let next = self.waits.get(&owner).and_then(|(_, name)| self.holds.get(name));
            match next {
                Some((next, true)) => owner = *next,
                Some((_, false)) | None => return BTreeSet::new(),
            }
        }
    }

    /// Adds the calls that are part of a deadlock now.
    fn check(&mut self) {
        for (owner, (call, _)) in self.waits.clone() {
            let is_new = self.deadlocks.get(&(owner, call)).is_none_or(|(_, is_whole)| !is_whole);
            if is_new && !self.circle(owner).is_empty() {
                self.deadlocks.insert((owner, call), (Instant::now(), true));
            }
        }
    }

    /// A call has given up. If it was part of a deadlock, this deadlock need not be reported any more.
    fn gave_up(&mut self, owner: usize) {
        for member in self.circle(owner) {
            if let Some(deadlock) =
                self.waits.get(&member).and_then(|(call, _)| self.deadlocks.get_mut(&(member, *call)))
            {
                deadlock.1 = false;
            }
        }
        self.waits.remove(&owner);
    }

    fn reported(&mut self, owner: usize, seed: u64) {
        // A member of an earlier deadlock can give up, and wait again before this owner's call returns. That second
        // deadlock ends with this report, before the new call is blocked.
        for member in self.circle(owner) {
            let call = self.waits[&member].0;
            let deadlock = self.deadlocks.get_mut(&(member, call)).filter(|(since, _)| since.elapsed() < ms(500));
            if let Some((_, is_whole)) = deadlock {
                *is_whole = false;
            }
        }
        let (call, name) = self.waits.remove(&owner).unwrap();
        let Some((since, is_whole)) = self.deadlocks.get(&(owner, call)) else {
            panic!("seed {seed}: owner {owner} reports a deadlock at {name}, but there is none");
        };
        let took = since.elapsed();
        assert!(!is_whole || took <= LIMIT, "seed {seed}: owner {owner} reported after {took:?}");
        self.reports += 1;
    }
}

/// One owner: it takes random locks in a random order, holds them for some time and releases them.
struct Actor {
    number: usize,
    client: Client,
    owner: Owner,
    rng: Rng,
    model: Rc<RefCell<Model>>,
    seed: u64,
    calls: usize,
    guards: BTreeMap<&'static str, Guard>,
}

impl Actor {
    async fn run(mut self) {
        for _ in 0..self.rng.usize(4..12) {
            time::sleep(ms(self.rng.u64(0..400))).await;
            match self.rng.u8(0..10) {
                0 => self.release_all(),
                1 => self.release_one(),
                _ => self.lock().await,
            }
        }
        self.release_all();
    }

    fn release_one(&mut self) {
        if let Some((name, guard)) = self.guards.pop_first() {
            self.model.borrow_mut().holds.remove(name);
            drop(guard);
        }
    }

    fn release_all(&mut self) {
        while !self.guards.is_empty() {
            self.release_one();
        }
    }

    async fn lock(&mut self) {
        let name = NAMES[self.rng.usize(..NAMES.len())];
        if self.guards.contains_key(name) {
            return;
        }
        self.calls += 1;
        let lasts = self.rng.u8(0..10) > 0;
        let mutex = self.client.mutex(name).by(&self.owner);
        // A lease of an hour does not end during a program, but the client does not know this.
        let mutex = if lasts { mutex } else { mutex.lease(Duration::from_secs(3600)) };
        let has_limit = self.rng.u8(0..10) == 0;
        if has_limit {
            let wait = ms(self.rng.u64(100..3000));
            let guard = mutex.try_lock_for(wait).await.unwrap();
            return self.got(name, lasts, guard);
        }
        self.model.borrow_mut().waits.insert(self.number, (self.calls, name));
        self.model.borrow_mut().check();
        // Some callers give up at a time that the client does not know. The others must not wait for ever: a lease or a
        // time limit can close a circle that is no deadlock for the client.
        let patience = if self.rng.u8(0..4) == 0 { ms(self.rng.u64(1..1500)) } else { ms(20_000) };
        match time::timeout(patience, mutex.lock()).await {
            Ok(Ok(guard)) => {
                let mut model = self.model.borrow_mut();
                model.waits.remove(&self.number);
                let (number, seed) = (self.number, self.seed);
                let is_whole = model.deadlocks.get(&(number, self.calls)).is_some_and(|(_, is_whole)| *is_whole);
                assert!(!is_whole, "seed {seed}: owner {number} got {name}, but did not report its deadlock");
                drop(model);
                self.got(name, lasts, Some(guard));
            }
            Ok(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Deadlock, "seed {}: {error}", self.seed);
                self.model.borrow_mut().reported(self.number, self.seed);
                time::sleep(ms(self.rng.u64(0..100))).await;
                self.release_all();
            }
            Err(_) => {
                let (seed, mut model) = (self.seed, self.model.borrow_mut());
                let call = (self.number, self.calls);
                let unreported = model.deadlocks.get(&call).filter(|(_, is_whole)| *is_whole);
                let late = unreported.is_some_and(|(since, _)| since.elapsed() > LIMIT);
                assert!(!late, "seed {seed}: the deadlock of owner {} at {name} was not reported", self.number);
                model.gave_up(self.number);
            }
        }
    }

    fn got(&mut self, name: &'static str, lasts: bool, guard: Option<Guard>) {
        let Some(guard) = guard else { return };
        self.guards.insert(name, guard);
        let mut model = self.model.borrow_mut();
        assert_eq!(model.holds.insert(name, (self.number, lasts)), None, "seed {}: two holders of {name}", self.seed);
        model.check();
    }
}

/// Runs the program with this seed. Returns the number of reports.
async fn run(seed: u64) -> usize {
    let (mut rng, store, model) = (Rng::with_seed(seed), memory(), Rc::new(RefCell::new(Model::default())));
    let clients: Vec<_> = (0..rng.usize(1..4)).map(|_| client(store.clone())).collect();
    let owners = rng.usize(2..6);
    let local = LocalSet::new();
    let mut actors = Vec::new();
    for number in 0..owners {
        let client = clients[rng.usize(..clients.len())].clone();
        let (owner, model, rng) = (client.owner(), Rc::clone(&model), rng.fork());
        let actor = Actor { number, client, owner, rng, model, seed, calls: 0, guards: BTreeMap::new() };
        actors.push(local.spawn_local(actor.run()));
    }
    let all = async {
        for actor in actors {
            actor.await.unwrap();
        }
    };
    local.run_until(all).await;
    model.borrow().reports
}

// Promise: K18
#[tokio::test(start_paused = true)]
async fn random_programs_report_all_deadlocks_and_nothing_else() {
    let mut reports = 0;
    for seed in 0..PROGRAMS {
        reports += run(seed).await;
    }
    assert!(reports > 200, "only {reports} reports, so the programs test too little");
}
