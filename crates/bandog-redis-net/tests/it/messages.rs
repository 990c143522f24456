//! Messages arrive with their payloads, and a subscriber knows where some may be missing.

use bandog_redis_net::{Keys, Message, Messages, Sink};
use bandog_testkit::{RedisCluster, RedisServer, moves::move_slot};
use tokio::time::timeout;

use crate::{SOON, servers};

async fn next(messages: &mut Messages) -> Option<Message> {
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
    publish("after");
    assert_eq!(next(&mut messages).await, payload("after"));
}
