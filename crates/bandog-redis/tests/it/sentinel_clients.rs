//! Whole clients on a master that sentinels name: holds, waiters and every kind of lock in a failover.

use std::time::Duration;

use bandog_sync::Client;
use bandog_testkit::{RedisServer, eventually, eventually_async};

use crate::{help::at, sentinels::Watched};

/// Maximum time that a test waits for a failover.
const FAILOVER: Duration = Duration::from_secs(30);

/// A client with the rights for locks, inspection, records and latches. Its watchdog renews every 3 s.
fn client(watched: &Watched) -> Client {
    let url = watched.sentinels.url().replacen("://", &format!("://{}@", RedisServer::OPERATOR), 1);
    Client::options().watchdog(Duration::from_secs(9)).over(at(&url)).unwrap()
}

/// Waits until the server has renewed the lock twice.
async fn renewed_twice(server: &RedisServer, name: &str) {
    for _ in 0..2 {
        let mut last = i64::MAX;
        eventually_async(FAILOVER, async || {
            let left = server.pttl(name);
            left > std::mem::replace(&mut last, left)
        })
        .await;
    }
}

// Promise: SE2
#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_survives_an_orderly_failover() {
    let watched = Watched::start();
    let client = client(&watched);
    let guard = client.mutex("orders").lock().await.unwrap();
    watched.replica.wait_until_equal(&watched.master);
    watched.sentinels.failover();
    renewed_twice(&watched.replica, "orders").await;
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    assert!(watched.replica.hash("orders").is_empty());
    client.close().await.unwrap();
}

// Promise: SE1
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_lock_after_the_master_was_killed() {
    let watched = Watched::start();
    let (holder, waiter) = (client(&watched), client(&watched));
    let guard = holder.mutex("orders").lock().await.unwrap();
    let fence = guard.fence();
    let waits = tokio::spawn({
        let mutex = waiter.mutex("orders");
        async move { mutex.lock().await }
    });
    let channel = "redisson_lock__channel:{orders}";
    let subscribers = |server: &RedisServer| server.cmd(&["PUBSUB", "NUMSUB", channel]).array()[1].int();
    eventually(FAILOVER, || subscribers(&watched.master) > 0);
    watched.replica.wait_until_equal(&watched.master);
    let old = watched.master.addr();
    watched.master.kill();
    watched.sentinels.wait_for_failover(old);
    eventually(FAILOVER, || subscribers(&watched.replica) > 0);
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
    let next = tokio::time::timeout(FAILOVER, waits).await.unwrap().unwrap().unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    holder.close().await.unwrap();
    waiter.close().await.unwrap();
}

/// The replica has not got the lock. So the failover loses it, and the holder is notified.
// Promise: SE3
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_the_new_master_does_not_have_is_reported_as_lost() {
    let watched = Watched::start();
    watched.sentinels.set("failover-timeout", "60000");
    let (holder, other) = (client(&watched), client(&watched));
    holder.ready().await.unwrap();
    watched.replica.stream().stall(true);
    let guard = holder.mutex("orders").lock().await.unwrap();
    let old = watched.master.addr();
    watched.master.kill();
    watched.replica.stream().cut();
    watched.sentinels.wait_for_failover(old);
    tokio::time::timeout(FAILOVER, guard.lost()).await.unwrap();
    let next = other.mutex("orders").lock().await.unwrap();
    assert!(next.fence() > guard.fence(), "fences rise although the counter was lost");
    holder.close().await.unwrap();
    other.close().await.unwrap();
}

/// The replica has the locks and has not got their releases. Without a repetition of the releases, the locks would stay held
/// until their ttl ends.
// Promise: SE9
#[tokio::test(flavor = "multi_thread")]
async fn releases_that_the_new_master_does_not_have_are_sent_again() {
    let watched = Watched::start();
    watched.sentinels.set("failover-timeout", "60000");
    let url = watched.sentinels.url().replacen("://", &format!("://{}@", RedisServer::OPERATOR), 1);
    let client = Client::options().watchdog(Duration::from_secs(300)).over(at(&url)).unwrap();
    let (mutex, fair, shared) = (client.mutex("mutex"), client.mutex("fair").fair(), client.rwlock("shared"));
    let (first, second, writer) =
        (mutex.lock().await.unwrap(), fair.lock().await.unwrap(), shared.write().await.unwrap());
    watched.replica.wait_until_equal(&watched.master);
    watched.replica.stream().stall(true);
    first.release().await.unwrap();
    second.release().await.unwrap();
    writer.downgrade().await.unwrap().release().await.unwrap();
    client.idle().await;
    let names = ["mutex", "fair", "shared"];
    assert!(names.iter().all(|name| !watched.replica.hash(name).is_empty()), "the replica lacks the releases");
    let old = watched.master.addr();
    watched.master.kill();
    watched.replica.stream().cut();
    watched.sentinels.wait_for_failover(old);
    eventually(FAILOVER, || names.iter().all(|name| watched.replica.hash(name).is_empty()));
    client.close().await.unwrap();
}

// Promise: SE1
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_lock_and_inspection_work_before_and_after_a_failover() {
    let watched = Watched::start();
    let client = client(&watched);
    let mut fences = Vec::new();
    for round in 0..2 {
        let fair = client.mutex("fair").fair().lock().await.unwrap();
        let (read, permit) =
            (client.rwlock("rw").read().await.unwrap(), client.semaphore("gpu", 2).acquire().await.unwrap());
        fences.push([fair.fence(), read.fence(), permit.fence()]);
        let held = client.show("fair").await.unwrap();
        assert_eq!(held.holders.len(), 1, "{held:?}");
        drop((fair, read, permit));
        let latch = client.latch("start");
        assert!(latch.set(1).await.unwrap());
        latch.count_down().await.unwrap();
        latch.wait().await.unwrap();
        let findings = client.check().await.unwrap();
        assert!(findings.iter().any(|finding| finding.subject == "replication"), "{findings:?}");
        client.idle().await;
        if round == 0 {
            watched.replica.wait_until_equal(&watched.master);
            watched.sentinels.failover();
        }
    }
    assert!((0..3).all(|kind| fences[1][kind] > fences[0][kind]), "{fences:?}");
    client.close().await.unwrap();
}
