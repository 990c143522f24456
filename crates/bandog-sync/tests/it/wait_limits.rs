//! The limits of waits follow one rule in all calls: zero is one attempt without a wait, and 365 days are the maximum.

use std::time::Duration;

use bandog_conformance::wrap::{Counting, Fate, Lossy};
use bandog_core::{ErrorKind, MAX_TTL, Pattern, Records};
use bandog_sync::{Client, Leader, all};

use crate::kit::{client, held, kind, memory, ms, soon};

/// The results of all calls with this limit, in which the waited-for value is free. `None`: the call got nothing.
async fn free(client: &Client, limit: Duration) -> Vec<(&'static str, Result<bool, bandog_core::Error>)> {
    let orders = client.mutex("orders").try_lock_for(limit).await.map(|guard| guard.is_some());
    let reader = client.rwlock("stock").try_read_for(limit).await.map(|guard| guard.is_some());
    let writer = client.rwlock("books").try_write_for(limit).await.map(|guard| guard.is_some());
    let permit = client.semaphore("gpu", 1).try_acquire_for(limit).await.map(|guard| guard.is_some());
    let several = all([client.mutex("a"), client.mutex("b")]).try_lock_for(limit).await.map(|guard| guard.is_some());
    let leads = client.election("billing").campaign_for(limit).await.map(|leadership| leadership.is_some());
    let changed = client.election("other").observe().changed_for(limit).await.map(|leader| leader == Some(None));
    let passed = client.barrier("alone", 1).wait_for(limit).await.map(|arrival| arrival.is_some());
    let open = client.latch("open").wait_for(limit).await;
    vec![
        ("mutex", orders),
        ("reader", reader),
        ("writer", writer),
        ("permit", permit),
        ("all", several),
        ("election", leads),
        ("observer", changed),
        ("barrier", passed),
        ("latch", open),
    ]
}

// Promise: L12
#[tokio::test(start_paused = true)]
async fn every_call_gets_a_free_value_with_a_limit_from_zero_to_a_year() {
    for limit in [Duration::ZERO, ms(1000), MAX_TTL] {
        let client = client(memory());
        for (call, got) in soon(free(&client, limit)).await {
            assert!(got.unwrap(), "{call} got nothing with the limit {limit:?}");
        }
    }
}

// Promise: L12
#[tokio::test(start_paused = true)]
async fn a_longer_limit_is_misused_before_any_request() {
    let store = Counting::new(memory());
    let client = client(store.clone());
    for limit in [MAX_TTL + Duration::from_nanos(1), Duration::MAX] {
        for (call, refused) in soon(free(&client, limit)).await {
            let error = refused.expect_err(call);
            assert_eq!(error.kind(), ErrorKind::Misused, "{call}");
            assert!(error.to_string().contains(&format!("{limit:?}; at most 365 days")), "{call}: {error}");
        }
    }
    client.idle().await;
    assert_eq!(store.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_with_a_limit_of_zero_leads_only_if_there_is_no_leader() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    let mut observer = theirs.election("billing").observe();
    assert_eq!(observer.changed_for(Duration::ZERO).await.unwrap(), Some(None), "the first call returns the leader");
    assert_eq!(observer.changed_for(Duration::ZERO).await.unwrap(), None, "there was no change");
    let leadership = ours.election("billing").candidate("ours").campaign_for(Duration::ZERO).await.unwrap().unwrap();
    let seen = observer.changed_for(Duration::ZERO).await.unwrap().flatten();
    assert_eq!(seen.as_ref().map(Leader::text), Some("ours"));
    assert!(theirs.election("billing").campaign_for(Duration::ZERO).await.unwrap().is_none());
    leadership.resign().await.unwrap();
    assert_eq!(observer.changed_for(Duration::ZERO).await.unwrap(), Some(None));
    // The change that was returned is not returned again by a call that waits.
    assert_eq!(observer.changed_for(ms(3000)).await.unwrap(), None);
    assert!(theirs.election("billing").campaign_for(Duration::ZERO).await.unwrap().is_some());
    theirs.idle().await;
    assert_eq!(held(&store).await, [""; 0]);
}

/// A party that does not wait is not counted, so it cannot open the barrier for others and return nothing.
#[tokio::test(start_paused = true)]
async fn a_party_with_a_limit_of_zero_only_opens_the_barrier() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store.clone()));
    assert!(ours.barrier("phase", 2).wait_for(Duration::ZERO).await.unwrap().is_none());
    ours.idle().await;
    assert_eq!(store.names(&Pattern::all()).await.unwrap(), [], "the party was written into the record");
    assert_eq!(held(&store).await, [""; 0]);
    let phase = theirs.barrier("phase", 2);
    let waits = tokio::spawn(async move { phase.wait().await });
    tokio::time::sleep(ms(5)).await;
    assert!(ours.barrier("phase", 2).wait_for(Duration::ZERO).await.unwrap().unwrap().is_leader());
    assert!(!soon(waits).await.unwrap().unwrap().is_leader());
    assert_eq!(kind(ours.barrier("phase", 0).wait_for(Duration::ZERO).await), Some(ErrorKind::Misused));
}

// Promise: L12
#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_returns_the_error_of_a_store_that_does_not_answer() {
    let wire = Lossy::new(memory());
    let client = client(wire.clone());
    client.ready().await.unwrap();
    wire.always(Fate::Refused);
    for (call, refused) in soon(free(&client, Duration::ZERO)).await {
        assert_eq!(kind(refused), Some(ErrorKind::Unavailable), "{call}");
    }
}
