//! The watchdog: how the engine renews holds, and when they are lost.

use std::num::NonZeroU32;

use bandog_conformance::wrap::{Capped, Counting, Fate, Forgetful, Lossy, Stopped, Which};
use bandog_core::{Claim, ClaimId, ClientId, Clock, ErrorKind, Kind};
use tokio::time;

use crate::kit::{client, key, memory, ms, paused, waiting};

/// A hold is renewed when a third of its ttl has passed. All holds that are due are renewed in one request.
#[tokio::test(start_paused = true)]
async fn all_due_holds_are_renewed_in_one_request() {
    let counts = Counting::new(memory());
    let client = paused().watchdog(ms(3000)).over(counts.clone()).unwrap();
    let mut guards = Vec::new();
    for number in 0..100 {
        guards.push(client.mutex(number.to_string()).lock().await.unwrap());
    }
    let calls = counts.calls();
    time::sleep(ms(990)).await;
    assert_eq!(counts.renewals(), 0);
    time::sleep(ms(20)).await;
    assert_eq!((counts.renewals(), counts.calls()), (100, calls + 1));
    time::sleep(ms(9_000)).await;
    assert_eq!(counts.renewals(), 1000);
    assert!(guards.iter().all(|guard| !guard.is_lost()));
}

/// A store can give less time than the client asked for. In that case, renewals and deadlines depend on the time that
/// the store gave.
#[tokio::test(start_paused = true)]
async fn a_shorter_lease_than_requested_is_renewed_in_its_own_time() {
    let counts = Counting::new(Capped::short_leases(memory(), ms(600)));
    let wire = Lossy::new(counts.clone());
    let client = paused().watchdog(ms(30_000)).over(wire.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    assert!(guard.remaining() < ms(600));
    time::sleep(ms(10_000)).await;
    assert!(!guard.is_lost());
    assert!((48..=51).contains(&counts.renewals()), "{} renewals in 10 s", counts.renewals());

    // The guard is lost before the store frees the lock, although the ttl that was asked for has not passed.
    wire.always(Fate::Refused);
    guard.lost().await;
    let other = paused().over(counts.clone()).unwrap();
    assert!(other.mutex("orders").try_lock().await.unwrap().is_none(), "the store still has the hold");
}

/// A fixed lease is never renewed.
// Promise: L3
#[tokio::test(start_paused = true)]
async fn a_lease_has_no_watchdog() {
    let counts = Counting::new(memory());
    let client = client(counts.clone());
    let guard = client.mutex("orders").lease(ms(3000)).lock().await.unwrap();
    guard.lost().await;
    assert_eq!(counts.renewals(), 0);
}

/// A hold survives if renewals fail for less than its ttl.
#[tokio::test(start_paused = true)]
async fn failures_shorter_than_the_ttl_lose_nothing() {
    let wire = Lossy::new(memory());
    let client = paused().watchdog(ms(3000)).over(wire.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    for fate in [Fate::Refused, Fate::RequestLost, Fate::ReplyLost] {
        time::sleep(ms(1005)).await; // The hold was renewed 5 ms ago.
        wire.always(fate);
        time::sleep(ms(2400)).await;
        wire.heal();
        time::sleep(ms(250)).await;
        assert!(!guard.is_lost() && guard.remaining() > ms(2500), "{fate:?}: {:?}", guard.remaining());
    }
    wire.always(Fate::Refused);
    time::timeout(ms(3000), guard.lost()).await.unwrap();
    assert!(wire.lost() > 20, "the renewal must be repeated");
}

/// If the store has lost one key, the other keys in the same renewal request are not affected.
#[tokio::test(start_paused = true)]
async fn a_lost_key_does_not_affect_the_others() {
    let store = Forgetful::new(memory());
    let client = client(store.clone());
    let (one, two) = (client.mutex("one").lock().await.unwrap(), client.mutex("two").lock().await.unwrap());
    store.forget(&key("one")).await.unwrap();
    time::timeout(ms(10_010), one.lost()).await.unwrap();
    time::sleep(ms(100_000)).await;
    assert!(!two.is_lost());
}

/// After a failover, the store can know the place of a claim and not its grant. The renewal then keeps the place, which is
/// no hold.
// Promise: SE3
#[tokio::test(start_paused = true)]
async fn a_renewal_that_only_keeps_a_place_reports_the_loss() {
    let store = Forgetful::new(memory());
    let client = paused().watchdog(ms(3000)).over(store.clone()).unwrap();
    let guard = client.mutex("orders").fair().lock().await.unwrap();
    let id = ClaimId { client: ClientId::random(), number: 1 };
    let (ttl, fences) = (ms(1_000_000), NonZeroU32::MIN);
    let other = Claim { fences, joins: true, ..Claim::new(key("orders"), id, Kind::Fair, ttl) };
    store.forget_grant(&other).await.unwrap();
    time::timeout(ms(1_010), guard.lost()).await.unwrap();
    assert!(guard.release().await.unwrap_err().kind() == ErrorKind::Lost);
}

/// After a reconnection all holds are renewed immediately, because the store may have lost them.
// Promise: L8
#[tokio::test(start_paused = true)]
async fn a_reconnection_makes_all_holds_due() {
    let store = Forgetful::new(memory());
    let client = client(store.clone());
    let (one, two) = (client.mutex("one").lock().await.unwrap(), client.mutex("two").lock().await.unwrap());
    let lease = client.mutex("lease").lease(ms(20_000)).lock().await.unwrap();
    store.forget(&key("one")).await.unwrap();
    store.reconnected();
    time::timeout(ms(5), one.lost()).await.expect("the guard must be lost at once");
    assert!(!two.is_lost() && !lease.is_lost());
}

/// The first connection does not count as a reconnection, so it causes no renewal.
#[tokio::test(start_paused = true)]
async fn the_first_connection_renews_nothing() {
    let store = Forgetful::unconnected(memory());
    let client = client(store.clone());
    let one = client.mutex("one").lock().await.unwrap();
    store.forget(&key("one")).await.unwrap();
    store.reconnected();
    time::timeout(ms(9_000), one.lost()).await.expect_err("the lock was renewed too early");
    store.reconnected();
    time::timeout(ms(5), one.lost()).await.expect("the second connection is a reconnection");
}

/// After a reconnection, a waiting call claims the lock immediately, because a notification may have been missed.
#[tokio::test(start_paused = true)]
async fn a_reconnection_makes_all_waiters_claim() {
    let store = memory();
    let stopped = Stopped::new(store.clone());
    let wire = Forgetful::new(stopped.clone());
    let (ours, theirs) = (client(wire.clone()), client(store));
    stopped.stop(Which::Subscriptions);
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let waiter = waiting(&ours, "orders").await;
    stopped.until_held(1).await;
    guard.release().await.unwrap();
    let start = time::Instant::now();
    wire.reconnected();
    drop(waiter.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), ms(0));
}

/// A renewal hangs for the whole request timeout, which is longer than the ttl. The next renewal is sent without
/// waiting for the first one, so the hold is not lost. The late answer to the first renewal changes nothing.
// Promise: L2
#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_lose_the_lock() {
    for hangs in [Which::Requests, Which::Answers] {
        for fails_in_the_end in [false, true] {
            let store = memory();
            let wire = Stopped::new(store.clone());
            let lossy = Lossy::new(wire.clone());
            let client = paused().watchdog(ms(1000)).over(lossy.clone()).unwrap();
            let guard = client.mutex("orders").lock().await.unwrap();
            wire.stop(hangs);
            if fails_in_the_end {
                lossy.always(Fate::ReplyLost);
            }
            wire.until_held(1).await; // The first renewal.
            wire.keep_back();
            lossy.heal();
            time::sleep(ms(2500)).await;
            assert!(!guard.is_lost(), "{hangs:?}");
            wire.go_on();
            time::sleep(ms(10_000)).await;
            assert!(!guard.is_lost(), "{hangs:?}, after the late answer");
            guard.release().await.unwrap();
            client.idle().await;
            assert_eq!(crate::kit::held(&store).await, [""; 0]);
        }
    }
}

/// At most two renewal requests are in flight at the same time.
// Promise: L2
#[tokio::test(start_paused = true)]
async fn at_most_two_renewal_requests_are_in_flight() {
    let wire = Stopped::new(memory());
    let counts = Counting::new(wire.clone());
    let client = paused().watchdog(ms(1000)).over(counts.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    wire.stop(Which::Requests);
    guard.lost().await;
    assert_eq!(counts.renewals(), 2);
    wire.go_on();
    assert!(guard.is_lost(), "a late answer must not make the guard valid again");
}

/// The deadline counts from the moment before the request was sent. A slow answer does not move the deadline to a later
/// time.
// Promise: L7
#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_before_the_request() {
    let wire = Stopped::new(memory());
    let client = client(wire.clone());
    wire.stop(Which::Answers);
    let asked = Clock::tokio().now();
    let asking = waiting(&client, "orders").await;
    time::sleep(ms(2000)).await;
    wire.go_on();
    let guard = asking.await.unwrap().unwrap();
    let end = (Clock::tokio().now() + guard.remaining()).since(asked);
    assert!(end < ms(30_000) && end >= ms(29_690), "{end:?}");
}

/// If the answer to a claim arrives after the deadline of the hold, the hold is released, and the client claims again.
#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_not_used() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let client = client(wire.clone());
    wire.stop(Which::Answers);
    let mutex = client.mutex("orders").lease(ms(1000));
    let asking = tokio::spawn(async move { mutex.lock().await });
    wire.until_held(1).await;
    time::sleep(ms(996)).await;
    assert_eq!(crate::kit::held(&store).await, ["orders"]);
    wire.go_on();
    let guard = asking.await.unwrap().unwrap();
    assert!(!guard.is_lost() && guard.remaining() > ms(900));
    assert_eq!(guard.fence().get(), 65, "the second claim has its own block of fences");
}

/// Only two renewal requests can be in flight, so the renewals of some holds are queued. If such a hold is lost before
/// its renewal is sent, the renewal is not sent.
#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_not_renewed() {
    const MANY: usize = 1100;
    const IN_FLIGHT: usize = 1024; // Two requests with 512 keys each.
    let wire = Stopped::new(memory());
    let counts = Counting::new(wire.clone());
    let client = paused().watchdog(ms(3000)).over(counts.clone()).unwrap();
    let mut guards = Vec::new();
    for number in 0..MANY {
        guards.push(client.mutex(number.to_string()).lock().await.unwrap());
    }
    wire.stop(Which::Requests);
    for guard in &guards {
        guard.lost().await;
    }
    assert_eq!(counts.renewals(), IN_FLIGHT);
    wire.go_on();
    client.idle().await;
    time::sleep(ms(10_000)).await;
    assert_eq!(counts.renewals(), IN_FLIGHT);
}
