//! The clock of the server is set back: new sessions get an earlier time. It stands still in each of them.

use std::time::Duration;

use bandog_core::{Answer, Inspect, Key, Records, Released, Renewal, Swap, Swapped};
use bandog_sync::Client;
use bandog_testkit::{MariaDbServer, eventually_async};

use crate::suite::{SOON, TTL, claim, open, release, renew, take, try_take};

const HOUR: Duration = Duration::from_secs(3600);

/// Sets the clock of all sessions of users back.
fn set_back(server: &MariaDbServer, database: &str) {
    server.sql("mysql", "set global init_connect = 'set timestamp = unix_timestamp() - 3600'");
    server.end_sessions(database);
}

// Promise: MY28
#[tokio::test]
async fn a_clock_that_is_set_back_frees_no_lock_and_fences_and_versions_still_rise() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let (store, ours, key) = (open(&server.url(&database)), claim("k"), Key::new("record").unwrap());
    let fence = take(&store, &ours).await.last();
    let swapped = store.swap(&[Swap::new(key.clone(), None, "old")]).await.unwrap();
    let Ok(Swapped::Done(version)) = swapped.each[0] else { panic!("{swapped:?}") };

    set_back(&server, &database);
    let reading = eventually_async(SOON, async || store.read(std::slice::from_ref(&key), &[]).await).await;
    assert!(reading.now < swapped.now - HOUR / 2, "the clock was not set back: {:?}, {:?}", reading.now, swapped.now);
    assert!(eventually_async(SOON, async || try_take(&store, &claim("k")).await).await.is_none());
    let renewed = eventually_async(SOON, async || renew(&store, &ours).await).await;
    assert_eq!(renewed, Renewal::Extended { valid_for: TTL });
    assert!(try_take(&store, &claim("k")).await.unwrap().is_none(), "the lock was granted twice");
    assert!(store.show(&ours.key).await.unwrap().is_held());

    let swap = Swap { not_before: Some(swapped.now), ..Swap::new(key.clone(), version, "new") };
    let early = store.swap(std::slice::from_ref(&swap)).await.unwrap();
    assert!(matches!(early.each[0], Ok(Swapped::Early(left)) if left > HOUR / 2), "{early:?}");
    let swapped = store.swap(&[Swap { not_before: None, ..swap }]).await.unwrap();
    let Ok(Swapped::Done(next)) = swapped.each[0] else { panic!("{swapped:?}") };
    assert!(next > version, "{next:?} after {version:?}");

    assert_eq!(release(&store, &ours).await, Answer::Released(Released::Freed { others: Some(0) }));
    assert!(take(&store, &claim("k")).await.last() > fence);
}

// Promise: MY28
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_served_after_the_clock_was_set_back() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    let over = || Client::options().over(open(&server.url(&database))).unwrap();
    let (holder, waiter) = (over(), over());
    // The channel of the name has a number that is the later time.
    let early = holder.mutex("k").lock().await.unwrap();
    let waiting = |mutex: bandog_sync::Mutex| tokio::spawn(async move { mutex.lock().await.unwrap() });
    let first = waiting(waiter.mutex("k"));
    let is_wanted = || server.sql(&database, "select wanted from bandog_lease") == "1";
    eventually_async(SOON, async || is_wanted()).await;
    early.release().await.unwrap();
    tokio::time::timeout(SOON, first).await.unwrap().unwrap().release().await.unwrap();

    let guard = holder.mutex("k").lock().await.unwrap();
    let second = waiting(waiter.mutex("k"));
    eventually_async(SOON, async || is_wanted()).await;
    set_back(&server, &database);
    let fence = guard.fence();
    let shown = eventually_async(SOON, async || holder.show("k").await).await;
    assert!(shown.is_held() && !second.is_finished() && !guard.is_lost(), "{shown:?}");
    eventually_async(SOON, async || is_wanted()).await;
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, second).await.unwrap().unwrap();
    assert!(guard.fence() > fence);
    guard.release().await.unwrap();
    assert_eq!(server.sql(&database, "select owner is null from bandog_lease"), "1");
}
