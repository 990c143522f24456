//! Subscribers are notified of every release, and no subscription stays on the server without a subscriber.

use std::time::Duration;

use bandog_core::{Claim, ErrorKind, Key, Leases, Released, Subscription};
use bandog_redis::Redis;
use bandog_testkit::{RedisServer, eventually};
use futures_util::future::{join_all, select};

use crate::help::{SOON, at, backend, claim, fences, lock_user_url, notifier, release, with_timeout};

const CHANNEL: &str = "redisson_lock__channel:{k}";

#[tokio::test]
async fn a_subscription_is_active_when_subscribe_has_returned() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (on_release, notified) = notifier();
    let subscription = redis.subscribe(&claim("k"), on_release).await.unwrap();
    assert!(!subscription.is_silent());
    assert_eq!(subscribers(&server, CHANNEL), 1);
    for (index, message) in ["0", "1", "other"].into_iter().enumerate() {
        server.cmd(&["PUBLISH", CHANNEL, message]);
        eventually_notified(&notified, index + 1).await;
    }
    server.cmd(&["PUBLISH", "redisson_lock__channel:{other}", "0"]);
    drop(subscription);
    eventually_subscribed(&server, CHANNEL, 0).await;
    assert_eq!(notified(), 3);
}

#[tokio::test]
async fn a_release_reports_the_number_of_other_subscribers() {
    let server = RedisServer::start();
    let (redis, other) = (backend(&server), backend(&server));
    let held = claim("k");
    let (on_release, notified) = notifier();
    let ours = redis.subscribe(&held, on_release.clone()).await.unwrap();
    fences(&redis, &held).await;
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
    let theirs = other.subscribe(&held, on_release).await.unwrap();
    fences(&redis, &held).await;
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(1) });
    eventually_notified(&notified, 3).await;
    drop(ours);
    eventually_subscribed(&server, CHANNEL, 1).await;
    fences(&redis, &held).await;
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(1) });
    // A subscriber that was dropped before the message is not notified.
    eventually_notified(&notified, 4).await;
    drop(theirs);
}

#[tokio::test]
async fn subscribers_of_one_key_share_one_subscription() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (on_release, notified) = notifier();
    let waiter = claim("k");
    let subscribing = (0..10).map(|_| redis.subscribe(&waiter, on_release.clone()));
    let mut subscriptions: Vec<Subscription> = join_all(subscribing).await.into_iter().map(Result::unwrap).collect();
    assert_eq!((subscribers(&server, CHANNEL), server.calls("subscribe")), (1, 1));
    let last = subscriptions.pop();
    drop(subscriptions);
    server.cmd(&["PUBLISH", CHANNEL, "0"]);
    eventually_notified(&notified, 1).await;
    assert_eq!((subscribers(&server, CHANNEL), server.calls("unsubscribe")), (1, 0));
    drop(last);
    eventually_subscribed(&server, CHANNEL, 0).await;
}

#[tokio::test]
async fn a_dropped_subscribe_call_leaves_no_subscription() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = at(&lock_user_url(wire.addr()));
    let keep = redis.subscribe(&claim("keep"), notifier().0).await.unwrap();
    wire.delay(Duration::from_millis(20));
    let wanted = claim("k");
    for after in [0, 1, 10, 30, 60] {
        let subscribing = Box::pin(redis.subscribe(&wanted, notifier().0));
        let late = Box::pin(tokio::time::sleep(Duration::from_millis(after)));
        drop(select(subscribing, late).await);
    }
    let barrier = redis.subscribe(&claim("barrier"), notifier().0).await.unwrap();
    eventually_subscribed(&server, CHANNEL, 0).await;
    drop((keep, barrier));
    eventually_channels(&server, 0).await;
}

#[tokio::test]
async fn a_subscription_without_an_answer_is_ended() {
    let server = RedisServer::start();
    let redis = with_timeout(&lock_user_url(server.addr()), Duration::from_millis(200));
    let keep = redis.subscribe(&claim("keep"), notifier().0).await.unwrap();
    server.pause();
    let error = redis.subscribe(&claim("k"), notifier().0).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Unavailable, Some("subscribe")));
    server.resume();
    eventually_subscribed(&server, CHANNEL, 0).await;
    let (on_release, notified) = notifier();
    let subscription = redis.subscribe(&claim("k"), on_release).await.unwrap();
    server.cmd(&["PUBLISH", CHANNEL, "0"]);
    eventually_notified(&notified, 1).await;
    drop((keep, subscription));
}

// Promise: RD5
#[tokio::test]
async fn after_a_broken_connection_every_subscriber_is_subscribed_again_and_notified() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (on_release, notified) = notifier();
    let waiters = ["a", "b", "c"].map(claim);
    let subscribing = waiters.iter().map(|waiter| redis.subscribe(waiter, on_release.clone()));
    let subscriptions: Vec<Subscription> = join_all(subscribing).await.into_iter().map(Result::unwrap).collect();
    server.kill_clients();
    eventually_notified(&notified, 3).await;
    server.restart();
    eventually_notified(&notified, 6).await;
    for key in ["a", "b", "c"] {
        server.cmd(&["PUBLISH", &format!("redisson_lock__channel:{{{key}}}"), "0"]);
    }
    eventually_notified(&notified, 9).await;
    drop(subscriptions);
    eventually_channels(&server, 0).await;
}

#[tokio::test]
async fn one_channel_that_is_refused_after_a_reconnect_does_not_stop_the_others() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"]);
    let redis = at(&format!("redis://u:p@{}", server.addr()));
    let ((notifier_a, notified_a), (notifier_b, notified_b)) = (notifier(), notifier());
    let _a = redis.subscribe(&claim("a"), notifier_a).await.unwrap();
    let _b = redis.subscribe(&claim("b"), notifier_b).await.unwrap();
    // Redis closes the connection, because one of its subscriptions is no longer allowed.
    server.cmd(&["ACL", "SETUSER", "u", "resetchannels", "&redisson_lock__channel:{b}"]);
    eventually_notified(&notified_a, 1).await;
    eventually_notified(&notified_b, 1).await;
    server.cmd(&["PUBLISH", "redisson_lock__channel:{b}", "0"]);
    eventually_notified(&notified_b, 2).await;
    let held = claim("a");
    fences(&redis, &held).await;
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: None });
}

#[tokio::test]
async fn ten_thousand_subscriptions_work() {
    let server = RedisServer::start();
    // All subscriptions are requested at the same time. On a busy machine, this might take a long time.
    let redis = with_timeout(&lock_user_url(server.addr()), 20 * SOON);
    let (on_release, notified) = notifier();
    let waiters: Vec<Claim> = (0..10_000).map(|number| claim(&format!("k{number}"))).collect();
    let subscribing = waiters.iter().map(|waiter| redis.subscribe(waiter, on_release.clone()));
    let subscriptions: Vec<Subscription> = join_all(subscribing).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(channels(&server), 10_000);
    server.kill_clients();
    let all_notified = async || notified() >= 10_000;
    bandog_testkit::eventually_async(10 * SOON, all_notified).await;
    drop(subscriptions);
    bandog_testkit::eventually_async(10 * SOON, async || channels(&server) == 0).await;
}

#[tokio::test]
async fn subscribing_fails_when_the_server_cannot_be_reached() {
    let server = RedisServer::start_with(&["--requirepass", "right"]);
    let redis = at(&format!("redis://:wrong@{}", server.addr()));
    let error = redis.subscribe(&claim("k"), notifier().0).await.unwrap_err();
    assert_eq!((error.kind(), error.verb(), error.key()), (ErrorKind::Denied, Some("subscribe"), Some(&key("k"))));
    server.kill();
    let error = redis.subscribe(&claim("k"), notifier().0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn the_second_connection_is_opened_by_the_first_subscription() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = at(&lock_user_url(wire.addr()));
    redis.ping().await.unwrap();
    assert_eq!(wire.accepted(), 1);
    let subscription = redis.subscribe(&claim("k"), notifier().0).await.unwrap();
    assert_eq!(wire.accepted(), 2);
    // A subscription may be dropped after its backend.
    drop(redis);
    bandog_testkit::eventually_async(SOON, async || wire.open() == 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(wire.accepted(), 2);
    drop(subscription);
}

#[test]
fn a_subscription_may_outlive_its_backend_and_its_runtime() {
    let server = RedisServer::start();
    let redis: Redis = backend(&server);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (on_release, notified) = notifier();
    let first = runtime();
    let old = first.block_on(redis.subscribe(&claim("k"), on_release.clone())).unwrap();
    drop(first);
    eventually(SOON, || subscribers(&server, CHANNEL) == 0);
    let second = runtime();
    let new = second.block_on(redis.subscribe(&claim("other"), on_release)).unwrap();
    // The subscriber of the first runtime is subscribed again. It is notified, because it may have missed a message.
    second.block_on(eventually_subscribed(&server, CHANNEL, 1));
    second.block_on(eventually_notified(&notified, 1));
    drop(redis);
    drop((old, new));
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn subscribers(server: &RedisServer, channel: &str) -> i64 {
    server.cmd(&["PUBSUB", "NUMSUB", channel]).array()[1].int()
}

fn channels(server: &RedisServer) -> usize {
    server.cmd(&["PUBSUB", "CHANNELS"]).array().len()
}

async fn eventually_subscribed(server: &RedisServer, channel: &str, expected: i64) {
    let check = async || Some(subscribers(server, channel)).filter(|count| *count == expected);
    bandog_testkit::eventually_async(SOON, check).await;
}

async fn eventually_channels(server: &RedisServer, number: usize) {
    bandog_testkit::eventually_async(SOON, async || channels(server) == number).await;
}

async fn eventually_notified(notified: &(impl Fn() -> usize + Sync), times: usize) {
    bandog_testkit::eventually_async(SOON, async || if notified() >= times { Ok(()) } else { Err(notified()) }).await;
}
