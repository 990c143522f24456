//! Notifications about records: when they arrive, that none is lost, and how a subscription ends.

use bandog_conformance::wrap::{Counting, Fate, Forgetful, Lossy};
use bandog_core::{ErrorKind, Memory, Records, Swap, Swapped, Version};
use bandog_sync::{Client, Notifications};
use futures_util::FutureExt;

use crate::kit::{client, key, kind, memory, paused, soon};

// Promise: R13
#[tokio::test(start_paused = true)]
async fn notifications_that_no_call_awaits_count_as_one() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store));
    let mut notifications = subscribed(&ours, "news").await;
    let mut from = None;
    for _ in 0..3 {
        // No notification is lost with a dropped future.
        drop(notifications.next());
        from = change(&theirs, "news", from).await;
    }
    soon(notifications.next()).await.unwrap();
    assert!(notifications.next().now_or_never().is_none());
    change(&ours, "news", from).await;
    soon(notifications.next()).await.unwrap();
    assert!(notifications.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_swap_of_another_prefix_does_not_notify() {
    let store = memory();
    let of = |prefix: &str| paused().prefix(prefix).over(store.clone()).unwrap();
    let (shop, other, all) = (of("shop:"), of("other:"), client(store.clone()));
    let (mut notifications, mut with_prefix) = (subscribed(&shop, "news").await, subscribed(&all, "shop:news").await);
    change(&other, "news", None).await;
    change(&all, "news", None).await;
    assert!(notifications.next().now_or_never().is_none());
    change(&shop, "news", None).await;
    soon(notifications.next()).await.unwrap();
    soon(with_prefix.next()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_client_retries_until_it_has_subscribed() {
    let wire = Lossy::new(memory());
    wire.always(Fate::Refused);
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    let mut notifications = client.records().subscribe(&key("news")).unwrap();
    while counts.subscribes() < 10 {
        assert!(notifications.next().now_or_never().is_none());
        tokio::time::sleep(crate::kit::ms(100)).await;
    }
    wire.heal();
    soon(notifications.next()).await.unwrap();
    assert_eq!(counts.subscriptions(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reconnection_notifies() {
    let store = Forgetful::new(memory());
    let client = client(store.clone());
    let mut notifications = subscribed(&client, "news").await;
    store.reconnected();
    soon(notifications.next()).await.unwrap();
    assert!(notifications.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn notifications_end_with_the_client_and_do_not_keep_it_alive() {
    let counts = Counting::new(memory());
    let ours = client(counts.clone());
    let mut notifications = subscribed(&ours, "news").await;
    ours.close().await.unwrap();
    assert_eq!(kind(soon(notifications.next()).await), Some(ErrorKind::Closed));
    assert_eq!(kind(ours.records().subscribe(&key("news"))), Some(ErrorKind::Closed));
    let ours = client(counts.clone());
    let mut notifications = subscribed(&ours, "news").await;
    drop(ours);
    assert_eq!(kind(soon(notifications.next()).await), Some(ErrorKind::Closed));
    assert_eq!(counts.subscriptions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_dropped_while_it_is_in_flight_is_not_kept() {
    let wire = Lossy::new(memory());
    wire.always(Fate::Refused);
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    for _ in 0..2 {
        let notifications = client.records().subscribe(&key("news")).unwrap();
        client.idle().await;
        drop(notifications);
        wire.heal();
        client.idle().await;
        assert_eq!(counts.subscriptions(), 0);
    }
    drop(client.records().subscribe(&key("news")).unwrap());
    client.idle().await;
    assert_eq!(counts.subscriptions(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_and_a_record_of_one_name_have_separate_subscriptions() {
    let store: Memory = memory();
    let client = client(store);
    let mut notifications = subscribed(&client, "orders").await;
    client.mutex("orders").lock().await.unwrap().release().await.unwrap();
    assert!(notifications.next().now_or_never().is_none());
}

/// Subscribes to a record, and waits until the store has confirmed the subscription.
async fn subscribed(client: &Client, record: &str) -> Notifications {
    let mut notifications = client.records().subscribe(&key(record)).unwrap();
    soon(notifications.next()).await.unwrap();
    notifications
}

async fn change(client: &Client, record: &str, from: Option<Version>) -> Option<Version> {
    let swap = Swap { notifies: true, ..Swap::new(key(record), from, "news") };
    match client.records().swap(&[swap]).await.unwrap().each.remove(0).unwrap() {
        Swapped::Done(version) => version,
        other => panic!("{other:?}"),
    }
}
