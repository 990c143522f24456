//! Helper functions of the tests of work queues.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bandog_core::{
    Key,
    queues::{
        Delivered, DeliveryId, ElementId, Extend, Extended, NewElement, Push, Queues, Settle, SettleEnd, Settled, Take,
        TakeId, Taken,
    },
};
use bandog_redis_data::RedisObjects;
use bandog_redis_net::{FurtherOptions, Options};

pub(super) const SOON: Duration = Duration::from_secs(30);
pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn impatient(url: &str) -> Arc<RedisObjects> {
    let (options, _) = Options::from_url(url, &FurtherOptions { names: &[], shown: "" }).unwrap();
    Arc::new(RedisObjects::new(options.with_timeout(Duration::from_millis(300))).unwrap())
}

pub(super) fn queue() -> Key {
    Key::new("q").unwrap()
}

pub(super) fn new(payload: &str) -> NewElement {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    NewElement::new(ElementId { client: 7, number }, payload.into())
}

pub(super) fn push_of(elements: Vec<NewElement>) -> [Push; 1] {
    [Push { queue: queue(), elements }]
}

pub(super) async fn push(store: &dyn Queues, elements: Vec<NewElement>) {
    store.push(&push_of(elements)).await.remove(0).unwrap();
}

pub(super) fn take_of(taker: u64, at_most: u32) -> Take {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = TakeId { taker, number: NEXT.fetch_add(1, Ordering::Relaxed) };
    Take {
        queue: queue(),
        id,
        is_repeated: false,
        at_most,
        bytes: 1 << 20,
        rest_after: Duration::ZERO,
        lease: HOUR,
        deliveries: 5,
    }
}

pub(super) async fn take(store: &dyn Queues, taker: u64, at_most: u32) -> Taken {
    store.take(&[take_of(taker, at_most)]).await.remove(0).unwrap()
}

pub(super) fn delivery(element: &Delivered) -> DeliveryId {
    DeliveryId { id: element.id, fence: element.fence }
}

pub(super) fn done(element: &Delivered) -> Settle {
    Settle { delivery: delivery(element), end: SettleEnd::Done(Vec::new()) }
}

pub(super) async fn settle(store: &dyn Queues, settles: &[Settle]) -> Vec<Settled> {
    store.settle(&queue(), settles).await.unwrap()
}

pub(super) async fn extend(store: &dyn Queues, element: &Delivered) -> Extended {
    let deliveries = vec![(delivery(element), Some("half".to_owned()))];
    store.extend(&Extend { queue: queue(), deliveries, lease: HOUR }).await.unwrap()[0]
}

pub(super) fn texts(taken: &Taken) -> Vec<String> {
    taken.elements.iter().map(|element| String::from_utf8(element.payload.clone()).unwrap()).collect()
}
