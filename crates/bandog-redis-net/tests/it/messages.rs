//! Messages arrive with their payloads, and a subscriber knows where some may be missing.

use bandog_core::{
    ErrorKind, Key, Notifier, Pattern, Subscription,
    messages::{Channel, Channels, Inbox, Message, Sink},
};
use bandog_redis_net::{Keys, Servers};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async, moves::move_slot};
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

fn plain(name: &str) -> Channels {
    Channels::One(Channel::Plain(Key::new(name).unwrap()))
}

fn sharded(name: &str) -> Channels {
    Channels::One(Channel::Sharded(Key::new(name).unwrap()))
}

fn matching(glob: &str) -> Channels {
    Channels::Matching(Pattern::new(glob))
}

async fn subscribed(servers: &Servers, channels: &Channels) -> (Subscription, Inbox) {
    let (sink, messages) = Sink::queue(64);
    (servers.subscribe_messages(channels, sink).await.unwrap(), messages)
}

/// The kind of the error of a refused subscription.
async fn refused(servers: &Servers, channels: &Channels) -> ErrorKind {
    servers.subscribe_messages(channels, Sink::queue(1).0).await.unwrap_err().kind()
}

/// The URL of a user.
fn url_of(user: &str, server: &RedisServer) -> String {
    server.url().replace("redis://", &format!("redis://{user}:PASSWORD@"))
}

#[tokio::test]
async fn a_subscription_without_the_right_fails() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "resetchannels", "&shop-*", "+@all"]);
    let servers = servers(&url_of("few", &server), &[]);
    for channels in [plain("news"), sharded("news"), matching("*"), matching("shop-1*")] {
        assert_eq!(refused(&servers, &channels).await, ErrorKind::Denied, "{channels:?}");
    }
    for channels in [plain("shop-1"), sharded("shop-1"), matching("shop-*")] {
        subscribed(&servers, &channels).await;
    }
    // Waiters of locks poll then.
    assert!(servers.subscribe("news", Sink::queue(1).0).await.unwrap().is_silent());
}

#[tokio::test]
async fn a_subscription_whose_right_is_lost_ends() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "allchannels", "+@all"]);
    let servers = servers(&url_of("few", &server), &[]);
    for channels in [plain("news"), sharded("news"), matching("n*")] {
        let (_subscription, mut messages) = subscribed(&servers, &channels).await;
        // The server also ends the connection of a user that loses a right.
        server.cmd(&["ACL", "SETUSER", "few", "resetchannels"]);
        while let Some(message) = next(&mut messages).await {
            assert_eq!(message, Message::Gap, "{channels:?}");
        }
        server.cmd(&["ACL", "SETUSER", "few", "allchannels"]);
    }
}

#[tokio::test]
async fn a_server_without_sharded_channels_is_unsupported() {
    let server = RedisServer::start_with(&["--rename-command", "SSUBSCRIBE", ""]);
    let servers = servers(&server.url(), &[]);
    assert_eq!(refused(&servers, &sharded("news")).await, ErrorKind::Unsupported);
    subscribed(&servers, &plain("news")).await;
}

#[tokio::test]
async fn a_server_that_was_killed_and_restarted_is_subscribed_again() {
    let server = RedisServer::start();
    let servers = servers(&server.url(), &[]);
    for (channels, verb) in [(plain("c"), "PUBLISH"), (sharded("c"), "SPUBLISH"), (matching("c*"), "PUBLISH")] {
        let (_subscription, mut messages) = subscribed(&servers, &channels).await;
        for _ in 0..2 {
            server.restart();
            assert_eq!(next(&mut messages).await, Some(Message::Gap), "{channels:?}");
            server.cmd(&[verb, "c", "after"]);
            let after = next(&mut messages).await.unwrap();
            assert!(matches!(&after, Message::Payload(text) | Message::Matched(_, text) if **text == *b"after"));
        }
    }
}

#[tokio::test]
async fn one_connection_has_all_kinds_of_subscriptions() {
    let server = RedisServer::start();
    let servers = servers(&server.url(), &[]);
    let (notifier, mut calls) = notifier();
    let mut all = Vec::new();
    for channels in [plain("c"), sharded("c"), matching("c"), matching("*")] {
        all.push(subscribed(&servers, &channels).await);
    }
    let _watched = servers.watch("c", notifier).await.unwrap();
    assert_eq!(server.cmd(&["CLIENT", "LIST", "TYPE", "pubsub"]).text().lines().count(), 1);
    server.cmd(&["SET", "c", "x"]);
    timeout(SOON, calls.recv()).await.unwrap().unwrap();
    server.cmd(&["PUBLISH", "c", "plain"]);
    server.cmd(&["SPUBLISH", "c", "sharded"]);
    server.cmd(&["PUBLISH", "not\na key", "hidden"]);
    server.cmd(&["PUBLISH", "end", "end"]);
    let matched =
        |channel: &str, text: &str| Some(Message::Matched(Key::new(channel).unwrap(), text.as_bytes().into()));
    let (_, messages) = &mut all[3];
    assert_eq!([next(messages).await, next(messages).await], [matched("c", "plain"), matched("end", "end")]);
    let texts = [payload("plain"), payload("sharded"), matched("c", "plain")];
    for ((subscription, mut messages), text) in all.into_iter().zip(texts) {
        assert_eq!(next(&mut messages).await, text);
        drop(subscription);
        assert_eq!(next(&mut messages).await, None);
    }
}

#[tokio::test]
async fn on_a_cluster_subscriptions_survive_the_death_of_their_node() {
    let cluster = RedisCluster::start(3, 1);
    let servers = servers(&cluster.url(), &[]);
    let mut all = Vec::new();
    for channels in [plain("c"), sharded("c"), matching("c")] {
        all.push(subscribed(&servers, &channels).await);
    }
    // No command of the client finds the new master.
    cluster.master_of(cluster.slot("c")).kill();
    let others: Vec<_> = cluster.iter().filter(|node| node.is_running()).collect();
    for (_, messages) in &mut all {
        assert_eq!(next(messages).await, Some(Message::Gap));
    }
    for ((_subscription, mut messages), verb) in all.into_iter().zip(["PUBLISH", "SPUBLISH", "PUBLISH"]) {
        let publish = || others.iter().for_each(|node| _ = node.try_cmd(&[verb, "c", "after"]));
        let mut has_arrived = async || {
            publish();
            let message = timeout(SOON, messages.next()).await.unwrap().unwrap();
            matches!(message, Message::Payload(_) | Message::Matched(..))
        };
        eventually_async(SOON, async || has_arrived().await).await;
    }
}

#[tokio::test]
async fn on_a_cluster_a_plain_channel_does_not_move_with_a_slot() {
    let cluster = RedisCluster::start(3, 0);
    let servers = servers(&cluster.url(), &[]);
    let (_plain, mut plain_messages) = subscribed(&servers, &plain("c")).await;
    let slot = cluster.slot("c");
    let from = cluster.master_of(slot);
    let to = cluster.addrs().into_iter().find(|addr| addr.port() != from.port()).unwrap();
    move_slot(&cluster, slot, from, cluster.node_at(to.port()));
    for node in cluster.iter().cycle().take(30) {
        let mut get = redis::Pipeline::new();
        get.cmd("GET").arg("c");
        servers.call(Keys::FirstArguments, get).await.unwrap(); // This finds the move.
        node.cmd(&["PUBLISH", "c", "after"]);
        assert_eq!(next(&mut plain_messages).await, payload("after"), "once, and without a gap");
    }
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

// Promise: G11
#[tokio::test]
async fn without_the_right_to_track_a_watch_is_silent() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", "-client|tracking"]);
    let servers = servers(&server.url().replace("redis://", "redis://few:PASSWORD@"), &[]);
    let (notifier, _calls) = notifier();
    assert!(servers.watch("k", notifier).await.unwrap().is_silent());
}
