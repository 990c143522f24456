//! Deadlocks and serialization failures: the requests are repeated.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use bandog_core::{Answer, Claim, Key, Kind, Leases, Records, Released, Renewal, Step, Swap, Swapped, Verdict};
use bandog_sql::Sql;
use bandog_sync::{Client, all};
use bandog_testkit::{Postgres, eventually_async};
use tokio::sync::Barrier;
use tokio_postgres::error::SqlState;

use super::{SERVER, expect_waiting_sessions, sessions, set_for_user};
use crate::suite::{Database, SOON, claim, full, open, release, renew, take};

/// A session of a client that waits for a lock checks for a deadlock after this time, and resolves it.
const DETECTION: &str = "deadlock_timeout = '10ms'";

/// The number of deadlocks in a database. Each session counts its own when it ends, at the latest.
fn deadlocks(database: &str) -> u32 {
    SERVER.sql(database, "select deadlocks from pg_stat_database where datname = current_database()").parse().unwrap()
}

/// A client creates the rows `a` and `b` of a table, while a session by hand creates `b` and then `a`. The session of the
/// client is the victim of the deadlock: the other one does not check for deadlocks.
///
/// A trigger delays the row `b` of the client until the other session waits for the row `a`.
async fn expect_repeated<T: Send + 'static>(table: &str, columns: &str, request: impl AsyncFnOnce(Sql) -> T) -> T {
    let database = SERVER.new_database();
    full::create(&SERVER.url(&database)).await;
    set_for_user(&database, &[DETECTION]);
    SERVER.sql(
        &database,
        &format!(
            "create function public.delay() returns trigger language plpgsql set lock_timeout = '0' as $$ begin
                if session_user = 'locks' and new.name = 'b' then perform pg_advisory_xact_lock_shared(1); end if;
                return new;
            end $$;
            create trigger delay before insert on bandog.{table} for each row execute function public.delay()"
        ),
    );
    let [gate, hand] = [Postgres::connect(&SERVER, &database).await, Postgres::connect(&SERVER, &database).await];
    let insert = |name: &str| format!("insert into bandog.{table} select '{name}' {columns}");
    gate.batch_execute("select pg_advisory_lock(1)").await.unwrap();
    hand.batch_execute(&format!("begin; set local deadlock_timeout = '1h'; {}", insert("b"))).await.unwrap();
    let beside = async {
        expect_waiting_sessions(&database, 1).await;
        let second = insert("a");
        let (inserted, ()) = tokio::join!(hand.batch_execute(&second), async {
            expect_waiting_sessions(&database, 2).await;
            gate.batch_execute("select pg_advisory_unlock(1)").await.unwrap();
        });
        inserted.expect("the session by hand is not the victim");
        hand.batch_execute("rollback").await.unwrap();
    };
    let (answer, ()) = tokio::join!(request(open(&SERVER.url(&database))), beside);
    eventually_async(SOON, async || sessions(&database).is_empty()).await;
    // The client may be faster with its second attempt than the other session with its row.
    eventually_async(SOON, async || deadlocks(&database) > 0).await;
    answer
}

// Promise: PG30
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_the_victim_of_a_deadlock_is_repeated() {
    let permits = Kind::Permits { take: NonZeroU32::MIN, of: NonZeroU32::MIN };
    for kind in [Kind::Mutex, Kind::Fair, Kind::Read, permits] {
        let steps = ["a", "b"].map(|name| Step::Claim(Claim { kind, ..claim(name) }));
        let request = async |store: Sql| {
            // The repeated claim may find the row that the other session has not rolled back yet.
            let is_busy = |answer: &_| matches!(answer, Ok(Answer::Claimed(Verdict::Busy { .. })));
            loop {
                let answers = store.apply(&steps).await;
                if !answers.iter().any(is_busy) {
                    return answers;
                }
            }
        };
        for answer in expect_repeated("bandog_lease", "", request).await {
            assert!(matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))), "{kind:?}: {answer:?}");
        }
    }
}

// Promise: PG30
#[tokio::test(flavor = "multi_thread")]
async fn a_swap_that_is_the_victim_of_a_deadlock_is_repeated() {
    let swaps = ["a", "b"].map(|name| Swap::new(Key::new(name).unwrap(), None, "text"));
    let request = async |store: Sql| store.swap(&swaps).await;
    let swapped = expect_repeated("bandog_record", ", 1, 'text'", request).await;
    for swapped in swapped.unwrap().each {
        assert!(matches!(swapped, Ok(Swapped::Done(Some(_)))), "{swapped:?}");
    }
}

/// PostgreSQL reports such a failure only to a transaction with a snapshot, and the sessions of clients have none. A trigger
/// reports it here, as a trigger or a partition of an administrator could.
// Promise: PG30
#[tokio::test]
async fn a_request_that_fails_to_serialize_is_repeated() {
    let database = SERVER.new_database();
    let store = open(&SERVER.url(&database));
    let (mutex, fair) = (claim("mutex"), Claim { kind: Kind::Fair, ..claim("fair") });
    let claims = [mutex, fair];
    for claim in &claims {
        take(&store, claim).await;
        release(&store, claim).await;
    }
    let key = Key::new("record").unwrap();
    let swap = async |from| store.swap(&[Swap::new(key.clone(), from, "text")]).await.unwrap().each.remove(0);
    let Ok(Swapped::Done(version)) = swap(None).await else { panic!("the record exists") };
    SERVER.sql(
        &database,
        "create sequence public.failures;
         create function public.fail() returns trigger language plpgsql security definer as $$ begin
            if nextval('public.failures') <= 3 then raise exception 'try again' using errcode = '40001'; end if;
            return new;
         end $$;
         create trigger fail before update on bandog.bandog_lease for each row execute function public.fail();
         create trigger fail before update on bandog.bandog_record for each row execute function public.fail()",
    );
    let repeated = || {
        let last: u32 = SERVER.sql(&database, "select last_value from public.failures").parse().unwrap();
        SERVER.sql(&database, "alter sequence public.failures restart");
        assert!(last > 3, "the request was not repeated");
    };
    for claim in &claims {
        take(&store, claim).await;
        repeated();
        assert!(matches!(renew(&store, claim).await.unwrap(), Renewal::Extended { .. }));
        repeated();
        let released = store.apply(&[Step::Release(claim.clone())]).await.remove(0);
        assert!(matches!(released, Ok(Answer::Released(Released::Freed { .. }))), "{released:?}");
        repeated();
    }
    assert!(matches!(swap(version).await, Ok(Swapped::Done(Some(_)))));
    repeated();
}

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Number of deadlocks that each pair of sessions causes.
const DEADLOCKS: u32 = 40;
/// Number of turns of each task with locks or records.
const TURNS: usize = 25;

/// Two sessions lock two rows crosswise, again and again. Returns the number of deadlocks that ended one of their statements.
async fn lock_crosswise(database: &str, rows: [String; 2]) -> u32 {
    let (barrier, victims) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU32::new(0)));
    let [forward, backward] = [rows.clone(), [rows[1].clone(), rows[0].clone()]];
    let mut tasks = Vec::new();
    for [first, second] in [forward, backward] {
        let hand = Postgres::connect(&SERVER, database).await;
        let (barrier, victims) = (barrier.clone(), victims.clone());
        tasks.push(tokio::spawn(async move {
            hand.batch_execute(&format!("set {DETECTION}")).await.unwrap();
            for _ in 0..DEADLOCKS {
                hand.batch_execute(&format!("begin; {first} for update")).await.unwrap();
                barrier.wait().await;
                if let Err(error) = hand.batch_execute(&format!("{second} for update")).await {
                    assert_eq!(error.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED), "{error}");
                    victims.fetch_add(1, Ordering::Relaxed);
                }
                hand.batch_execute("rollback").await.unwrap();
                barrier.wait().await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    victims.load(Ordering::Relaxed)
}

/// Takes locks of several kinds, and several at once. Each lock has one holder at a time, and no guard is lost.
async fn take_turns(client: Client, held: Arc<[AtomicBool; NAMES.len()]>) {
    for turn in 0..TURNS {
        let places = [turn % NAMES.len(), (turn + 1) % NAMES.len()];
        let count = 1 + turn % 2;
        let mutexes = places.map(|place| {
            let mutex = client.mutex(NAMES[place]);
            if turn % 3 == 0 { mutex.fair() } else { mutex }
        });
        let guard = all(mutexes[..count].iter()).lock().await.unwrap();
        for place in &places[..count] {
            assert!(!held[*place].swap(true, Ordering::SeqCst), "{} was granted twice", NAMES[*place]);
        }
        client.rwlock("catalogue").read().await.unwrap().release().await.unwrap();
        assert!(!guard.is_lost());
        places[..count].iter().for_each(|place| held[*place].store(false, Ordering::SeqCst));
        guard.release().await.unwrap();
    }
}

/// Adds one to each of two records in one call, again and again.
async fn count(store: Sql, names: [&str; 2]) {
    let keys = names.map(|name| Key::new(name).unwrap());
    let mut left = [TURNS; 2];
    while left.iter().any(|left| *left > 0) {
        let read = store.read(&keys, &[]).await.unwrap().records;
        let swaps = keys.iter().zip(read).zip(left).filter(|(_, left)| *left > 0).map(|((key, record), _)| {
            let record = record.unwrap().unwrap();
            let number: usize = record.value.parse().unwrap();
            Swap::new(key.clone(), Some(record.version), (number + 1).to_string())
        });
        let swaps: Vec<_> = swaps.collect();
        for (swap, swapped) in swaps.iter().zip(store.swap(&swaps).await.unwrap().each) {
            let place = keys.iter().position(|key| *key == swap.key).unwrap();
            left[place] -= usize::from(matches!(swapped.unwrap(), Swapped::Done(_)));
        }
    }
}

// Promise: PG30
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_lock_rows_crosswise_cost_no_hold_and_no_change() {
    let database = SERVER.new_database();
    set_for_user(&database, &[DETECTION]);
    let store = open(&SERVER.url(&database));
    let client = Client::options().watchdog(Duration::from_secs(10)).over(store.clone()).unwrap();
    for name in NAMES {
        let guard = client.mutex(name).lock().await.unwrap();
        guard.release().await.unwrap();
        store.swap(&[Swap::new(Key::new(name).unwrap(), None, "0")]).await.unwrap();
    }
    let kept = client.mutex("kept").lock().await.unwrap();

    let row = |table: &str, name: &str| format!("select from bandog.bandog_{table} where name = '{name}'");
    let pairs = [
        [row("lease", "a"), row("fence", "b")],
        [row("lease", "b"), row("lease", "kept")],
        [row("record", "a"), row("record", "b")],
        [row("record", "c"), row("lease", "c")],
    ];
    let storm = pairs.map(|pair| {
        let database = database.clone();
        tokio::spawn(async move { lock_crosswise(&database, pair).await })
    });
    let held: Arc<[AtomicBool; NAMES.len()]> = Arc::default();
    let mut tasks = Vec::new();
    for names in [["a", "b"], ["b", "a"], ["c", "a"]] {
        let store = open(&SERVER.url(&database));
        let client = Client::options().over(store.clone()).unwrap();
        tasks.push(tokio::spawn(take_turns(client, held.clone())));
        tasks.push(tokio::spawn(count(store, names)));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for pair in storm {
        // Each round is a deadlock, and sometimes it ends both statements.
        assert!(pair.await.unwrap() >= DEADLOCKS);
    }
    assert!(!kept.is_lost());
    kept.release().await.unwrap();
    let keys = NAMES.map(|name| Key::new(name).unwrap());
    let read = store.read(&keys, &[]).await.unwrap().records;
    let numbers: Vec<_> =
        read.into_iter().map(|record| record.unwrap().unwrap().value.parse::<usize>().unwrap()).collect();
    assert_eq!(numbers, [3 * TURNS, 2 * TURNS, TURNS]);
}
