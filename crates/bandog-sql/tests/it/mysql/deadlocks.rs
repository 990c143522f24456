//! Deadlocks with transactions by hand.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use bandog_core::{Answer, Claim, Key, Kind, Leases, Notifier, Records, Released, Swap, Swapped};
use bandog_sync::Client;
use bandog_testkit::{MariaDb, MariaDbServer, eventually_async};
use mysql_async::{Conn, prelude::Queryable};
use tokio::task::JoinSet;

use super::{SERVER, deadlocks, lock_waits};
use crate::suite::{Database, SOON, claim, open, release, take, try_take};

/// The names of the storm. Each is a lock and a record.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Number of transactions of each session by hand.
const ROUNDS: usize = 80;

/// Begins a transaction and writes 1,000 rows. In a deadlock, the server ends the transaction with fewer changes, which is
/// then the other one.
async fn begin_heavy(hand: &mut Conn) {
    let numbers = MariaDbServer::numbers(1000);
    hand.query_drop("create table if not exists heavy (n int primary key)").await.unwrap();
    hand.query_drop("start transaction").await.unwrap();
    hand.query_drop(format!("insert into heavy select seq from {numbers}")).await.unwrap();
}

/// A claim of a reader for a new name creates both rows in its transaction.
// Promise: MY14
#[tokio::test]
async fn a_claim_that_is_the_victim_of_a_deadlock_is_repeated_inside() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let store = open(&server.url(&database));
    take(&store, &claim("first")).await;
    let mut hand = MariaDb::connect(&server, &database).await;
    begin_heavy(&mut hand).await;
    hand.query_drop("insert into bandog_lease (name) values ('k')").await.unwrap();
    let before = deadlocks(&server);
    let ours = Claim { kind: Kind::Read, ..claim("k") };
    let claiming = tokio::spawn({
        let (store, ours) = (store.clone(), ours.clone());
        async move { try_take(&store, &ours).await }
    });
    // The server of this test has no other sessions that wait.
    let waits = "show global status like 'Innodb_row_lock_current_waits'";
    eventually_async(SOON, async || server.sql("mysql", waits).ends_with("|1")).await;
    // This closes the circle. The claim has created the row of the fence, and waits for that of the lease.
    hand.query_drop("insert into bandog_fence (name, fence) values ('k', 7)").await.unwrap();
    assert_eq!(deadlocks(&server), before + 1);
    hand.query_drop("rollback").await.unwrap();
    // The claim is busy if the transaction by hand has kept the rows for longer than a request waits.
    claiming.await.unwrap().unwrap();
    let granted = eventually_async(SOON, async || try_take(&store, &ours).await.unwrap()).await;
    assert!(granted.last() > bandog_core::Fence::new(7));
    assert_eq!(release(&store, &ours).await, Answer::Released(Released::Freed { others: Some(0) }));
}

/// A release writes the lease, and then the number of the channel.
// Promise: MY14
#[tokio::test]
async fn a_release_that_is_the_victim_of_a_deadlock_is_repeated_inside() {
    let database = SERVER.new_database();
    let store = open(&SERVER.url(&database));
    let ours = Claim { kind: Kind::Read, ..claim("k") };
    let theirs = Claim { kind: Kind::Write, ..claim("k") };
    let mut hand = MariaDb::connect(&SERVER, &database).await;
    // The first release creates the row of the channel.
    for is_victim in [false, true] {
        take(&store, &ours).await;
        let subscription = store.subscribe(&theirs, Notifier::new(|| {})).await.unwrap();
        assert!(try_take(&store, &theirs).await.unwrap().is_none());
        if !is_victim {
            release(&store, &ours).await;
            continue;
        }
        begin_heavy(&mut hand).await;
        let channels: Vec<String> = hand.query("select name from bandog_channel for update").await.unwrap();
        assert_eq!(channels.len(), 1);
        let before = deadlocks(&SERVER);
        let releasing = tokio::spawn({
            let (store, ours) = (store.clone(), ours.clone());
            async move { store.apply(&[bandog_core::Step::Release(ours)]).await.remove(0) }
        });
        eventually_async(SOON, async || !lock_waits(&database).is_empty()).await;
        // This closes the circle.
        hand.query_drop("select * from bandog_lease where name = 'k' for update").await.unwrap();
        assert!(deadlocks(&SERVER) > before);
        hand.query_drop("rollback").await.unwrap();
        let released = releasing.await.unwrap();
        assert_eq!(released.unwrap(), Answer::Released(Released::Freed { others: None }));
        drop(subscription);
    }
    take(&store, &theirs).await;
}

/// Sessions by hand lock rows crosswise, and clients use the same names.
// Promise: MY14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_deadlocks_loses_no_hold_and_grants_no_lock_twice() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let url = server.url(&database);
    prepare(&url).await;
    let before = deadlocks(&server);
    let is_over = Arc::new(AtomicBool::new(false));
    let (inside, mut using) = (Arc::new(NAMES.map(|_| AtomicU32::new(0))), JoinSet::new());
    let swapped = Arc::new(AtomicU32::new(0));
    for _ in 0..2 {
        let client = Client::options().over(open(&url)).unwrap();
        for number in 0..NAMES.len() {
            let (client, inside, is_over) = (client.clone(), inside.clone(), is_over.clone());
            using.spawn(async move { use_locks(&client, number, &inside[number], &is_over).await });
        }
        let (store, is_over, swapped) = (open(&url), is_over.clone(), swapped.clone());
        using.spawn(async move { count_up(&store, &is_over, &swapped).await });
    }
    let mut storm = JoinSet::new();
    for number in 0..3 {
        let hand = MariaDb::connect(&server, &database).await;
        storm.spawn(lock_crosswise(hand, number));
    }
    let refused: usize = storm.join_all().await.into_iter().sum();
    is_over.store(true, Ordering::Relaxed);
    tokio::time::timeout(SOON, using.join_all()).await.expect("a call waits, although the storm is over");
    let found = deadlocks(&server) - before;
    assert!(found > 0, "no deadlock in {ROUNDS} rounds");
    println!("{found} deadlocks, of which {refused} ended a transaction by hand");
    let sum =
        "select sum(cast(convert(value using utf8mb4) as unsigned)) from bandog_record where name in ('a', 'b', 'c')";
    assert_eq!(
        server.sql(&database, sum),
        swapped.load(Ordering::Relaxed).to_string(),
        "a swap was lost or done twice"
    );
}

/// Creates the rows.
async fn prepare(url: &str) {
    let store = open(url);
    for name in NAMES {
        let ours = claim(name);
        take(&store, &ours).await;
        release(&store, &ours).await;
        store.swap(&[Swap::new(ours.key, None, "0")]).await.unwrap();
    }
}

/// Locks rows of the tables in another order than the other sessions. Returns the number of deadlocks and timeouts.
async fn lock_crosswise(mut hand: Conn, number: usize) -> usize {
    let rows = ["bandog_lease", "bandog_record", "bandog_fence"].map(|table| NAMES.map(|name| (table, name)));
    let mut rows = rows.concat();
    let mut refused = 0;
    hand.query_drop("set session innodb_lock_wait_timeout = 1").await.unwrap();
    for round in 0..ROUNDS {
        rows.rotate_left(number + 1);
        if (round + number).is_multiple_of(2) {
            rows.reverse();
        }
        hand.query_drop("start transaction").await.unwrap();
        for (table, name) in &rows[..4] {
            let locked = hand.query_drop(format!("select * from {table} where name = '{name}' for update")).await;
            if let Err(error) = locked {
                let mysql_async::Error::Server(error) = error else { panic!("{error}") };
                assert!(matches!(error.code, 1213 | 1205), "{error}");
                refused += 1;
                break;
            }
        }
        hand.query_drop("rollback").await.unwrap();
    }
    refused
}

/// Uses locks of several kinds until the storm is over. No call fails, no hold is lost, and none is there twice.
async fn use_locks(client: &Client, number: usize, inside: &AtomicU32, is_over: &AtomicBool) {
    let name = NAMES[number];
    while !is_over.load(Ordering::Relaxed) {
        let guard = client.mutex(name).lock().await.unwrap();
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "the lock {name} was granted twice");
        let shared = client.rwlock(format!("{name} shared")).read().await.unwrap();
        assert!(!guard.is_lost() && !shared.is_lost());
        shared.release().await.unwrap();
        inside.fetch_sub(1, Ordering::SeqCst);
        guard.release().await.unwrap();
    }
}

/// Increases the numbers in records until the storm is over.
async fn count_up(store: &bandog_sql::Sql, is_over: &AtomicBool, swapped: &AtomicU32) {
    for name in NAMES.into_iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let key = Key::new(name).unwrap();
        let reading = store.read(std::slice::from_ref(&key), &[]).await.unwrap();
        let record = reading.records[0].clone().unwrap().unwrap();
        let next = record.value.parse::<u32>().unwrap() + 1;
        let swap = Swap::new(key, Some(record.version), next.to_string());
        if let Swapped::Done(_) = store.swap(&[swap]).await.unwrap().each.remove(0).unwrap() {
            swapped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
