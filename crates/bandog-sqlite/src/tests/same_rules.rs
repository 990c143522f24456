//! The tables follow the rules of `LockState`, also in the cases in which a single SQL statement decides the answer.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bandog_core::{Answer, Claim, ClaimId, ClientId, Clock, Fence, Key, Kind, LockState, Released, Step};

use crate::{
    Sqlite, SqliteOptions,
    host::Host,
    open::{Durability, Purpose, Store},
    table::Table,
};

const STEPS: usize = 20_000;
const STEPS_PER_TRANSACTION: usize = 100;
/// The wall clock in microseconds. It moves rarely and in small steps. So the last fence of a lock is sometimes less
/// than this time and sometimes greater.
static WALL: AtomicU64 = AtomicU64::new(1_790_000_000_000_000);

fn wall() -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(WALL.load(Relaxed))
}

/// A random claim. There are few ids and few ttls, so claims are often repeated, get a lock by a pass, and expire.
fn claim(random: &mut fastrand::Rng, client: ClientId) -> Claim {
    Claim {
        key: Key::new(["a", "b", "c"][random.usize(..3)]).unwrap(),
        id: ClaimId { client, number: random.u64(1..=4) },
        kind: Kind::Mutex,
        ttl: Duration::from_millis(random.u64(1..=8) * 50),
        fences: NonZeroU32::new(random.u32(1..=5)).unwrap(),
        joins: false,
        offers: random.bool(),
    }
}

/// The answer without the number of other subscribers. The store knows this number, and the `LockState` does not.
fn without_others(answer: Answer) -> Answer {
    match answer {
        Answer::Released(Released::Freed { .. }) => Answer::Released(Released::Freed { others: None }),
        answer => answer,
    }
}

/// Executes random steps and renewals on three locks, while time passes. After each of them, the answer and the visible
/// row must be the same as with the rules of `LockState`.
#[tokio::test(start_paused = true)]
async fn each_step_has_the_answer_and_the_row_of_the_rules() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::tokio();
    let options = SqliteOptions::at(dir.path().join("locks.db"));
    let handle = Sqlite::on(Host::with_clock(clock, wall), options.clone()).unwrap();
    let context = handle.clone_context();
    let store = Store::open(&options, Purpose::Use).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let client = ClientId::random();
    let mut states = std::collections::HashMap::<Key, LockState>::new();
    for _ in 0..STEPS / STEPS_PER_TRANSACTION {
        let transaction = store.begin_write(Durability::Process).unwrap();
        let mut table = Table::new(&store, &context, false).with_writes();
        for _ in 0..STEPS_PER_TRANSACTION {
            let ours = claim(&mut random, client);
            let (key, now) = (ours.key.clone(), clock.now());
            if random.u8(..8) == 0 {
                WALL.fetch_add(random.u64(..20), Relaxed);
            }
            let state = states.entry(key.clone()).or_default();
            if random.u8(..4) == 0 {
                assert_eq!(table.renew(&ours).unwrap(), state.renew(&ours, now), "{ours:?}");
            } else {
                let from = Claim { key: key.clone(), ..claim(&mut random, client) };
                let step = match random.u8(..5) {
                    0 | 1 => Step::Claim(ours),
                    2 | 3 => Step::Release(ours),
                    _ => Step::Pass { from, to: ours },
                };
                let ruled = state.apply_above(&step, now, Fence::new(WALL.load(Relaxed) - 1)).unwrap();
                let answered = table.apply(&step).unwrap();
                assert_eq!(without_others(answered), without_others(ruled), "{step:?}");
            }
            let row = table.show(&key).unwrap();
            assert_eq!(Some(row).filter(bandog_core::Row::is_held), state.row(&key, now));
            if random.u8(..3) == 0 {
                tokio::time::advance(Duration::from_millis(random.u64(..100))).await;
            }
        }
        drop(table);
        transaction.commit().unwrap();
    }
}
