//! A Redis Cluster whose slots move and whose nodes fail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bandog_core::{Claim, Inspect, Key, Kind, Leases, Released, Renewal, Verdict};
use bandog_sync::Client;
use bandog_testkit::{RedisCluster, RedisServer, eventually, eventually_async};

use crate::{
    cluster::{names, operator},
    help::{SOON, claim, granted, is_granted, notifier, release, renew, take},
    moves::{begin_move, end_move, keep_moving, move_keys, move_slot, two_nodes},
};

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_moved_slot_is_followed() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let held = claim("orders");
    let fences = granted(take(&redis, &held).await.unwrap());
    let (slot, from, to) = two_nodes(&cluster, "orders");
    move_slot(&cluster, slot, from, to);
    let before = from.calls("evalsha");
    assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }));
    assert_eq!(from.calls("evalsha"), before, "the node answered MOVED and ran nothing");
    let again = granted(take(&redis, &held).await.unwrap());
    assert_eq!(again.last(), fences.last(), "the repeated claim got another fence");
    assert!(matches!(take(&redis, &claim("orders")).await.unwrap(), Verdict::Busy { .. }));
    // The map is known now, so the former node is not asked again.
    let (rejected, others) = (from.cmd(&["INFO", "errorstats"]), claim("orders"));
    for _ in 0..5 {
        take(&redis, &others).await.unwrap();
    }
    assert_eq!(from.cmd(&["INFO", "errorstats"]), rejected);
    assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_have_moved_are_asked_for_at_the_other_node() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let held = claim("orders");
    granted(take(&redis, &held).await.unwrap());
    let (slot, from, to) = two_nodes(&cluster, "orders");
    begin_move(slot, from, to);
    // The keys are still at the first node.
    assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }));
    move_keys(slot, from, to);
    // Now the first node answers ASK. The scripts are loaded at the other node.
    to.flush_scripts();
    assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }));
    assert!(matches!(take(&redis, &claim("orders")).await.unwrap(), Verdict::Busy { .. }));
    assert!(to.calls("asking") > 0);
    assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
    end_move(&cluster, slot, from, to);
    assert!(is_granted(&redis, &held).await);
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_keys_are_being_moved_waits_for_the_end_of_the_move() {
    let cluster = RedisCluster::start(3, 0);
    let redis = Arc::new(operator(&cluster));
    let first = claim("orders");
    granted(take(&redis, &first).await.unwrap());
    release(&redis, &first).await.unwrap();
    let (slot, from, to) = two_nodes(&cluster, "orders");
    begin_move(slot, from, to);
    // The lock is free and the fencing token exists, so the node answers TRYAGAIN.
    let waiting = tokio::spawn({
        let redis = redis.clone();
        async move { take(&redis, &claim("orders")).await }
    });
    let refused = |node: &RedisServer| node.cmd(&["INFO", "errorstats"]).text().contains("TRYAGAIN");
    eventually_async(SOON, async || refused(from)).await;
    assert!(!waiting.is_finished());
    move_keys(slot, from, to);
    end_move(&cluster, slot, from, to);
    assert!(matches!(waiting.await.unwrap().unwrap(), Verdict::Granted { .. }));
}

// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_was_stopped_in_the_middle_is_repeated() {
    let cluster = RedisCluster::start(3, 0);
    let redis = Arc::new(operator(&cluster));
    let (from_claim, to_claim) = (claim("orders"), claim("orders"));
    granted(take(&redis, &from_claim).await.unwrap());
    let (slot, from, to) = two_nodes(&cluster, "orders");
    begin_move(slot, from, to);
    // The script deletes the lock, and then the node no longer lets it write the key.
    let passing = tokio::spawn({
        let redis = redis.clone();
        let to_claim = to_claim.clone();
        async move { crate::help::pass(&redis, &from_claim, &to_claim).await }
    });
    eventually_async(SOON, async || from.cmd(&["INFO", "errorstats"]).text().contains("TRYAGAIN")).await;
    move_keys(slot, from, to);
    end_move(&cluster, slot, from, to);
    assert!(matches!(passing.await.unwrap().unwrap(), Verdict::Granted { .. }));
    assert!(matches!(renew(&redis, &to_claim).await.unwrap(), Renewal::Extended { .. }));
}

// Promise: RC3
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_moves_with_its_slot() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let held = claim("orders");
    granted(take(&redis, &held).await.unwrap());
    let (notify, notified) = notifier();
    let _subscription = redis.subscribe(&claim("orders"), notify).await.unwrap();
    let (slot, from, to) = two_nodes(&cluster, "orders");
    move_slot(&cluster, slot, from, to);
    let is_subscribed = || !to.cmd(&["PUBSUB", "SHARDCHANNELS"]).texts().is_empty();
    eventually_async(SOON, async || is_subscribed() && notified() > 0).await;
    let before = notified();
    assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
    eventually_async(SOON, async || notified() > before).await;
}

/// Each task increments a counter of its own name under a lock. The counters are in this process, so a lock that two
/// tasks hold, or a lock that is lost without notice, leaves a wrong sum.
// Promise: RC2
#[tokio::test(flavor = "multi_thread")]
async fn a_live_reshard_loses_and_doubles_no_lock() {
    let cluster = RedisCluster::start(3, 0);
    let client = Client::over(operator(&cluster)).unwrap();
    let other = Client::over(operator(&cluster)).unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let client = if number % 2 == 0 { client.clone() } else { other.clone() };
            let ends = ends.clone();
            // Two tasks of different clients share a name.
            let name = format!("{{{}}}:orders", number / 2);
            tokio::spawn(async move {
                let mutex = client.mutex(&name);
                let (mut turns, mut last) = (0_u64, 0);
                while !ends.load(Ordering::Relaxed) {
                    let guard = mutex.lock().await.unwrap();
                    let fence = guard.fence().get();
                    assert!(fence > last, "{name}: the fence {fence} follows {last}");
                    last = fence;
                    tokio::task::yield_now().await;
                    assert!(!guard.is_lost(), "{name} was lost");
                    turns += 1;
                    guard.release().await.unwrap();
                }
                turns
            })
        })
        .collect();
    let moved = tokio::task::spawn_blocking({
        move || {
            let names: Vec<_> = (0..32).map(|number| format!("{{{number}}}:orders")).collect();
            let moves = keep_moving(&cluster, &names, Duration::from_secs(6));
            (cluster, moves)
        }
    });
    let (cluster, moves) = moved.await.unwrap();
    ends.store(true, Ordering::Relaxed);
    let mut turns = 0;
    for task in tasks {
        turns += task.await.unwrap();
    }
    println!("{moves} slots moved, {turns} turns");
    assert!(moves > 20 && turns > 500, "{moves} slots moved, {turns} turns");
    drop(cluster);
}

// Promise: RC4
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_is_replaced() {
    // Without full coverage, the other nodes serve their slots also if the failover takes longer than their node timeout.
    let cluster = RedisCluster::start_with(3, 1, &["--cluster-require-full-coverage", "no"]);
    let redis = operator(&cluster);
    let names = names(&cluster);
    let held: Vec<Claim> = names.iter().map(|name| claim(name)).collect();
    for claim in &held {
        granted(take(&redis, claim).await.unwrap());
    }
    let epoch = *redis.profile().epoch.borrow();
    let (slot, master, _) = two_nodes(&cluster, &names[0]);
    for replica in &cluster[3..] {
        let offset = |node: &RedisServer| node.info("replication", "master_repl_offset");
        let port = replica.info("replication", "master_port");
        let master = cluster[..3].iter().find(|master| master.port().to_string() == port).unwrap();
        eventually(SOON, || offset(master) == offset(replica));
    }
    master.kill();
    // The locks of the other nodes are not affected.
    for claim in &held[1..] {
        assert!(matches!(renew(&redis, claim).await.unwrap(), Renewal::Extended { .. }));
    }
    let killed = Instant::now();
    eventually_async(3 * SOON, async || matches!(renew(&redis, &held[0]).await, Ok(Renewal::Extended { .. }))).await;
    println!("locks of the killed master work after {:?}", killed.elapsed());
    // The node that is asked may get the news of the failover later than the client.
    eventually(SOON, || cluster.master_of(slot).port() != master.port());
    assert!(*redis.profile().epoch.borrow() > epoch, "the watchdog does not notice the failover");
    assert!(is_granted(&redis, &held[0]).await);
    assert!(matches!(release(&redis, &held[0]).await.unwrap(), Released::Freed { .. }));
}

// Promise: RC1
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_answer_delays_only_its_own_locks() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let names = names(&cluster);
    for name in &names {
        assert!(is_granted(&redis, &claim(name)).await);
    }
    let node = cluster.master_of(cluster.slot(&names[1]));
    node.pause();
    let steps: Vec<_> = names.iter().map(|name| bandog_core::Step::Claim(claim(&format!("{{{name}}}:2")))).collect();
    let started = Instant::now();
    let answers = redis.apply(&steps).await;
    assert!(started.elapsed() < SOON, "the timeout is {:?}", 2 * SOON);
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_err(), at == 1, "{at}: {answer:?}");
    }
    assert!(answers[1].as_ref().unwrap_err().maybe_applied());
    node.resume();
}

/// Records of one prefix, and the lock that their swaps require, are on one node.
// Promise: RC6
#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_a_prefix_are_on_one_node() {
    use bandog_core::{Holding, Pattern, Records, Swap, Swapped};
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    for prefix in ["", "shop:", "{shop}:"] {
        let session = claim(&format!("{prefix}schedule/node/7"));
        assert!(is_granted(&redis, &session).await);
        let keys: Vec<Key> = ["job/a", "job/b", "job/c{x}", "schedule/board"]
            .iter()
            .map(|name| Key::new(format!("{prefix}{name}")).unwrap())
            .collect();
        let held = Some(Holding { key: session.key.clone(), id: session.id });
        let swaps: Vec<Swap> =
            keys.iter().map(|key| Swap { held: held.clone(), ..Swap::new(key.clone(), None, "text") }).collect();
        let swapped = redis.swap(&swaps).await.unwrap();
        assert!(swapped.each.iter().all(|each| matches!(each, Ok(Swapped::Done(Some(_))))), "{swapped:?}");
        let reading = redis.read(&keys, held.as_slice()).await.unwrap();
        assert!(reading.records.iter().all(|record| record.as_ref().unwrap().is_some()));
        assert!(matches!(reading.held[..], [Ok(true)]));
        let names = redis.names(&Pattern::new(format!("{prefix}job/*"))).await.unwrap();
        assert_eq!(names, keys[..3]);
        let row = redis.show(&session.key).await.unwrap();
        assert!(row.is_held() && row.name == session.key.as_str());
        let listed = redis.list(&Pattern::new(format!("{prefix}schedule/*"))).await.unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
    }
    let names = redis.names(&Pattern::new("*")).await.unwrap();
    assert_eq!(names.len(), 12);
    // A record and a lock of other names are in different slots.
    let (lock, record) = (claim("x"), Key::new("y").unwrap());
    let held = Some(Holding { key: lock.key.clone(), id: lock.id });
    let swap = Swap { held, ..Swap::new(record, None, "text") };
    let refused = redis.swap(&[swap]).await.unwrap().each.remove(0).unwrap_err();
    assert!(refused.to_string().contains("hash tag"), "{refused}");
}

/// The notification for a fair waiter goes through the node of the name. The backends do not poll, so a waiter learns of the
/// release from the notification only.
// Promise: RC3
#[tokio::test(flavor = "multi_thread")]
async fn waiters_of_all_clients_are_woken() {
    let cluster = RedisCluster::start(3, 0);
    let (holder, waiter) = (operator(&cluster), operator(&cluster));
    for name in names(&cluster) {
        for kind in [Kind::Mutex, Kind::Fair] {
            let [held, waiting] = [(); 2].map(|()| Claim { kind, joins: true, ..claim(&name) });
            granted(take(&holder, &held).await.unwrap());
            assert!(!is_granted(&waiter, &waiting).await);
            let (on_release, notified) = notifier();
            let subscription = waiter.subscribe(&waiting, on_release).await.unwrap();
            let node = cluster.master_of(cluster.slot(&name));
            let has_channel = || !node.cmd(&["PUBSUB", "SHARDCHANNELS"]).texts().is_empty();
            eventually(SOON, has_channel);
            assert_eq!(notified(), 0, "{name} {kind}");
            assert!(matches!(release(&holder, &held).await.unwrap(), Released::Freed { .. }));
            eventually_async(SOON, async || notified() > 0).await;
            assert!(is_granted(&waiter, &waiting).await, "{name} {kind}");
            release(&waiter, &waiting).await.unwrap();
            drop(subscription);
            eventually(SOON, || !has_channel());
        }
    }
}
