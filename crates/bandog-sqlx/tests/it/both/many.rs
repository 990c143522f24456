//! An open transaction does not disturb other locks. The tests run on each database, with the helper functions of its
//! `support`.

use std::time::{Duration, Instant};

use bandog::Client;
use bandog_sqlx::FenceIn;
use bandog_testkit::eventually_async;
use sqlx::Connection;

use super::support::{CYCLES, Database};
use crate::kinds::{Checked, SOON};

/// Locks that the client of the transaction holds besides.
const OTHERS: usize = 500;
/// The cycles may take this number of times as long as without the open transaction. If each poll of the waiter delayed
/// them by the timeout of a row (200 ms), most of the time would be delays.
const SLOWER: u32 = 4;
const SLACK: Duration = Duration::from_secs(1);

// Promise: PG16, MY22
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_costs_no_other_hold_and_stalls_no_other_name() {
    let database = Database::new();
    let client = database.client("&watchdog=3s").await;
    let checked: Vec<_> = Checked::ALL.into_iter().map(|kind| (kind, format!("checked {kind:?}"))).collect();
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
    // Another client uses other locks, and then also waits for the checked ones.
    let other = database.client("").await;
    let mut alone = Vec::new();
    for kind in Checked::ALL {
        alone.push(cycles(&other, kind).await);
    }
    let waiting: Vec<_> = checked
        .iter()
        .map(|(kind, name)| {
            let (kind, other, name) = (*kind, other.clone(), name.clone());
            tokio::spawn(async move { kind.lock(&other, &name).await.fence() })
        })
        .collect();
    let first_expiry = || database.expires("other %").min(database.expires("checked %"));
    let at_first = first_expiry();
    for (kind, alone) in Checked::ALL.into_iter().zip(alone) {
        let time = cycles(&other, kind).await;
        println!("{CYCLES} cycles of {kind:?}: {time:?}, and {alone:?} without waiters for the checked locks");
        assert!(time < SLOWER * alone + SLACK, "{kind:?}: {time:?} instead of {alone:?}");
    }
    // Each hold is renewed several times.
    eventually_async(SOON, async || {
        other.mutex("besides").lock().await.unwrap().release().await.unwrap();
        first_expiry() > at_first + 9.0
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

/// The time in which a client takes and releases other locks of this kind.
async fn cycles(client: &Client, kind: Checked) -> Duration {
    let begun = Instant::now();
    for cycle in 0..CYCLES {
        kind.lock(client, &format!("{kind:?} {}", cycle % 100)).await.release().await.unwrap();
    }
    begun.elapsed()
}
