//! Messages arrive with their payloads, and a subscriber knows where some may be missing.

use bandog_core::{
    Notifier,
    messages::{Inbox, Message, Sink},
};
use bandog_redis_net::Keys;
use bandog_testkit::{RedisCluster, RedisServer, moves::move_slot};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::timeout,
};

use crate::{SOON, servers};

async fn next(messages: &mut Inbox) -> Option<Message> {
    timeout(SOON, messages.next()).await.unwrap()
}

fn payload(text: &str) -> Option<Message> {
    Some(Message::Payload(text.as_bytes().into()))
}

#[tokio::test]
async fn payloads_arrive_in_order_and_a_lost_connection_is_a_gap() {
    let server = RedisServer::start();
    let servers = servers(&server.url(), &[]);
    let (sink, mut messages) = Sink::queue(16);
    let subscription = servers.subscribe("news", sink).await.unwrap();
    for text in ["one", "", "\u{0}\u{1}"] {
        server.cmd(&["PUBLISH", "news", text]);
        assert_eq!(next(&mut messages).await, payload(text));
    }
    server.kill_clients();
    assert_eq!(next(&mut messages).await, Some(Message::Gap), "the subscription is there again");
    server.cmd(&["PUBLISH", "news", "after"]);
    assert_eq!(next(&mut messages).await, payload("after"));
    drop(subscription);
    assert_eq!(next(&mut messages).await, None);
}

#[tokio::test]
async fn a_queue_that_is_not_read_keeps_its_limit() {
    let server = RedisServer::start();
    let servers = servers(&server.url(), &[]);
    let ((slow, mut slow_messages), (fast, mut fast_messages)) = (Sink::queue(2), Sink::queue(16));
    let _subscriptions = (servers.subscribe("c", slow).await.unwrap(), servers.subscribe("c", fast).await.unwrap());
    for number in 0..5 {
        server.cmd(&["PUBLISH", "c", &number.to_string()]);
        assert_eq!(next(&mut fast_messages).await, payload(&number.to_string()));
    }
    let read = [next(&mut slow_messages).await, next(&mut slow_messages).await, next(&mut slow_messages).await];
    assert_eq!(read, [payload("0"), payload("1"), Some(Message::Gap)]);
}

#[tokio::test]
async fn on_a_cluster_a_channel_moves_with_its_slot() {
    let cluster = RedisCluster::start(3, 0);
    let servers = servers(&cluster.url(), &[]);
    let (sink, mut messages) = Sink::queue(16);
    let _subscription = servers.subscribe("{orders}:news", sink).await.unwrap();
    let slot = cluster.slot("{orders}:news");
    let sharded = servers.is_sharded();
    let publish = |text: &str| {
        let verb = if sharded { "SPUBLISH" } else { "PUBLISH" };
        cluster.master_of(slot).cmd(&[verb, "{orders}:news", text])
    };
    publish("before");
    assert_eq!(next(&mut messages).await, payload("before"));
    let from = cluster.master_of(slot);
    let to = cluster.addrs().into_iter().find(|addr| addr.port() != from.port()).unwrap();
    move_slot(&cluster, slot, from, cluster.node_at(to.port()));
    // The client finds the move when the server ends the subscription of a sharded channel. Else a call finds it.
    let mut get = redis::Pipeline::new();
    get.cmd("GET").arg("{orders}:x");
    servers.call(Keys::FirstArguments, get).await.unwrap();
    assert_eq!(next(&mut messages).await, Some(Message::Gap));
    // A refused subscription at the old node is a gap of its own, and messages can be missing before each gap.
    let after = loop {
        publish("after");
        let message = next(&mut messages).await;
        if message != Some(Message::Gap) {
            break message;
        }
    };
    assert_eq!(after, payload("after"));
}

/// A notifier, and the receiver of its calls.
fn notifier() -> (Notifier, UnboundedReceiver<()>) {
    let (sender, calls) = unbounded_channel();
    (Notifier::new(move || _ = sender.send(())), calls)
}

#[tokio::test]
async fn a_watched_key_notifies_of_each_change_and_of_a_lost_connection() {
    let server = RedisServer::start();
    let servers = servers(&server.url(), &[]);
    let (notifier, mut calls) = notifier();
    let subscription = servers.watch("k", notifier).await.unwrap();
    assert!(!subscription.is_silent());
    for number in 0..50 {
        while calls.try_recv().is_ok() {} // A key that exists can be reported once more.
        server.cmd(&["RPUSH", "k", &number.to_string()]);
        timeout(SOON, calls.recv()).await.unwrap().unwrap();
    }
    server.cmd(&["RPUSH", "k2", "another key"]);
    server.kill_clients();
    timeout(SOON, calls.recv()).await.unwrap().unwrap();
    server.cmd(&["FLUSHALL"]);
    timeout(SOON, calls.recv()).await.unwrap().unwrap();
    drop(subscription);
    assert_eq!(timeout(SOON, async { while calls.recv().await.is_some() {} }).await, Ok(()), "the notifier is dropped");
}

#[tokio::test]
async fn without_the_right_to_track_a_watch_is_silent() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", "-client|tracking"]);
    let servers = servers(&server.url().replace("redis://", "redis://few:PASSWORD@"), &[]);
    let (notifier, _calls) = notifier();
    assert!(servers.watch("k", notifier).await.unwrap().is_silent());
}
