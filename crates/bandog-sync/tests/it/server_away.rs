//! A store that does not answer.

use bandog_conformance::wrap::{Counting, Delayed, Fate, Lossy, Stopped, Which};
use bandog_core::ErrorKind;
use bandog_sync::Client;
use tokio::time;

use crate::kit::{client, kind, memory, ms, soon, waiting};

/// Runs a call. Returns its duration in milliseconds, and the kind of its error.
async fn timed<T>(call: impl Future<Output = bandog_core::Result<T>>) -> (u128, Option<ErrorKind>) {
    let start = time::Instant::now();
    let error = kind(soon(call).await);
    (start.elapsed().as_millis(), error)
}

/// Whether a duration in milliseconds is as expected, or at most 2 ms longer.
fn about(took: u128, wanted: u128) -> bool {
    (wanted..=wanted + 2).contains(&took)
}

/// If the store has never answered, a call waits for at most 5 s. A call with a shorter limit ends at that limit, and a
/// `try_lock` ends after one request timeout.
// Promise: L17
#[tokio::test(start_paused = true)]
async fn the_first_answer_is_awaited_for_five_seconds() {
    let wire = Lossy::new(memory());
    wire.always(Fate::Refused);
    let client = client(wire.clone());
    let mutex = client.mutex("orders");
    for (took, error, wanted) in [
        (timed(mutex.lock()).await, "lock", 5000),
        (timed(mutex.try_lock()).await, "try_lock", 3000),
        (timed(mutex.try_lock_for(ms(700))).await, "a short wait", 700),
        (timed(mutex.try_lock_for(ms(60_000))).await, "a long wait", 5000),
        (timed(client.ready()).await, "ready", 5000),
    ]
    .map(|((took, error), what, wanted)| (took, (what, error), wanted))
    {
        assert_eq!(error.1, Some(ErrorKind::Unavailable), "{}", error.0);
        assert!(about(took, wanted), "{} took {took} ms", error.0);
    }
}

/// A call also waits for at most 5 s if the store accepts requests but never answers them.
#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_is_awaited_for_five_seconds() {
    let wire = Stopped::new(memory());
    wire.stop(Which::Requests);
    let client = client(wire.clone());
    let (took, error) = timed(client.mutex("orders").lock()).await;
    assert!(about(took, 5000) && error == Some(ErrorKind::Unavailable), "{took} ms, {error:?}");
    let (took, error) = timed(client.mutex("orders").try_lock()).await;
    assert!(about(took, 3000) && error == Some(ErrorKind::Unavailable), "{took} ms, {error:?}");
}

/// The store may have applied the first request of a claim, even if all others had no connection.
#[tokio::test(start_paused = true)]
async fn an_error_says_whether_any_request_may_have_been_applied() {
    for (first, maybe_applied) in [(Fate::Refused, false), (Fate::RequestLost, true), (Fate::ReplyLost, true)] {
        let wire = Lossy::new(memory());
        let client = client(wire.clone());
        wire.next([first]);
        wire.always(Fate::Refused);
        let error = soon(client.mutex("orders").lock()).await.unwrap_err();
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, maybe_applied), "{first:?}");
    }
}

/// If the store has answered once, `lock()` waits through outages of any length.
// Promise: L17
#[tokio::test(start_paused = true)]
async fn after_one_answer_lock_waits_through_outages() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    client.ready().await.unwrap();
    wire.always(Fate::Refused);
    let waiter = waiting(&client, "orders").await;
    time::sleep(ms(3_000_000)).await;
    assert!(!waiter.is_finished());
    wire.heal();
    let start = time::Instant::now();
    soon(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert!(start.elapsed() <= ms(300), "{:?}", start.elapsed());
}

/// A call returns `None` only if the store has reported another holder during the call. If the store did not answer,
/// the call returns an error.
// Promise: L12
#[tokio::test(start_paused = true)]
async fn waits_end_with_none_only_if_the_store_said_busy() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let (ours, theirs) = (client(wire.clone()), client(store));
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let mutex = ours.mutex("orders");
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert!(mutex.try_lock_for(ms(100)).await.unwrap().is_none());
    wire.always(Fate::Refused);
    assert_eq!(timed(mutex.try_lock_for(ms(100))).await, (100, Some(ErrorKind::Unavailable)));
    let (took, error) = timed(mutex.try_lock()).await;
    assert!(about(took, 3000) && error == Some(ErrorKind::Unavailable), "{took} ms, {error:?}");
    // The store first answers "busy", and then does not answer any more. The call returns `None`, because the first
    // answer came during the call.
    wire.heal();
    let waiter = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.try_lock_for(ms(10_000)).await }
    });
    tokio::task::yield_now().await;
    ours.idle().await;
    wire.always(Fate::Refused);
    assert!(soon(waiter).await.unwrap().unwrap().is_none());
    drop(guard);
}

/// A call with a short limit arrives while another call of the client waits. The call with the short limit gets an
/// answer of the store within that limit.
#[tokio::test(start_paused = true)]
async fn a_short_wait_behind_a_waiter_gets_an_answer_of_the_store() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store));
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let first = waiting(&ours, "orders").await;
    ours.idle().await;
    for _ in 0..20 {
        time::sleep(ms(7)).await;
        assert!(ours.mutex("orders").try_lock_for(ms(5)).await.unwrap().is_none());
        assert!(ours.mutex("orders").try_lock().await.unwrap().is_none());
    }
    drop((first, guard));
}

/// A call with a limit of about one second (the poll interval) also gets an answer of the store, even over a slow
/// connection.
#[tokio::test(start_paused = true)]
async fn a_wait_of_a_second_behind_a_waiter_gets_an_answer_of_the_store() {
    let store = memory();
    let (ours, theirs) = (client(Delayed::new(store.clone(), 3, ms(100), ms(100))), client(store));
    let guard = theirs.mutex("orders").lock().await.unwrap();
    let first = waiting(&ours, "orders").await;
    ours.idle().await;
    for number in 0..200 {
        assert!(ours.mutex("orders").try_lock().await.unwrap().is_none());
        // The store was asked a moment ago, so the next poll is about a second away.
        time::sleep(ms(1)).await;
        assert!(ours.mutex("orders").try_lock_for(ms(900 + number * 2)).await.unwrap().is_none());
    }
    drop((first, guard));
}

/// A call times out while the client passes its own hold over a slow connection. The call must return `None`, not an
/// error.
#[tokio::test(start_paused = true)]
async fn a_short_wait_behind_our_own_hold_is_no_error() {
    let client = client(Delayed::new(memory(), 7, ms(20), ms(20)));
    client.ready().await.unwrap();
    let busy: Vec<_> = (0..4).map(|_| tokio::spawn(work(client.clone(), 50))).collect();
    let mut timed_out = 0;
    while !busy.iter().all(tokio::task::JoinHandle::is_finished) {
        // This lease differs from the lease of the other calls, so the hold is passed each time.
        match client.mutex("orders").lease(ms(5000)).try_lock_for(ms(100)).await {
            Ok(Some(guard)) => drop(guard),
            Ok(None) => timed_out += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(timed_out > 0);
}

async fn work(client: Client, turns: u32) {
    for _ in 0..turns {
        let guard = client.mutex("orders").lease(ms(60_000)).lock().await.unwrap();
        time::sleep(ms(30)).await;
        guard.release().await.unwrap();
    }
}

/// A `try_lock` is the next call in the queue, and the hold is being passed for it. The call gets the lock.
#[tokio::test(start_paused = true)]
async fn a_try_lock_that_is_next_gets_the_lock() {
    let wire = Stopped::new(memory());
    let client = client(wire.clone());
    wire.stop(Which::Answers);
    let first = waiting(&client, "orders").await;
    wire.until_held(1).await;
    let next = tokio::spawn({
        let mutex = client.mutex("orders").lease(ms(1000)); // Other terms than the claim in flight.
        async move { mutex.try_lock().await }
    });
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.is_err());
    wire.go_on();
    assert!(soon(next).await.unwrap().unwrap().is_some(), "no other client had the lock");
}

/// If the store does not answer, `release` returns `Unavailable` after one request timeout. The release continues in
/// the background.
#[tokio::test(start_paused = true)]
async fn a_release_continues_in_the_background() {
    let store = memory();
    let wire = Lossy::new(store.clone());
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    let guard = client.mutex("orders").lock().await.unwrap();
    wire.always(Fate::RequestLost);
    let (took, error) = timed(guard.release()).await;
    assert_eq!(error, Some(ErrorKind::Unavailable));
    assert!((3000..3500).contains(&took), "{took} ms");
    assert_eq!(crate::kit::held(&store).await, ["orders"]);
    wire.heal();
    soon(client.idle()).await;
    assert_eq!(crate::kit::held(&store).await, [""; 0]);
    assert!(counts.releases() < 60, "{} releases", counts.releases());
}
