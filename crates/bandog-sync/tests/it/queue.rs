//! The local queue.

use bandog_conformance::wrap::{Counting, Forgetful, Stopped, Which};
use futures_util::{FutureExt, stream::FuturesUnordered};
use tokio::time;

use crate::kit::{client, held, key, memory, ms, soon, waiting};

/// Twenty thousand waiters, dropped from the last to the first: a linear search for each would take minutes.
#[tokio::test]
async fn many_waiters_dropped_in_reverse() {
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

/// The waiters of one client are served in their order.
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

/// When the first waiter gives up, the next one keeps its subscription and its claim.
#[tokio::test(start_paused = true)]
async fn a_first_waiter_that_goes_leaves_its_subscription_to_the_next() {
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
    assert_eq!(start.elapsed(), ms(0), "no notification, so it polled");
}

/// A subscription that succeeds after the last waiter has gone is dropped, so later waiters get their own.
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
    // There is no notification, so the first waiter polls within a second, and passes on to the second.
    soon(first).await.unwrap().unwrap().release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    wire.go_on(); // It subscribes now, and no call waits.
    ours.idle().await;

    let third = waiting(&ours, "orders").await;
    store.forget(&key("orders")).await.unwrap();
    let guard = theirs.mutex("orders").lock().await.unwrap();
    second.lost().await;
    ours.idle().await; // The third has been refused.
    let start = time::Instant::now();
    guard.release().await.unwrap();
    drop(soon(third).await.unwrap().unwrap());
    assert_eq!(start.elapsed(), ms(0), "no notification, so it polled");
    drop(second);
}

/// A notification that comes while a claim is in flight is not forgotten: the answer may be older.
#[tokio::test(start_paused = true)]
async fn a_notification_while_a_claim_is_in_flight_counts() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let (ours, theirs) = (client(wire.clone()), client(store));
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let waiter = waiting(&ours, "orders").await;
    ours.idle().await;
    wire.stop(Which::Answers);
    wire.until_held(1).await; // It polls and is refused, and the answer is held back.
    guard.release().await.unwrap();
    let start = time::Instant::now();
    wire.go_on();
    drop(soon(waiter).await.unwrap().unwrap());
    assert_eq!(start.elapsed(), ms(0));
}
