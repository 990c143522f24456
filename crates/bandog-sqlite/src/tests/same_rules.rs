//! The tables follow the rules of `LockState`, for locks of all kinds, and also in the cases in which a single SQL
//! statement decides the answer.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, Clock, Fence, Key, Kind, LockState, PLACE, Released, Result, Step, Verdict,
};

use crate::{Sqlite, SqliteOptions, fault::Fault, host::Host, open::Durability, table::Table, tests::open_store};

const NAMES: [&str; 9] =
    ["mutex", "mutex", "fair", "long queue", "long queue", "read-write", "semaphore", "mutex and others", "others"];
const STEPS: usize = 40_000;
const STEPS_PER_TRANSACTION: usize = 100;
/// The wall clock in microseconds. It moves rarely and in small steps. So the last fence of a lock is sometimes less
/// than this time and sometimes greater.
static WALL: AtomicU64 = AtomicU64::new(1_790_000_000_000_000);

fn wall() -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(WALL.load(Relaxed))
}

fn permits(take: u32, of: u32) -> Kind {
    Kind::Permits { take: NonZeroU32::new(take).unwrap(), of: NonZeroU32::new(of).unwrap() }
}

/// A random claim of this name. There are few ids and few ttls, so claims are often repeated, get a lock by a pass, and
/// expire. Each id has one kind.
///
/// There is one case in which the tables differ from `LockState`: the grant of a mutex with one SQL statement does not
/// remove the places of other families. So no name of this test has mutexes together with such places.
fn claim(random: &mut fastrand::Rng, client: ClientId, name: &str) -> Claim {
    let kinds = match name {
        "mutex" => vec![Kind::Mutex],
        "fair" => vec![Kind::Mutex, Kind::Fair, Kind::Fair],
        // A queue of these claims is long, so a step reads only a part of it.
        "long queue" => vec![Kind::Fair; 20],
        "read-write" => vec![Kind::Read, Kind::Write, Kind::Read],
        "semaphore" => vec![permits(1, 4), permits(3, 4), permits(2, 4), permits(1, 5)],
        "mutex and others" => vec![Kind::Mutex, Kind::Fair, Kind::Read, permits(1, 4)],
        _ => vec![Kind::Fair, Kind::Read, Kind::Write, permits(2, 4)],
    };
    let number = random.u64(1..=kinds.len() as u64 * 2);
    Claim {
        key: Key::new(name).unwrap(),
        id: ClaimId { client, number },
        kind: kinds[usize::try_from(number).unwrap() % kinds.len()],
        ttl: Duration::from_millis(random.u64(1..=8) * 50),
        fences: NonZeroU32::new(random.u32(1..=5)).unwrap(),
        above: (random.u8(..4) == 0).then(|| Fence::new(WALL.load(Relaxed) + random.u64(..60) - 30)),
        joins: random.u8(..8) < if name == "long queue" { 7 } else { 4 }
            && (name != "mutex and others" || number % 4 == 1),
        offers: random.u8(..4) == 0,
    }
}

/// The answer without the number of other subscribers. The store knows this number, and the `LockState` does not.
fn without_others(answer: Answer) -> Answer {
    match answer {
        Answer::Released(Released::Freed { .. }) => Answer::Released(Released::Freed { others: None }),
        answer => answer,
    }
}

/// The answer, with the followers of the rules if it has some of them. A step of a long queue reads only its first places,
/// so the store names fewer followers.
fn with_all_followers(answer: Result<Answer>, ruled: &Result<Answer>) -> Result<Answer> {
    match (answer, ruled) {
        (
            Ok(Answer::Claimed(Verdict::Granted { fences, valid_for, followers })),
            Ok(Answer::Claimed(Verdict::Granted { followers: all, .. })),
        ) => {
            assert!(all.starts_with(&followers), "{followers:?} of {all:?}");
            assert_eq!(followers.is_empty(), all.is_empty());
            Ok(Answer::Claimed(Verdict::Granted { fences, valid_for, followers: all.clone() }))
        }
        (answer, _) => answer,
    }
}

/// The answer or the text of the error.
fn text<T>(answer: Result<T>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}

fn answered<T>(answer: Result<T, Fault>) -> Result<T> {
    answer.map_err(|fault| match fault {
        Fault::Refused(error) => error,
        fault => panic!("{fault:?}"),
    })
}

/// Executes random steps and renewals on some locks, while time passes. After each of them, the answer and the visible
/// row must be the same as with the rules of `LockState`.
// Promise: SQ5
#[tokio::test(start_paused = true)]
async fn each_step_has_the_answer_and_the_row_of_the_rules() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::tokio();
    let options = SqliteOptions::at(dir.path().join("locks.db"));
    let handle = Sqlite::on(Host::with_clock(clock, wall), options.clone()).unwrap();
    let context = handle.clone_context();
    let store = open_store(&options);
    let mut random = fastrand::Rng::with_seed(7);
    let client = ClientId::random();
    let mut states = std::collections::HashMap::<Key, LockState>::new();
    let (mut refused, mut name) = (0, NAMES[0]);
    for _ in 0..STEPS / STEPS_PER_TRANSACTION {
        let transaction = store.begin_write(Durability::Process).unwrap();
        let mut table = Table::new(&store, &context, false).with_writes();
        for _ in 0..STEPS_PER_TRANSACTION {
            // Several steps of one lock in a row reuse the rows that the first of them has read.
            if random.bool() {
                name = NAMES[random.usize(..NAMES.len())];
            }
            let ours = claim(&mut random, client, name);
            let (key, now) = (ours.key.clone(), clock.now());
            if random.u8(..8) == 0 {
                WALL.fetch_add(random.u64(..20), Relaxed);
            }
            let state = states.entry(key.clone()).or_default();
            match random.u8(..100) {
                0..25 => assert_eq!(table.renew(&ours).unwrap(), state.renew(&ours, now), "{ours:?}"),
                25 if name == "semaphore" => {
                    let limit = NonZeroU32::new(random.u32(4..=5)).unwrap();
                    let expected = text(state.set_limit(limit, now));
                    assert_eq!(text(answered(table.set_limit(&key, limit))), expected, "{limit}");
                }
                25 | 26 => {
                    let expected = (state.row(&key, now), state.evict(now)).0;
                    assert_eq!(table.evict(&key).unwrap(), expected);
                }
                _ => {
                    let from = claim(&mut random, client, name);
                    let step = match random.u8(..5) {
                        0 | 1 => Step::Claim(ours),
                        2 | 3 => Step::Release(ours),
                        _ => Step::Pass { from: Box::new(from), to: ours },
                    };
                    let ruled = state.apply_above(&step, now, Fence::new(WALL.load(Relaxed) - 1));
                    refused += u32::from(ruled.is_err());
                    let answered = answered(table.apply(&step));
                    let notified_none = matches!(answered, Ok(Answer::Released(Released::Freed { others: Some(0) })));
                    if name == "long queue" && notified_none {
                        assert_eq!(state.next_in_queue(now), None, "the release notifies the first place");
                    }
                    let answered = with_all_followers(answered.map(without_others), &ruled);
                    assert_eq!(text::<Answer>(answered), text(ruled.map(without_others)), "{step:?}\n{state}");
                }
            }
            // A query ends the reuse of the rows that the last step has read.
            if random.bool() {
                let row = table.show(&key).unwrap();
                assert_eq!(Some(row).filter(bandog_core::Row::is_held), state.row(&key, now));
            }
            if random.u8(..3) == 0 {
                tokio::time::advance(Duration::from_millis(random.u64(..100))).await;
            }
            if random.u8(..100) == 0 {
                tokio::time::advance(Duration::from_millis(random.u64(..7_000))).await;
            }
        }
        drop(table);
        transaction.commit().unwrap();
    }
    assert!(refused > 100, "{refused}");
}

/// The first places of a long queue, which a step reads, can all have expired.
#[tokio::test(start_paused = true)]
async fn live_places_behind_many_dead_ones_are_found() {
    const DEAD: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::tokio();
    let options = SqliteOptions::at(dir.path().join("locks.db"));
    let handle = Sqlite::on(Host::with_clock(clock, fixed_wall), options.clone()).unwrap();
    let context = handle.clone_context();
    let store = open_store(&options);
    let (client, mut state) = (ClientId::random(), LockState::default());
    let claims: Vec<_> = (1..=12).map(|number| fair(client, number)).collect();
    let [holder, .., next, last] = &claims[..] else { unreachable!() };
    let mut apply = |step: Step| {
        let transaction = store.begin_write(Durability::Process).unwrap();
        let answer: Answer = Table::new(&store, &context, false).with_writes().apply(&step).unwrap();
        transaction.commit().unwrap();
        let ruled = state.apply_above(&step, clock.now(), Fence::new(1_790_000_000_000_000 - 1)).unwrap();
        let (answer, ruled) = (without_others(answer), Ok(ruled));
        let compared = with_all_followers(Ok(answer.clone()), &ruled);
        assert_eq!(compared.unwrap(), without_others(ruled.unwrap()), "{step:?}");
        answer
    };
    for claim in &claims {
        apply(Step::Claim(claim.clone()));
    }
    tokio::time::advance(PLACE * 4 / 5).await;
    for claim in &claims[1 + DEAD..] {
        apply(Step::Claim(claim.clone())); // A repeated claim keeps its place.
    }
    tokio::time::advance(PLACE * 2 / 5).await;
    let ahead = |answer| match answer {
        Answer::Claimed(Verdict::Busy { ahead, .. }) => ahead,
        answer => panic!("{answer:?}"),
    };
    assert_eq!(ahead(apply(Step::Claim(last.clone()))), Some(2));
    let released = apply(Step::Release(holder.clone()));
    assert_ne!(released, Answer::Released(Released::Freed { others: Some(0) }), "the next claim is notified");
    assert_eq!(ahead(apply(Step::Claim(last.clone()))), Some(2));
    assert_eq!(ahead(apply(Step::Claim(next.clone()))), Some(1));
    let granted = apply(Step::Claim(claims[1 + DEAD].clone()));
    assert!(matches!(granted, Answer::Claimed(Verdict::Granted { .. })), "{granted:?}");
}

/// A wall clock that does not move, unlike the one of the other test.
fn fixed_wall() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_790_000_000)
}

fn fair(client: ClientId, number: u64) -> Claim {
    Claim { joins: true, ..Claim::new(Key::new("orders").unwrap(), ClaimId { client, number }, Kind::Fair, PLACE * 10) }
}
