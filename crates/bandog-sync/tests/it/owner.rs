//! Owners, which can take a lock again while they hold it (re-entry).

use bandog_conformance::wrap::{Counting, Delayed, Forgetful};
use bandog_core::ErrorKind;
use tokio::time;

use crate::kit::{client, held, key, kind, memory, ms, soon, waiting};

/// If an owner takes a lock several times, only the first call and the last release send a request to the store.
#[tokio::test(start_paused = true)]
async fn re_entry_costs_no_round_trip() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    let owner = client.owner();
    let mutex = client.mutex("orders").by(&owner);
    let mut guards = vec![mutex.lock().await.unwrap()];
    for _ in 0..100 {
        guards.push(mutex.lock().await.unwrap());
        guards.push(mutex.try_lock().await.unwrap().unwrap());
        guards.push(client.mutex("orders").by(&owner.clone()).try_lock_for(ms(1)).await.unwrap().unwrap());
    }
    assert_eq!(store.calls(), 1);
    while guards.len() > 1 {
        guards.pop().unwrap().release().await.unwrap();
    }
    client.idle().await;
    assert_eq!(store.calls(), 1);
    guards.pop().unwrap().release().await.unwrap();
    assert_eq!((store.calls(), store.releases()), (2, 1));
}

/// Several calls of one owner wait for a lock that the owner does not hold yet. They share one claim, even if one of
/// the calls is dropped.
#[tokio::test(start_paused = true)]
async fn waiting_calls_of_an_owner_share_one_claim() {
    let store = memory();
    let counts = Counting::new(Delayed::new(store.clone(), 1, ms(10), ms(10)));
    let client = client(counts.clone());
    let owner = client.owner();
    let mutex = client.mutex("orders").by(&owner);
    let (a, b, c) = tokio::join!(mutex.lock(), mutex.try_lock(), mutex.try_lock_for(ms(500)));
    let guards = [a.unwrap(), b.unwrap().unwrap(), c.unwrap().unwrap()];
    assert!(guards.iter().all(|guard| guard.fence() == guards[0].fence()));
    assert_eq!(counts.claims(), 1);
    drop(guards);
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);

    let (gone, stays) = tokio::join!(time::timeout(ms(1), mutex.lock()), mutex.lock());
    assert!(gone.is_err());
    stays.unwrap().release().await.unwrap();
    client.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// Calls of an owner and other calls wait for a lock. The calls of the owner share the lock or keep their places in the
/// queue. So no other call overtakes them.
#[tokio::test(start_paused = true)]
async fn no_call_overtakes_an_owners_other_call() {
    let client = client(memory());
    let owner = client.owner();
    let (own, other) = (client.mutex("orders").by(&owner), client.mutex("orders"));
    let first = other.lock().await.unwrap();
    let order = std::sync::Mutex::new(Vec::new());
    let call = async |mutex: &bandog_sync::Mutex, name| {
        let guard = mutex.lock().await.unwrap();
        order.lock().unwrap().push(name);
        guard.release().await.unwrap();
    };
    let calls = async { tokio::join!(call(&own, "a"), call(&own, "b"), call(&other, "c"), call(&other, "d")) };
    // All four calls wait when `first` is released.
    tokio::join!(calls, async { first.release().await.unwrap() });
    let order = order.into_inner().unwrap();
    let place = |name| order.iter().position(|one| *one == name).unwrap();
    assert!(place("a").max(place("b")) < place("c") && place("c") < place("d"), "{order:?}");
}

/// After a loss, all guards of the owner for this lock are lost. The owner's calls return `Lost` until these guards are
/// dropped. After that, the owner can take the lock again.
#[tokio::test(start_paused = true)]
async fn an_owner_is_lost_until_its_old_guards_are_dropped() {
    let store = Forgetful::new(memory());
    let client = client(store.clone());
    let owner = client.owner();
    let mutex = client.mutex("orders").by(&owner);
    let (first, second) = (mutex.lock().await.unwrap(), mutex.lock().await.unwrap());
    store.forget(&key("orders")).await.unwrap();
    first.lost().await;
    assert!(second.is_lost());
    assert_eq!(kind(mutex.lock().await), Some(ErrorKind::Lost));
    // Another call can take the lock in the meantime. That does not change the result for the owner.
    let other = client.mutex("orders").lock().await.unwrap();
    assert_eq!(kind(mutex.try_lock().await), Some(ErrorKind::Lost));
    other.release().await.unwrap();
    drop(second);
    assert_eq!(kind(mutex.lock().await), Some(ErrorKind::Lost));
    assert_eq!(kind(first.release().await), Some(ErrorKind::Lost));
    let third = mutex.lock().await.unwrap();
    assert!(!third.is_lost());
    third.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_another_client_is_misused() {
    let store = Counting::new(memory());
    let (ours, theirs) = (client(store.clone()), client(memory()));
    let error = ours.mutex("orders").by(&theirs.owner()).lock().await;
    assert_eq!(kind(error), Some(ErrorKind::Misused));
    assert_eq!(store.calls(), 0);
}

/// A call of an owner that does not hold the lock waits in the queue like any other call.
#[tokio::test(start_paused = true)]
async fn owners_queue_like_other_calls() {
    let client = client(memory());
    let owner = client.owner();
    let guard = client.mutex("orders").lock().await.unwrap();
    let before = waiting(&client, "orders").await;
    let mine = client.mutex("orders").by(&owner);
    let mine = tokio::spawn(async move { (mine.lock().await, mine.lock().await) });
    tokio::task::yield_now().await;
    let behind = waiting(&client, "orders").await;
    guard.release().await.unwrap();
    soon(before).await.unwrap().unwrap().release().await.unwrap();
    let (first, second) = soon(mine).await.unwrap();
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(!behind.is_finished());
    first.release().await.unwrap();
    tokio::task::yield_now().await;
    assert!(!behind.is_finished());
    second.release().await.unwrap();
    drop(soon(behind).await.unwrap().unwrap());
}

/// If an owner takes a lock again, the terms of its first call apply, even if the second call has other terms.
#[tokio::test(start_paused = true)]
async fn the_terms_of_the_first_call_apply() {
    let client = client(memory());
    let owner = client.owner();
    let outer = client.mutex("orders").lease(ms(1000)).by(&owner).lock().await.unwrap();
    let inner = client.mutex("orders").by(&owner).lock().await.unwrap();
    inner.lost().await;
    assert!(outer.is_lost());
}
