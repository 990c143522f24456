//! Who listens hears every release, and nothing is left on the server when nobody listens any more.

use std::time::Duration;

use bandog_core::{ErrorKind, Key, Leases, Released, Subscription};
use bandog_redis::Redis;
use bandog_testkit::{RedisServer, eventually};
use futures_util::future::{join_all, select};

use crate::help::{SOON, at, backend, claim, fences, hasty, least, notifier, release};

const CHANNEL: &str = "redisson_lock__channel:{k}";

#[tokio::test]
async fn a_bell_is_armed_when_listen_has_answered() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (ring, rung) = notifier();
    let bell = redis.subscribe(&key("k"), ring).await.unwrap();
    assert!(!bell.is_silent());
    assert_eq!(heard(&server, CHANNEL), 1);
    for (told, message) in ["0", "1", "other"].into_iter().enumerate() {
        server.cmd(&["PUBLISH", CHANNEL, message]);
        eventually_rung(&rung, told + 1).await;
    }
    server.cmd(&["PUBLISH", "redisson_lock__channel:{other}", "0"]);
    drop(bell);
    eventually_heard(&server, CHANNEL, 0).await;
    assert_eq!(rung(), 3);
}

#[tokio::test]
async fn a_release_tells_how_many_others_heard_it() {
    let server = RedisServer::start();
    let (redis, other) = (backend(&server), backend(&server));
    let held = claim("k");
    let (ring, rung) = notifier();
    let ours = redis.subscribe(&held.key, ring.clone()).await.unwrap();
    fences(&redis, &held).await;
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
    let theirs = other.subscribe(&held.key, ring).await.unwrap();
    fences(&redis, &held).await;
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(1) });
    eventually_rung(&rung, 3).await;
    drop(ours);
    eventually_heard(&server, CHANNEL, 1).await;
    fences(&redis, &held).await;
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(1) });
    // Whoever listens no more when the message comes is not rung.
    eventually_rung(&rung, 4).await;
    drop(theirs);
}

#[tokio::test]
async fn listeners_of_one_key_share_one_subscription() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (ring, rung) = notifier();
    let key = key("k");
    let listening = (0..10).map(|_| redis.subscribe(&key, ring.clone()));
    let mut bells: Vec<Subscription> = join_all(listening).await.into_iter().map(Result::unwrap).collect();
    assert_eq!((heard(&server, CHANNEL), server.calls("subscribe")), (1, 1));
    let last = bells.pop();
    drop(bells);
    server.cmd(&["PUBLISH", CHANNEL, "0"]);
    eventually_rung(&rung, 1).await;
    assert_eq!((heard(&server, CHANNEL), server.calls("unsubscribe")), (1, 0));
    drop(last);
    eventually_heard(&server, CHANNEL, 0).await;
}

#[tokio::test]
async fn a_listen_that_is_dropped_midway_leaves_no_subscription() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = at(&least(wire.addr()));
    let keep = redis.subscribe(&key("keep"), notifier().0).await.unwrap();
    wire.delay(Duration::from_millis(20));
    let wanted = key("k");
    for after in [0, 1, 10, 30, 60] {
        let listening = Box::pin(redis.subscribe(&wanted, notifier().0));
        let late = Box::pin(tokio::time::sleep(Duration::from_millis(after)));
        drop(select(listening, late).await);
    }
    let barrier = redis.subscribe(&key("barrier"), notifier().0).await.unwrap();
    eventually_heard(&server, CHANNEL, 0).await;
    drop((keep, barrier));
    eventually_channels(&server, 0).await;
}

#[tokio::test]
async fn a_subscription_without_an_answer_is_taken_back() {
    let server = RedisServer::start();
    let redis = hasty(&least(server.addr()), Duration::from_millis(200));
    let keep = redis.subscribe(&key("keep"), notifier().0).await.unwrap();
    server.pause();
    let error = redis.subscribe(&key("k"), notifier().0).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Unavailable, Some("subscribe")));
    server.resume();
    eventually_heard(&server, CHANNEL, 0).await;
    let (ring, rung) = notifier();
    let bell = redis.subscribe(&key("k"), ring).await.unwrap();
    server.cmd(&["PUBLISH", CHANNEL, "0"]);
    eventually_rung(&rung, 1).await;
    drop((keep, bell));
}

#[tokio::test]
async fn after_a_broken_connection_everybody_is_rung_and_hears_again() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (ring, rung) = notifier();
    let keys = ["a", "b", "c"].map(key);
    let listening = keys.iter().map(|key| redis.subscribe(key, ring.clone()));
    let bells: Vec<Subscription> = join_all(listening).await.into_iter().map(Result::unwrap).collect();
    server.kill_clients();
    eventually_rung(&rung, 3).await;
    server.restart();
    eventually_rung(&rung, 6).await;
    for key in ["a", "b", "c"] {
        server.cmd(&["PUBLISH", &format!("redisson_lock__channel:{{{key}}}"), "0"]);
    }
    eventually_rung(&rung, 9).await;
    drop(bells);
    eventually_channels(&server, 0).await;
}

#[tokio::test]
async fn one_channel_that_is_refused_anew_does_not_stop_the_others() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"]);
    let redis = at(&format!("redis://u:p@{}", server.addr()));
    let ((ring_a, rung_a), (ring_b, rung_b)) = (notifier(), notifier());
    let _a = redis.subscribe(&key("a"), ring_a).await.unwrap();
    let _b = redis.subscribe(&key("b"), ring_b).await.unwrap();
    // Redis closes the connection itself, since it has a subscription that is not allowed any more.
    server.cmd(&["ACL", "SETUSER", "u", "resetchannels", "&redisson_lock__channel:{b}"]);
    eventually_rung(&rung_a, 1).await;
    eventually_rung(&rung_b, 1).await;
    server.cmd(&["PUBLISH", "redisson_lock__channel:{b}", "0"]);
    eventually_rung(&rung_b, 2).await;
    let held = claim("a");
    fences(&redis, &held).await;
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: None });
}

#[tokio::test]
async fn ten_thousand_bells_are_nothing_special() {
    let server = RedisServer::start();
    // One task asks for all of them at once, which a busy machine may need its time for.
    let redis = hasty(&least(server.addr()), 20 * SOON);
    let (ring, rung) = notifier();
    let keys: Vec<Key> = (0..10_000).map(|number| key(&format!("k{number}"))).collect();
    let listening = keys.iter().map(|key| redis.subscribe(key, ring.clone()));
    let bells: Vec<Subscription> = join_all(listening).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(channels(&server), 10_000);
    server.kill_clients();
    let all_rung = async || rung() >= 10_000;
    bandog_testkit::eventually_async(10 * SOON, all_rung).await;
    drop(bells);
    bandog_testkit::eventually_async(10 * SOON, async || channels(&server) == 0).await;
}

#[tokio::test]
async fn who_cannot_be_reached_cannot_be_listened_to() {
    let server = RedisServer::start_with(&["--requirepass", "right"]);
    let redis = at(&format!("redis://:wrong@{}", server.addr()));
    let error = redis.subscribe(&key("k"), notifier().0).await.unwrap_err();
    assert_eq!((error.kind(), error.verb(), error.key()), (ErrorKind::Denied, Some("subscribe"), Some(&key("k"))));
    server.kill();
    let error = redis.subscribe(&key("k"), notifier().0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn nothing_is_dialled_for_bells_until_somebody_listens() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = at(&least(wire.addr()));
    redis.ping().await.unwrap();
    assert_eq!(wire.accepted(), 1);
    let bell = redis.subscribe(&key("k"), notifier().0).await.unwrap();
    assert_eq!(wire.accepted(), 2);
    // A bell that outlives its backend is only something to drop.
    drop(redis);
    bandog_testkit::eventually_async(SOON, async || wire.open() == 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(wire.accepted(), 2);
    drop(bell);
}

#[test]
fn a_bell_may_outlive_its_backend_and_its_runtime() {
    let server = RedisServer::start();
    let redis: Redis = backend(&server);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ring, rung) = notifier();
    let first = runtime();
    let old = first.block_on(redis.subscribe(&key("k"), ring.clone())).unwrap();
    drop(first);
    eventually(SOON, || heard(&server, CHANNEL) == 0);
    let second = runtime();
    let new = second.block_on(redis.subscribe(&key("other"), ring)).unwrap();
    // The listener of the runtime that ended hears again, and is told that it may have missed something.
    second.block_on(eventually_heard(&server, CHANNEL, 1));
    second.block_on(eventually_rung(&rung, 1));
    drop(redis);
    drop((old, new));
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn heard(server: &RedisServer, channel: &str) -> i64 {
    server.cmd(&["PUBSUB", "NUMSUB", channel]).array()[1].int()
}

fn channels(server: &RedisServer) -> usize {
    server.cmd(&["PUBSUB", "CHANNELS"]).array().len()
}

async fn eventually_heard(server: &RedisServer, channel: &str, by: i64) {
    let check = async || Some(heard(server, channel)).filter(|heard| *heard == by);
    bandog_testkit::eventually_async(SOON, check).await;
}

async fn eventually_channels(server: &RedisServer, number: usize) {
    bandog_testkit::eventually_async(SOON, async || channels(server) == number).await;
}

async fn eventually_rung(rung: &(impl Fn() -> usize + Sync), times: usize) {
    bandog_testkit::eventually_async(SOON, async || if rung() >= times { Ok(()) } else { Err(rung()) }).await;
}
