//! Waits that are no deadlock, so that nothing may be reported.

use bandog_conformance::wrap::Counting;
use bandog_core::{
    Answer, BlockedCall, BlockedCalls, Claim, ClaimId, ClientId, Inspect, Kind, Leases, Member, Step, Verdict,
};
use tokio::time;

use super::{hold, wait_for};
use crate::kit::{client, key, memory, ms, soon};

/// A call with a time limit, a fixed lease, and a lock with a maximum hold time end by themselves. So the other call gets
/// its lock.
#[tokio::test(start_paused = true)]
async fn what_ends_by_itself_is_no_deadlock() {
    let client = client(memory());
    for ends in ["the call", "the lease", "the maximum"] {
        let (first, second) = (client.owner(), client.owner());
        let a = match ends {
            "the lease" => client.mutex("a").lease(ms(10_000)),
            "the maximum" => client.mutex("a").max_hold(ms(10_000)),
            _ => client.mutex("a"),
        };
        let a = a.by(&first).lock().await.unwrap();
        let _b = hold(&client, &second, "b").await;
        let closes = wait_for(&client, &second, "a");
        if ends == "the call" {
            assert!(client.mutex("b").by(&first).try_lock_for(ms(10_000)).await.unwrap().is_none());
            drop(a);
            drop(soon(closes).await.unwrap().unwrap());
            continue;
        }
        let waits = wait_for(&client, &first, "b");
        // The hold of `a` is lost, but its guard exists. For other clients it is free now; here it is free when the guard
        // is dropped. In any case its owner does not hold it any more.
        time::sleep(ms(9000)).await;
        assert!(!waits.is_finished() && !closes.is_finished(), "{ends}");
        time::sleep(ms(5000)).await;
        drop(a);
        let got = soon(closes).await.unwrap();
        drop((got.unwrap(), _b));
        drop(soon(waits).await.unwrap().unwrap());
    }
}

/// Calls and guards without an owner: a client does not know which guards belong to a call.
#[tokio::test(start_paused = true)]
async fn without_owners_nothing_is_reported() {
    let client = client(memory());
    let owner = client.owner();
    let _a = client.mutex("a").lock().await.unwrap();
    let _b = hold(&client, &owner, "b").await;
    let waits = wait_for(&client, &owner, "a");
    let other = client.mutex("b");
    let unowned = tokio::spawn(async move { other.lock().await });
    time::sleep(ms(20_000)).await;
    assert!(!waits.is_finished() && !unowned.is_finished());
}

/// A chain of waits without a circle.
#[tokio::test(start_paused = true)]
async fn a_chain_is_no_circle() {
    let store = memory();
    let clients = [(); 3].map(|()| client(store.clone()));
    let owners = clients.each_ref().map(bandog_sync::Client::owner);
    let a = hold(&clients[0], &owners[0], "a").await;
    let _b = hold(&clients[1], &owners[1], "b").await;
    let _c = hold(&clients[2], &owners[2], "c").await;
    let calls = [wait_for(&clients[1], &owners[1], "a"), wait_for(&clients[2], &owners[2], "b")];
    time::sleep(ms(20_000)).await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    drop(a);
    for (call, guard) in calls.into_iter().zip([_b, _c]) {
        let got = soon(call).await.unwrap().unwrap();
        drop((got, guard));
    }
}

/// A reader waits behind a writer that waits, and the holders are readers. A reader passes the writer after a second. So the
/// holders need not release their locks, although one of them waits for the reader's lock.
#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_is_no_member() {
    let store = memory();
    let clients = [(); 3].map(|()| client(store.clone()));
    let owners = clients.each_ref().map(bandog_sync::Client::owner);
    let _reads = clients[0].rwlock("a").by(&owners[0]).read().await.unwrap();
    let held = hold(&clients[1], &owners[1], "b").await;
    let writer = clients[2].rwlock("a");
    let writer = tokio::spawn(async move { writer.write().await });
    time::sleep(ms(100)).await;
    let waits = wait_for(&clients[0], &owners[0], "b");
    let reader = soon(clients[1].rwlock("a").by(&owners[1]).read()).await.unwrap();
    drop((reader, held));
    drop(soon(waits).await.unwrap().unwrap());
    writer.abort();
}

/// A client has published its call and then died. Its row and its hold stay in the store until their ttl has passed. So
/// the wait of the other client ends by itself, and is no deadlock.
// Promise: K18
#[tokio::test(start_paused = true)]
async fn a_dead_client_is_no_member() {
    let store = memory();
    let living = client(store.clone());
    let owner = living.owner();
    let _b = hold(&living, &owner, "b").await;
    let dead = ClientId::random();
    let id = ClaimId { client: dead, number: 1 };
    let ttl = ms(30_000);
    let (fences, joins, offers) = (std::num::NonZeroU32::MIN, false, false);
    let claim = Claim { fences, joins, offers, ..Claim::new(key("a"), id, Kind::Mutex, ttl) };
    let granted = store.apply(&[Step::Claim(claim)]).await.remove(0).unwrap();
    assert!(matches!(granted, Answer::Claimed(Verdict::Granted { .. })));
    let call = BlockedCall {
        id: ClaimId { client: dead, number: 2 },
        key: key("b"),
        is_reader: false,
        holds: vec![id],
        deadlock: vec![],
    };
    // The row says that the dead client has seen all rows up to the present one.
    let blocked = BlockedCalls { round: 7, seen: vec![(living.id(), 1)], calls: vec![call], ..BlockedCalls::default() };
    store.register(&Member { blocked, ..Member::here(dead) }, ttl).await.unwrap();
    drop(soon(living.mutex("a").by(&owner).lock()).await.unwrap());
    assert_eq!(store.members().await.unwrap().len(), 1, "the row must have been there the whole time");
}

/// One owner gives up its wait before both searches can have found the circle, and continues with its lock.
// Promise: K18
#[tokio::test(start_paused = true)]
async fn a_circle_that_ends_early_is_not_reported() {
    for gives_up_after in (0..800).step_by(25) {
        let store = memory();
        let (one, other) = (client(store.clone()), client(store.clone()));
        let (first, second) = (one.owner(), other.owner());
        let (a, _b) = (hold(&one, &first, "a").await, hold(&other, &second, "b").await);
        let wants = one.mutex("b").by(&first);
        let closes = wait_for(&other, &second, "a");
        assert!(time::timeout(ms(gives_up_after), wants.lock()).await.is_err(), "{gives_up_after} ms");
        time::sleep(ms(5000)).await;
        assert!(!closes.is_finished(), "{gives_up_after} ms");
        drop(a);
        drop(soon(closes).await.unwrap().unwrap());
    }
}

/// A wait of less than 500 ms, and a wait of an owner that holds nothing else, cause no additional request.
#[tokio::test(start_paused = true)]
async fn short_waits_and_owners_without_locks_cost_nothing() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let (first, second) = (client.owner(), client.owner());
    let a = hold(&client, &first, "a").await;
    let _b = hold(&client, &second, "b").await;
    time::sleep(ms(200)).await;
    let before = store.registered();
    let waits = wait_for(&client, &second, "a");
    time::sleep(ms(490)).await;
    drop(a);
    let guard = soon(waits).await.unwrap().unwrap();
    let third = client.owner();
    let idle = wait_for(&client, &third, "a");
    time::sleep(ms(5000)).await;
    client.idle().await;
    let written = store.registered() - before;
    assert!(written <= 3, "{written} rows were written; the searches would write about twelve");
    drop(guard);
    drop(soon(idle).await.unwrap().unwrap());
}

/// Other code releases a lock of the circle, at each moment of the search. Then each call returns, with its lock or with
/// the error.
#[tokio::test(start_paused = true)]
async fn each_call_returns_although_a_lock_of_the_circle_is_released() {
    for released_after in (0..2000).step_by(20) {
        for released in ["a", "b"] {
            let store = memory();
            let (one, other) = (client(store.clone()), client(store.clone()));
            let (first, second) = (one.owner(), other.owner());
            let (a, b) = (hold(&one, &first, "a").await, hold(&other, &second, "b").await);
            let (waits, closes) = (wait_for(&one, &first, "b"), wait_for(&other, &second, "a"));
            time::sleep(ms(released_after)).await;
            let (gone, kept, gets, then) = if released == "a" { (a, b, closes, waits) } else { (b, a, waits, closes) };
            drop(gone);
            drop((soon(gets).await.unwrap(), kept));
            drop(soon(then).await.unwrap());
            time::sleep(ms(11_000)).await; // By then each client has renewed its row or removed it.
            assert!(store.members().await.unwrap().iter().all(|member| member.blocked.calls.is_empty()));
        }
    }
}
