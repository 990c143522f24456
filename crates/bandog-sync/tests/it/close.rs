//! `close()` releases all locks, and later calls return `Closed`.

use bandog_conformance::wrap::{Delayed, Stopped, Which};
use bandog_core::ErrorKind;
use futures_util::FutureExt;
use tokio::time;

use crate::kit::{client, held, kind, memory, ms, soon, waiting};

// Promise: L23
#[tokio::test(start_paused = true)]
async fn close_releases_every_lock_and_ends_every_wait() {
    let store = memory();
    let (ours, theirs) = (client(Delayed::new(store.clone(), 1, ms(5), ms(5))), client(store.clone()));
    let guards = [ours.mutex("one").lock().await.unwrap(), ours.mutex("two").lock().await.unwrap()];
    let foreign = theirs.mutex("foreign").lock().await.unwrap();
    let waiters = [waiting(&ours, "one").await, waiting(&ours, "foreign").await];
    let lost = guards[0].lost();
    ours.close().await.unwrap();
    assert_eq!(held(&store).await, ["foreign"]);
    for waiter in waiters {
        assert_eq!(kind(soon(waiter).await.unwrap()), Some(ErrorKind::Closed));
    }
    assert!(lost.now_or_never().is_some(), "the guard of a closed client is lost");
    for guard in guards {
        assert!(guard.is_lost());
        assert_eq!(kind(guard.release().await), Some(ErrorKind::Closed));
    }
    foreign.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn later_calls_are_closed() {
    let client = client(memory());
    let (mutex, owner) = (client.mutex("orders"), client.owner());
    let guard = mutex.clone().by(&owner).lock().await.unwrap();
    client.close().await.unwrap();
    assert_eq!(kind(mutex.lock().await), Some(ErrorKind::Closed));
    assert_eq!(kind(mutex.try_lock().await), Some(ErrorKind::Closed));
    assert_eq!(kind(mutex.try_lock_for(ms(10)).await), Some(ErrorKind::Closed));
    assert_eq!(kind(mutex.run(async |_| ()).await), Some(ErrorKind::Closed));
    assert_eq!(kind(mutex.by(&owner).lock().await), Some(ErrorKind::Closed), "an owner's second call");
    assert_eq!(kind(client.ready().await), Some(ErrorKind::Closed));
    assert_eq!(kind(client.show("orders").await), Some(ErrorKind::Closed));
    client.idle().await;
    client.close().await.unwrap();
    drop(guard);
}

/// The answer to a claim is in flight when the client closes. The store has granted the lock, so `close` must release
/// it, too.
// Promise: L23
#[tokio::test(start_paused = true)]
async fn close_releases_a_grant_that_is_in_flight() {
    let store = memory();
    let wire = Stopped::new(store.clone());
    let client = client(wire.clone());
    wire.stop(Which::Answers);
    let asking = waiting(&client, "orders").await;
    wire.until_held(1).await;
    assert_eq!(held(&store).await, ["orders"]);
    let closing = tokio::spawn(async move { client.close().await });
    assert_eq!(kind(asking.await.unwrap()), Some(ErrorKind::Closed));
    wire.go_on();
    soon(closing).await.unwrap().unwrap();
    assert_eq!(held(&store).await, [""; 0]);
}

/// If the store does not answer, `close()` returns after twice the request timeout.
// Promise: L23
#[tokio::test(start_paused = true)]
async fn close_does_not_wait_forever() {
    let wire = Stopped::new(memory());
    let client = client(wire.clone());
    let _guard = client.mutex("orders").lock().await.unwrap();
    wire.stop(Which::Requests);
    let start = time::Instant::now();
    client.close().await.unwrap();
    assert!(start.elapsed() >= ms(5900) && start.elapsed() <= ms(6100), "{:?}", start.elapsed());
}
