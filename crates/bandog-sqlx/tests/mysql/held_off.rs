//! A checked transaction keeps other clients from the lock until it ends, and disturbs no other lock.

use std::time::{Duration, Instant};

use bandog_sqlx::FenceIn;
use bandog_testkit::eventually_async;
use sqlx::Connection;

use crate::support::{Checked, Database, SOON, set_level, write};

/// Attempts that must not get the lock.
const ATTEMPTS: usize = 5;
/// Locks that the client of the transaction holds besides.
const OTHERS: usize = 500;
/// The usual level of the server, and the one that other databases have.
const LEVELS: [&str; 2] = ["repeatable read", "read committed"];

// Promise: MY22
#[tokio::test]
async fn no_client_gets_the_lock_before_the_transaction_ends() {
    let database = Database::new();
    let (client, other) = (database.client("").await, database.client("").await);
    let mut connection = database.connection().await;
    for (level, kind) in LEVELS.into_iter().flat_map(|level| Checked::ALL.map(|kind| (level, kind))) {
        set_level(&mut connection, level).await;
        let name = format!("{kind:?}");
        let guard = kind.lease(&client, &name, Duration::from_millis(800)).await;
        let mut tx = connection.begin().await.unwrap();
        write(&mut tx, &name).await;
        guard.fence_in(&mut tx).await.unwrap();
        guard.lost().await;
        database.expired(&name).await;
        let waiting = tokio::spawn({
            let (other, name) = (other.clone(), name.clone());
            async move { (kind.lock(&other, &name).await, Instant::now()) }
        });
        for _ in 0..ATTEMPTS {
            assert!(kind.try_lock(&client, &name).await.is_none(), "{level} {name}: granted before the end");
            assert!(!other.forget(&name).await.unwrap(), "the name was deleted while a transaction needs it");
        }
        assert!(!waiting.is_finished(), "{level} {name}: granted before the end");
        let before_end = Instant::now();
        tx.commit().await.unwrap();
        let (next, granted) = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
        assert!(next.fence() > guard.fence());
        println!("{level} {name}: the waiter had the lock {:?} after the end", granted - before_end);
        // The lock itself is not notified, so the waiter has polled.
        assert!(granted - before_end < Duration::from_secs(2), "{name}: {:?}", granted - before_end);
        next.release().await.unwrap();
    }
    assert_eq!(database.writes(), "Fair Fair Mutex Mutex Write Write");
}

// Promise: MY22
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_costs_no_other_hold() {
    let database = Database::new();
    let client = database.client("&watchdog=3s").await;
    let checked = Checked::ALL.map(|kind| (kind, format!("checked {kind:?}")));
    let mut guards = Vec::new();
    for (kind, name) in &checked {
        guards.push(kind.lock(&client, name).await);
    }
    let locking: Vec<_> = (0..OTHERS)
        .map(|number| {
            let mutex = client.mutex(format!("other {number}"));
            tokio::spawn(async move { mutex.lock().await.unwrap() })
        })
        .collect();
    let mut others = Vec::new();
    for locking in locking {
        others.push(locking.await.unwrap());
    }
    let mut connection = database.connection().await;
    let mut tx = connection.begin().await.unwrap();
    for guard in &guards {
        guard.fence_in(&mut tx).await.unwrap();
    }
    // Another client waits for the checked locks, and uses others.
    let other = database.client("").await;
    let waiting = checked.map(|(kind, name)| {
        let other = other.clone();
        tokio::spawn(async move { kind.lock(&other, &name).await.fence() })
    });
    // Each hold is renewed several times.
    let at_first = [database.expires("other %"), database.expires("checked %")];
    eventually_async(SOON, async || {
        other.mutex("besides").lock().await.unwrap().release().await.unwrap();
        database.expires("other %") > at_first[0] + 9.0 && database.expires("checked %") > at_first[1] + 9.0
    })
    .await;
    assert!(others.iter().chain(&guards).all(|guard| !guard.is_lost()), "a hold was lost");
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    guards.pop().unwrap().commit(tx).await.unwrap();
    for guard in guards.into_iter().chain(others) {
        guard.release().await.unwrap();
    }
    for waiting in waiting {
        tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    }
}
