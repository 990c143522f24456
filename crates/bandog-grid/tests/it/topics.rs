//! Topics on Redis and in memory.

use std::fmt::Debug;

use bandog::{
    ConnectOptions, ErrorKind, Pattern,
    grid::{ClientGrid, Event, Limits, PatternTopic, Subscriber, Topic, codec::Kryo5},
};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::{SOON, grid};

async fn event<T>(subscriber: &mut Subscriber<T>) -> Event<T> {
    timeout(SOON, subscriber.next()).await.unwrap().unwrap()
}

async fn message<T: Debug>(subscriber: &mut Subscriber<T>) -> T {
    match event(subscriber).await {
        Event::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn topics_have_the_prefix_of_the_client() {
    let server = RedisServer::start();
    let options = ConnectOptions::parse(server.url()).unwrap().prefix("sh?p:");
    let shop = options.connect().await.unwrap().grid();
    let (news, sharded): (Topic<u32>, Topic<u32>) = (shop.topic("news").unwrap(), shop.sharded_topic("news").unwrap());
    let all: PatternTopic<u32> = shop.pattern_topic(Pattern::new("*")).unwrap();
    assert_eq!((news.name(), sharded.name()), ("news", "news"));
    let mut subscribers = (news.subscribe().await.unwrap(), sharded.subscribe().await.unwrap());
    let mut of_all = all.subscribe().await.unwrap();
    assert_eq!(server.cmd(&["PUBLISH", "shop:news", "1"]).int(), 0, "a ? in the prefix is no pattern");
    assert_eq!(server.cmd(&["PUBLISH", "sh?p:news", "2"]).int(), 2);
    assert_eq!(server.cmd(&["SPUBLISH", "sh?p:news", "3"]).int(), 1);
    assert_eq!((message(&mut subscribers.0).await, message(&mut subscribers.1).await), (2, 3));
    assert_eq!(message(&mut of_all).await, ("news".to_owned(), 2));
    assert_eq!(news.publish(&4).await.unwrap(), 2);
    assert_eq!(message(&mut of_all).await, ("news".to_owned(), 4));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_an_event() {
    let server = RedisServer::start();
    for url in [&*server.url(), "memory:"] {
        let grid = grid(url).await;
        let (texts, numbers): (Topic<String>, Topic<u32>) = (grid.topic("t").unwrap(), grid.topic("t").unwrap());
        let mut subscriber = numbers.subscribe().await.unwrap();
        texts.publish("not a number").await.unwrap();
        numbers.publish(&7).await.unwrap();
        let Event::Corrupt(error) = event(&mut subscriber).await else { panic!("it can be read") };
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(!error.to_string().contains("not a number"), "{error}");
        assert_eq!(message(&mut subscriber).await, 7);
    }
}

// Promise: G22
#[tokio::test]
async fn a_slow_subscriber_gets_a_gap_and_a_dropped_one_ends() {
    let server = RedisServer::start();
    let grid = grid(&server.url()).await;
    let topic: Topic<i32, Kryo5> = grid.topic("t").unwrap().codec(Kryo5).buffer(2);
    let (mut slow, fast) = (topic.subscribe().await.unwrap(), topic.clone().buffer(100).subscribe().await.unwrap());
    for number in 0..50 {
        topic.publish(&number).await.unwrap();
    }
    let events: Vec<_> = fast.take(50).collect().await;
    for (number, event) in (0..).zip(events) {
        assert!(matches!(event, Event::Message(message) if message == number), "{event:?}");
    }
    assert_eq!([message(&mut slow).await, message(&mut slow).await], [0, 1]);
    assert!(matches!(event(&mut slow).await, Event::Gap));
    topic.publish(&50).await.unwrap();
    assert_eq!(message(&mut slow).await, 50);
    drop(slow);
    let ended = async || server.cmd(&["PUBSUB", "NUMSUB", "t"]).array()[1].int() == 0;
    eventually_async(SOON, ended).await;
}

// Promise: G22
#[tokio::test]
async fn a_subscriber_keeps_its_grid_open() {
    let server = RedisServer::start();
    let mut subscriber = server_topic(&server).await;
    server.cmd(&["PUBLISH", "t", "1"]);
    assert_eq!(message(&mut subscriber).await, 1);
    server.restart();
    assert!(matches!(event(&mut subscriber).await, Event::Gap));
    server.cmd(&["PUBLISH", "t", "2"]);
    assert_eq!(message(&mut subscriber).await, 2);
}

/// A subscriber of the topic `t` with a connection of its own. Its grid is dropped.
async fn server_topic(server: &RedisServer) -> Subscriber<u32> {
    grid(&server.url()).await.topic("t").unwrap().subscribe().await.unwrap()
}

#[tokio::test]
async fn a_user_without_the_right_gets_an_error() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "resetchannels", "+@all"]);
    let grid = grid(&server.url().replace("redis://", "redis://few:PASSWORD@")).await;
    for topic in [grid.topic::<u32>("t").unwrap(), grid.sharded_topic("t").unwrap()] {
        let (published, subscribed) = (topic.publish(&1).await.unwrap_err(), topic.subscribe().await.unwrap_err());
        for (error, verb) in [(published, "publish"), (subscribed, "subscribe")] {
            assert!(error.kind() == ErrorKind::Denied && !error.maybe_applied(), "{error}");
            assert!(error.to_string().contains(verb), "{error}");
        }
    }
    let all: PatternTopic<u32> = grid.pattern_topic(Pattern::all()).unwrap();
    assert_eq!(all.subscribe().await.unwrap_err().kind(), ErrorKind::Denied);
}

// Promise: G22
#[tokio::test]
async fn a_message_without_an_answer_is_not_sent_again() {
    let server = RedisServer::start();
    let wire = server.wire();
    let grid = grid(&wire.url()).await;
    let topic: Topic<u32> = grid.topic("t").unwrap();
    assert_eq!(topic.publish(&0).await.unwrap(), 0);
    let mut witness = server_topic(&server).await;
    wire.drop_replies(true);
    let publishing = topic.clone();
    let published = tokio::spawn(async move { publishing.publish(&1).await });
    assert_eq!(message(&mut witness).await, 1);
    wire.cut();
    let error = published.await.unwrap().unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.maybe_applied(), "{error}");
    wire.drop_replies(false);
    eventually_async(SOON, async || topic.publish(&2).await.is_ok()).await;
    assert_eq!(message(&mut witness).await, 2);
}

#[tokio::test]
async fn messages_have_the_limits_of_the_grid() {
    let client = bandog::connect("memory:").await.unwrap();
    let grid = client.grid_with(Limits { element: 4, operations: 0, ..Limits::default() });
    let topic: Topic<String> = grid.topic("t").unwrap();
    assert_eq!(topic.publish("12345").await.unwrap_err().kind(), ErrorKind::Misused);
    assert_eq!(topic.publish("1").await.unwrap_err().kind(), ErrorKind::Overloaded);
    assert_eq!(grid.topic::<u32>("").unwrap_err().kind(), ErrorKind::Misused);
}

// Promise: G22
#[tokio::test]
async fn topics_work_on_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let grid = grid(&cluster.url()).await;
    let all: PatternTopic<u32> = grid.pattern_topic(Pattern::new("t?")).unwrap();
    let mut of_all = all.subscribe().await.unwrap();
    for number in 0..9 {
        let name = format!("t{number}");
        for topic in [grid.topic::<u32>(&name).unwrap(), grid.sharded_topic(&name).unwrap()] {
            let mut subscriber = topic.subscribe().await.unwrap();
            assert!(topic.publish(&number).await.unwrap() > 0);
            assert_eq!(message(&mut subscriber).await, number);
        }
        assert_eq!(message(&mut of_all).await, (name, number));
    }
}

#[tokio::test]
async fn subscribers_of_a_client_share_one_subscription() {
    let server = RedisServer::start();
    let (mut grids, mut subscribers) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        grids.push(grid(&server.url()).await);
    }
    for grid in grids.iter().cycle().take(50) {
        subscribers.push(grid.topic::<u32>("t").unwrap().subscribe().await.unwrap());
    }
    assert_eq!(server.cmd(&["PUBSUB", "NUMSUB", "t"]).array()[1].int(), 10);
    assert_eq!(grids[0].topic::<u32>("t").unwrap().publish(&7).await.unwrap(), 10);
    for subscriber in &mut subscribers {
        assert_eq!(message(subscriber).await, 7);
    }
}
