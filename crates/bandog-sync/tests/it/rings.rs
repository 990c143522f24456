//! Notifications of records: when they come, that none is lost, and how they end.

use bandog_conformance::wrap::{Counting, Fate, Forgetful, Lossy};
use bandog_core::{ErrorKind, Memory, Records, Swap, Swapped, Version};
use bandog_sync::{Client, Notifications};
use futures_util::FutureExt;

use crate::kit::{client, key, kind, memory, paused, soon};

#[tokio::test(start_paused = true)]
async fn rings_that_nobody_awaits_are_one() {
    let store = memory();
    let (ours, theirs) = (client(store.clone()), client(store));
    let mut rings = hearing(&ours, "news").await;
    let mut from = None;
    for _ in 0..3 {
        // A future that is dropped takes no ring along.
        drop(rings.next());
        from = ring(&theirs, "news", from).await;
    }
    soon(rings.next()).await.unwrap();
    assert!(rings.next().now_or_never().is_none());
    ring(&ours, "news", from).await;
    soon(rings.next()).await.unwrap();
    assert!(rings.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_a_swap_of_another_prefix_rings_is_not_heard() {
    let store = memory();
    let of = |prefix: &str| paused().prefix(prefix).over(store.clone()).unwrap();
    let (shop, other, all) = (of("shop:"), of("other:"), client(store.clone()));
    let (mut rings, mut whole) = (hearing(&shop, "news").await, hearing(&all, "shop:news").await);
    ring(&other, "news", None).await;
    ring(&all, "news", None).await;
    assert!(rings.next().now_or_never().is_none());
    ring(&shop, "news", None).await;
    soon(rings.next()).await.unwrap();
    soon(whole.next()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_reached_is_asked_until_it_listens() {
    let wire = Lossy::new(memory());
    wire.always(Fate::Refused);
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    let mut rings = client.subscribe(&key("news")).unwrap();
    while counts.listens() < 10 {
        assert!(rings.next().now_or_never().is_none());
        tokio::time::sleep(crate::kit::ms(100)).await;
    }
    wire.heal();
    soon(rings.next()).await.unwrap();
    assert_eq!(counts.bells(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reconnection_rings() {
    let store = Forgetful::new(memory());
    let client = client(store.clone());
    let mut rings = hearing(&client, "news").await;
    store.reconnected();
    soon(rings.next()).await.unwrap();
    assert!(rings.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn they_end_with_the_client_and_do_not_keep_it() {
    let counts = Counting::new(memory());
    let ours = client(counts.clone());
    let mut rings = hearing(&ours, "news").await;
    ours.close().await.unwrap();
    assert_eq!(kind(soon(rings.next()).await), Some(ErrorKind::Closed));
    assert_eq!(kind(ours.subscribe(&key("news"))), Some(ErrorKind::Closed));
    let ours = client(counts.clone());
    let mut rings = hearing(&ours, "news").await;
    drop(ours);
    assert_eq!(kind(soon(rings.next()).await), Some(ErrorKind::Closed));
    assert_eq!(counts.bells(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_bell_that_is_dropped_while_the_store_is_asked_is_not_kept() {
    let wire = Lossy::new(memory());
    wire.always(Fate::Refused);
    let counts = Counting::new(wire.clone());
    let client = client(counts.clone());
    for _ in 0..2 {
        let rings = client.subscribe(&key("news")).unwrap();
        client.idle().await;
        drop(rings);
        wire.heal();
        client.idle().await;
        assert_eq!(counts.bells(), 0);
    }
    drop(client.subscribe(&key("news")).unwrap());
    client.idle().await;
    assert_eq!(counts.bells(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_and_a_record_of_one_name_have_bells_of_their_own() {
    let store: Memory = memory();
    let client = client(store);
    let mut rings = hearing(&client, "orders").await;
    client.mutex("orders").lock().await.unwrap().release().await.unwrap();
    assert!(rings.next().now_or_never().is_none());
}

/// The rings of a record to which the store listens.
async fn hearing(client: &Client, record: &str) -> Notifications {
    let mut rings = client.subscribe(&key(record)).unwrap();
    soon(rings.next()).await.unwrap();
    rings
}

async fn ring(client: &Client, record: &str, from: Option<Version>) -> Option<Version> {
    let swap = Swap { notifies: true, ..Swap::new(key(record), from, "news") };
    match client.swap(&[swap]).await.unwrap().each.remove(0).unwrap() {
        Swapped::Done(version) => version,
        other => panic!("{other:?}"),
    }
}
