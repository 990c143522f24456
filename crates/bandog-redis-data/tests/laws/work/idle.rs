//! Takers that wait for elements.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use bandog_core::{
    Notifier,
    queues::{Bell, Queues, Settle, SettleEnd},
};
use bandog_testkit::{RedisServer, eventually_async};

use super::kit::{SOON, delivery, new, push, queue, settle, take, texts};
use crate::at;

/// What many takers have heard.
struct Listeners {
    heard: Arc<[AtomicU32]>,
    subscriptions: Vec<bandog_core::Subscription>,
}

impl Listeners {
    /// Takers with the numbers from 1 on.
    async fn subscribe(store: &dyn Queues, count: usize) -> Self {
        let heard: Arc<[AtomicU32]> = (0..count).map(|_| AtomicU32::new(0)).collect();
        let mut subscriptions = Vec::new();
        for at in 0..count {
            let heard = heard.clone();
            let notifier = Notifier::new(move || _ = heard[at].fetch_add(1, Ordering::SeqCst));
            let bell = Bell::Ready { queue: queue(), taker: at as u64 + 1 };
            subscriptions.push(store.subscribe_bell(&bell, notifier).await.unwrap());
        }
        Self { heard, subscriptions }
    }

    fn counts(&self) -> Vec<u32> {
        self.heard.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    fn total(&self) -> u32 {
        self.counts().iter().sum()
    }
}

/// Waits until all messages that were sent so far have arrived.
async fn arrived(heard: Arc<[AtomicU32]>, server: &RedisServer) {
    let last = heard.len();
    let before = heard[last - 1].load(Ordering::SeqCst);
    server.cmd(&["PUBLISH", &format!("bandog:work:{{q}}:taker:{last:016x}"), ""]);
    eventually_async(SOON, async || heard[last - 1].load(Ordering::SeqCst) > before).await;
    heard[last - 1].fetch_sub(1, Ordering::SeqCst);
}

const IDLE: &str = "bandog:work:{q}:idle";

#[tokio::test]
async fn a_push_wakes_one_idle_taker() {
    let server = RedisServer::start();
    let (store, pusher) = (at(&server.url()), at(&server.url()));
    // The last one only listens.
    let listeners = Listeners::subscribe(&*store, 21).await;
    for taker in 1..=20 {
        assert!(take(&*store, taker, 1).await.elements.is_empty());
    }
    // They stay idle also on a machine under load.
    server.cmd(&["PERSIST", IDLE]);
    for taker in 1..=20_u32 {
        server.cmd(&["ZADD", IDLE, "XX", &format!("90000000000000{taker:02}"), &format!("{taker:016x}")]);
    }
    push(&*pusher, vec![new("a")]).await;
    arrived(listeners.heard.clone(), &server).await;
    assert_eq!((listeners.counts()[19], listeners.total()), (1, 1), "the taker that has asked last");
    assert_eq!(texts(&take(&*store, 20, 1).await), ["a"]);
    // Of many elements each taker wakes the next one.
    push(&*pusher, (0..5).map(|at| new(&at.to_string())).collect()).await;
    arrived(listeners.heard.clone(), &server).await;
    assert_eq!((listeners.counts()[18], listeners.total()), (1, 2));
    let first = take(&*store, 19, 2).await;
    arrived(listeners.heard.clone(), &server).await;
    assert_eq!((first.has_more, listeners.counts()[17], listeners.total()), (true, 1, 3));
    assert_eq!(take(&*store, 18, 10).await.elements.len(), 3);
    // It could have taken more, so it is idle. One that does not listen any more is passed over.
    let mut listeners = listeners;
    listeners.subscriptions.remove(17);
    let is_gone =
        async || server.cmd(&["PUBSUB", "NUMSUB", "bandog:work:{q}:taker:0000000000000012"]).array()[1].int() == 0;
    eventually_async(SOON, is_gone).await;
    settle(
        &*pusher,
        &[Settle { delivery: delivery(&first.elements[0]), end: SettleEnd::HandBack(std::time::Duration::ZERO) }],
    )
    .await;
    arrived(listeners.heard.clone(), &server).await;
    assert_eq!((listeners.counts()[16], listeners.total()), (1, 4), "{:?}", listeners.counts());
    // Takers that have not asked for two seconds have gone.
    let idle = server.cmd(&["ZRANGE", IDLE, "0", "-1"]).array().to_vec();
    assert!(idle.len() > 10, "{idle:?}");
    for taker in idle {
        server.cmd(&["ZADD", IDLE, "XX", "1", taker.text()]);
    }
    push(&*pusher, vec![new("b")]).await;
    arrived(listeners.heard.clone(), &server).await;
    assert_eq!(listeners.total(), 4);
    assert_eq!(server.cmd(&["EXISTS", IDLE]).int(), 0);
}
