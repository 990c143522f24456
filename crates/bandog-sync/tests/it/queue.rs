//! The queue of one client's calls that wait for the same lock.

use bandog_conformance::wrap::{Counting, Forgetful, Stopped, Which};
use futures_util::{FutureExt, stream::FuturesUnordered};
use tokio::time;

use crate::kit::{client, held, key, memory, ms, soon, waiting};

/// Drops 20,000 waiting calls, from the last to the first. If each drop needed a linear search, this would take
/// minutes.
#[tokio::test]
async fn many_waiters_can_be_dropped_quickly() {
    const MANY: usize = 20_000;
    let store = bandog_core::Memory::new(bandog_core::Clock::system());
    let counts = Counting::new(store.clone());
    let (ours, theirs) =
        (bandog_sync::Client::over(counts.clone()).unwrap(), bandog_sync::Client::over(store.clone()).unwrap());
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let mutex = ours.mutex("orders");
    let mut waiters: Vec<_> = (0..MANY).map(|_| Box::pin(mutex.try_lock_for(ms(600_000)))).collect();
    for waiter in &mut waiters {
        assert!(waiter.now_or_never().is_none());
    }
    ours.idle().await;
    let start = std::time::Instant::now();
    while waiters.pop().is_some() {}
    ours.idle().await;
    assert!(start.elapsed() < ms(10_000), "{:?}", start.elapsed());
    assert!(counts.claims() < 20, "{} claims", counts.claims());
    guard.release().await.unwrap();
    assert_eq!(held(&store).await, [""; 0]);
}

/// The waiting calls of one client get the lock in the order in which they were made.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_their_order() {
    let (ours, theirs) = {
        let store = memory();
        (client(store.clone()), client(store))
    };
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let waiters: FuturesUnordered<_> = (0..200)
        .map(|number| {
            let (mutex, order) = (ours.mutex("orders"), order.clone());
            tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            })
        })
        .collect();
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..200).collect::<Vec<_>>());
}

/// When the first waiting call is dropped, the next call continues to use the subscription and the claim of the first.
#[tokio::test(start_paused = true)]
async fn the_next_waiter_keeps_the_subscription_of_a_dropped_one() {
    let store = memory();
    let counts = Counting::new(store.clone());
    let (ours, theirs) = (client(counts.clone()), client(store));
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let (first, second) = (waiting(&ours, "orders").await, waiting(&ours, "orders").await);
    ours.idle().await;
    first.abort();
    assert!(first.await.is_err());
    ours.idle().await;
    assert_eq!((counts.subscribes(), counts.subscriptions()), (1, 1));
    let start = time::Instant::now();
    guard.release().await.unwrap();
    soon(second).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(start.elapsed(), ms(0), "the call polled, because it was not notified");
}

/// A subscription that succeeds when no call waits any more is dropped. A later call subscribes anew.
#[tokio::test(start_paused = true)]
async fn a_late_subscription_is_not_kept_without_waiters() {
    let store = Forgetful::new(memory());
    let wire = Stopped::new(store.clone());
    let (ours, theirs) = (client(wire.clone()), client(store.clone()));
    let guard = theirs.mutex("orders").lock().await.unwrap();
    wire.stop(Which::Subscriptions);
    let (first, second) = (waiting(&ours, "orders").await, waiting(&ours, "orders").await);
    wire.until_held(1).await;
    guard.release().await.unwrap();
    // There is no notification, so the first call polls within a second. Then the hold goes to the second call.
    soon(first).await.unwrap().unwrap().release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    wire.go_on(); // The backend subscribes now, when no call waits any more.
    ours.idle().await;

    let third = waiting(&ours, "orders").await;
    store.forget(&key("orders")).await.unwrap();
    let guard = theirs.mutex("orders").lock().await.unwrap();
    second.lost().await;
    ours.idle().await; // The claim of the third call has been refused.
    let start = time::Instant::now();
    guard.release().await.unwrap();
    drop(soon(third).await.unwrap().unwrap());
    assert_eq!(start.elapsed(), ms(0), "the call polled, because it was not notified");
    drop(second);
}

/// A notification arrives while a claim is in flight. The claim's answer "busy" may be older than the notification, so
/// the client must claim the lock again.
#[tokio::test(start_paused = true)]
async fn a_notification_while_a_claim_is_in_flight_is_not_forgotten() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (ours, theirs) = (client(wire.clone()), client(store));
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let waiter = waiting(&ours, "orders").await;
    ours.idle().await;
    wire.stop(Which::Answers);
    wire.until_held(1).await; // The call polls. The store refuses the claim, and the answer is held back.
    guard.release().await.unwrap();
    let start = time::Instant::now();
    wire.go_on();
    drop(soon(waiter).await.unwrap().unwrap());
    assert_eq!(start.elapsed(), ms(0));
}

/// A call with a short limit arrives while the claim of another call is in flight. The refusal may be older than this call,
/// and the next poll is after its end, so the client must claim the lock again.
#[tokio::test(start_paused = true)]
async fn a_short_call_that_arrives_while_a_claim_is_in_flight_gets_an_answer() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (ours, theirs) = (client(wire.clone()), client(store));
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let patient = waiting(&ours, "orders").await;
    ours.idle().await;
    wire.stop(Which::Answers);
    wire.until_held(1).await; // The call polls. The store refuses the claim, and the answer is held back.
    let orders = ours.mutex("orders");
    let brief = tokio::spawn(async move { orders.try_lock_for(ms(20)).await });
    tokio::task::yield_now().await; // The call is in the engine's queue now, before the answer.
    wire.go_on();
    assert!(soon(brief).await.unwrap().unwrap().is_none());
    guard.release().await.unwrap();
    drop(soon(patient).await.unwrap().unwrap());
}
