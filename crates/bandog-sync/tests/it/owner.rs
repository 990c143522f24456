//! Re-entry.

use bandog_conformance::wrap::{Counting, Delayed, Forgetful};
use bandog_core::ErrorKind;
use tokio::time;

use crate::kit::{client, held, key, kind, memory, ms, soon, waiting};

/// Only the first claim and the last release reach the store.
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

/// Two first calls of one owner share one claim, whichever comes first and whichever is dropped.
#[tokio::test(start_paused = true)]
async fn first_asks_share_one_claim() {
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

/// A call that waits beside another call of its owner shares the turn, or keeps its place.
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
    // All of them wait when it is released.
    tokio::join!(calls, async { first.release().await.unwrap() });
    let order = order.into_inner().unwrap();
    let place = |name| order.iter().position(|one| *one == name).unwrap();
    assert!(place("a").max(place("b")) < place("c") && place("c") < place("d"), "{order:?}");
}

/// A loss counts for all of an owner's guards. Until they are dropped, its calls are `Lost`; then it starts anew.
#[tokio::test(start_paused = true)]
async fn it_is_lost_until_the_old_guards_are_gone() {
    let store = Forgetful::new(memory());
    let client = client(store.clone());
    let owner = client.owner();
    let mutex = client.mutex("orders").by(&owner);
    let (first, second) = (mutex.lock().await.unwrap(), mutex.lock().await.unwrap());
    store.forget(&key("orders")).await.unwrap();
    first.lost().await;
    assert!(second.is_lost());
    assert_eq!(kind(mutex.lock().await), Some(ErrorKind::Lost));
    // Calls of others do not change that, and the owner does not block others.
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

/// A queued call of an owner is served with its own turn, behind those that came before it.
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

/// Re-entry has the first lease's terms, whatever terms the call has.
#[tokio::test(start_paused = true)]
async fn the_first_leases_terms_count() {
    let client = client(memory());
    let owner = client.owner();
    let outer = client.mutex("orders").lease(ms(1000)).by(&owner).lock().await.unwrap();
    let inner = client.mutex("orders").by(&owner).lock().await.unwrap();
    inner.lost().await;
    assert!(outer.is_lost());
}
