//! Locks that are not mutexes, and holds of another boot. The machines of these tests have a virtual clock.

use std::{
    num::NonZeroU32,
    time::{Duration, SystemTime},
};

use bandog_core::{Answer, Claim, ClaimId, ClientId, Clock, Key, Kind, Moment, PLACE, Renewal, Step, Verdict};
use tempfile::TempDir;

use crate::{
    Sqlite, SqliteOptions,
    fault::Fault,
    host::Host,
    open::{Durability, Store},
    table::Table,
    tests::open_store,
};

/// An hour in nanoseconds.
const HOUR: i64 = 3_600_000_000_000;
const TTL: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(500);

/// Several machines that use one file. They have different boot ids, or different boot clocks, or both.
struct Machines {
    handles: Vec<Sqlite>,
    store: Store,
    client: ClientId,
    claims: u64,
    _dir: TempDir,
}

impl Machines {
    /// Machines with these boot ids. The number is added to the time of the boot clock, in nanoseconds.
    fn new(boots: &[(&str, i64)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = SqliteOptions::at(dir.path().join("locks.db"));
        let host =
            |&(boot, shift): &(&str, i64)| Host::with_clock(Clock::tokio(), SystemTime::now).of_boot(boot, shift);
        let handles = boots.iter().map(|boot| Sqlite::on(host(boot), options.clone()).unwrap()).collect();
        let store = open_store(&options);
        Self { handles, store, client: ClientId::random(), claims: 0, _dir: dir }
    }

    fn claim(&mut self, kind: Kind) -> Claim {
        self.claims += 1;
        let id = ClaimId { client: self.client, number: self.claims };
        let key = Key::new("k").unwrap();
        Claim { joins: true, ..Claim::new(key, id, kind, TTL) }
    }

    /// Runs this on one machine, in a transaction of its own.
    fn on<T>(&self, machine: usize, run: impl FnOnce(&mut Table<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let transaction = self.store.begin_write(Durability::Process).unwrap();
        let context = self.handles[machine].clone_context();
        let answer = run(&mut Table::new(&self.store, &context, false).with_writes());
        transaction.commit().unwrap();
        answer
    }

    fn take(&self, machine: usize, claim: &Claim) -> bool {
        match self.on(machine, |table| table.apply(&Step::Claim(claim.clone()))) {
            Ok(Answer::Claimed(verdict)) => matches!(verdict, Verdict::Granted { .. }),
            Err(Fault::Refused(_)) => false,
            other => panic!("{other:?}"),
        }
    }

    fn renew(&self, machine: usize, claim: &Claim) -> bool {
        self.on(machine, |table| table.renew(claim)).unwrap() != Renewal::Gone
    }

    /// Repeats the claim until it is granted. Returns the time that this took.
    async fn take_eventually(&mut self, machine: usize, claim: &Claim) -> Duration {
        let start = Clock::tokio().now();
        while !self.take(machine, claim) {
            tokio::time::advance(STEP).await;
            assert!(now().since(start) < TTL * 10, "{claim:?} is never granted");
        }
        now().since(start)
    }
}

fn now() -> Moment {
    Clock::tokio().now()
}

fn permits(take: u32) -> Kind {
    Kind::Permits { take: NonZeroU32::new(take).unwrap(), of: NonZeroU32::new(4).unwrap() }
}

const PAIRS: [(Kind, Kind); 5] = [
    (Kind::Fair, Kind::Fair),
    (Kind::Fair, Kind::Mutex),
    (Kind::Read, Kind::Write),
    (Kind::Write, Kind::Read),
    (Kind::Write, Kind::Mutex),
];

#[tokio::test(start_paused = true)]
async fn a_hold_of_another_boot_lasts_for_one_ttl_after_its_first_sighting() {
    let pairs =
        PAIRS.into_iter().chain([(permits(3), permits(2)), (permits(1), Kind::Mutex), (Kind::Mutex, Kind::Read)]);
    for (kind, rival) in pairs {
        // The last machine has the boot id of the first, and was restored to an earlier state.
        for (boot, shift) in [("after", -HOUR), ("after", 0), ("after", HOUR), ("before", -HOUR)] {
            let mut machines = Machines::new(&[("before", 0), (boot, shift)]);
            let (ours, theirs) = (machines.claim(kind), machines.claim(rival));
            assert!(machines.take(0, &ours));
            tokio::time::advance(TTL / 2).await;
            let waited = machines.take_eventually(1, &theirs).await;
            assert!(waited >= TTL && waited < TTL + STEP * 2, "{kind} for {rival}: {waited:?}");
            assert!(!machines.renew(0, &ours));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_hold_ends_although_clients_of_two_boots_renew_and_wait() {
    for (kind, waiter) in [(Kind::Read, Kind::Write), (permits(1), permits(4))] {
        let mut machines = Machines::new(&[("a", 0), ("b", HOUR)]);
        let [dead, live, also_live] = [(); 3].map(|()| machines.claim(kind));
        assert!(machines.take(0, &dead) && machines.take(0, &live) && machines.take(1, &also_live));
        let waiting = [machines.claim(waiter), machines.claim(waiter)].map(|claim| Claim { offers: true, ..claim });
        for _ in 0..150 {
            assert!(machines.renew(0, &live) && machines.renew(1, &also_live), "a live hold has ended");
            assert!(!machines.take(0, &waiting[0]) && !machines.take(1, &waiting[1]));
            tokio::time::advance(STEP).await;
        }
        let holders = machines.on(1, |table| table.show(&dead.key)).unwrap().holders;
        let owners: Vec<_> = holders.into_iter().filter_map(|holder| holder.owner).collect();
        assert_eq!(owners, [live.id.to_string(), also_live.id.to_string()], "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_place_of_a_dead_waiter_of_another_boot_expires() {
    let mut machines = Machines::new(&[("a", 0), ("b", -HOUR)]);
    let [holder, dead, waiting] = [(); 3].map(|()| machines.claim(Kind::Fair));
    assert!(machines.take(0, &holder) && !machines.take(0, &dead) && !machines.take(1, &waiting));
    machines.on(0, |table| table.apply(&Step::Release(holder))).unwrap();
    let waited = machines.take_eventually(1, &waiting).await;
    assert!(waited <= PLACE + STEP * 2 && waited > PLACE - STEP * 2, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_another_boot_keeps_its_hold() {
    for (kind, rival) in PAIRS.into_iter().chain([(permits(3), permits(2))]) {
        let mut machines = Machines::new(&[("container", HOUR), ("host", 0)]);
        let (ours, theirs) = (machines.claim(kind), machines.claim(rival));
        assert!(machines.take(0, &ours));
        for _ in 0..200 {
            assert!(machines.renew(0, &ours) && !machines.take(1, &theirs), "{kind} for {rival}");
            tokio::time::advance(STEP).await;
        }
        let waited = machines.take_eventually(1, &theirs).await;
        assert!(waited > TTL - STEP * 2, "{kind} for {rival}: {waited:?}");
    }
}

/// A hold that this test has observed, with the earliest time at which it can expire.
struct Observed {
    claim: Claim,
    until: Moment,
}

/// Random steps of machines with different boot ids and clocks. A claim is never granted beside another hold that
/// excludes it.
#[tokio::test(start_paused = true)]
async fn random_steps_of_several_boots_obey_the_rules_of_each_kind() {
    let mut random = fastrand::Rng::with_seed(5);
    let kinds = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, Kind::Read, permits(1), permits(3)];
    let mut granted = 0;
    for _ in 0..40 {
        let mut machines = Machines::new(&[("a", 0), ("b", HOUR), ("c", -HOUR)]);
        let (mut holds, mut waiting) = (Vec::<Observed>::new(), Vec::<Claim>::new());
        for _ in 0..150 {
            let machine = random.usize(..3);
            match random.u8(..10) {
                0 if !holds.is_empty() => {
                    let Observed { claim, .. } = holds.swap_remove(random.usize(..holds.len()));
                    machines.on(machine, |table| table.apply(&Step::Release(claim))).unwrap();
                }
                1..=3 if !holds.is_empty() => {
                    let at = random.usize(..holds.len());
                    let claim = &holds[at].claim;
                    let is_live = machines.on(machine, |table| table.show(&claim.key)).unwrap();
                    let owner = claim.id.to_string();
                    let is_live = is_live.holders.iter().any(|holder| holder.owner.as_ref() == Some(&owner));
                    // A claim that is sent again extends its hold, as a renewal does.
                    let is_repeated = is_live && random.bool();
                    if is_repeated && machines.take(machine, claim) || machines.renew(machine, claim) {
                        holds[at].until = now() + TTL;
                    } else {
                        assert!(holds.swap_remove(at).until <= now(), "a hold has ended before its ttl");
                    }
                }
                _ => {
                    let at = random.usize(..4);
                    while waiting.len() <= at {
                        let claim = machines.claim(kinds[random.usize(..kinds.len())]);
                        waiting.push(Claim { joins: random.bool(), offers: random.u8(..4) == 0, ..claim });
                    }
                    if machines.take(machine, &waiting[at]) {
                        let claim = waiting.swap_remove(at);
                        holds.retain(|hold| hold.until > now());
                        check(&claim, &holds);
                        granted += 1;
                        holds.push(Observed { claim, until: now() + TTL });
                    } else if random.u8(..4) == 0 {
                        waiting.swap_remove(at); // This client is dead.
                    }
                }
            }
            tokio::time::advance(Duration::from_millis(random.u64(..8_000))).await;
        }
    }
    assert!(granted > 500, "{granted}");
}

/// Panics if a hold excludes the claim.
fn check(claim: &Claim, holds: &[Observed]) {
    let taken = |kind| match kind {
        Kind::Permits { take, .. } => take.get(),
        Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => 0,
    };
    let others = holds.iter().map(|hold| hold.claim.kind);
    let may_be_granted = match claim.kind {
        Kind::Mutex | Kind::Fair | Kind::Write => others.count() == 0,
        Kind::Read => others.into_iter().all(|kind| kind == Kind::Read),
        Kind::Permits { take, .. } => {
            let total: u32 = others.clone().map(taken).sum();
            others.into_iter().all(|kind| taken(kind) > 0) && total + take.get() <= 4
        }
    };
    assert!(may_be_granted, "{claim:?} beside {:?}", holds.iter().map(|hold| hold.claim.kind).collect::<Vec<_>>());
}
