//! Count-down latches in Redis have the layout of Redisson's RCountDownLatch. A user with few rights leaves no partial
//! data.

use std::{
    collections::BTreeSet,
    num::{NonZeroU32, NonZeroU64},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bandog_core::{
    ClientId, ErrorKind, Key, LatchAction, LatchAnswer, LatchOperation, LatchRow, Latches, Leases, OperationId,
    Pattern, Result,
};
use bandog_redis::Redis;
use bandog_testkit::{RawRedis, RedisServer};

use crate::{
    help::{SOON, at, claim, notifier, operator, take, warnings},
    layout::subscriber,
};

/// Names of latches with their channels and the keys of their operations. The channels are as recorded from Redisson.
const NAMES: [(&str, &str, &str); 4] = [
    ("plain", "redisson_countdownlatch__channel__{plain}", "bandog:ops:{plain}"),
    ("{tag}:a", "redisson_countdownlatch__channel__{{tag}:a}", "bandog:ops:{tag}:a"),
    ("a{b}c", "redisson_countdownlatch__channel__{a{b}c}", "bandog:ops:a{b}c"),
    ("中文 name", "redisson_countdownlatch__channel__{中文 name}", "bandog:ops:{中文 name}"),
];
/// The commands that operations need.
const OPERATIONS: [&str; 7] = ["evalsha", "get", "zscore", "time", "zremrangebyscore", "zadd", "pexpire"];
/// The commands that docs/redis.md lists for latches, in addition to those for locks.
const ADDED: [&str; 3] = ["decrby", "zscore", "zremrangebyscore"];
const REMEMBER: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_latch_is_a_count_without_a_ttl_and_an_open_latch_has_no_key() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for (name, _, operations) in NAMES {
        assert_eq!(change(&redis, &set(name, 3)).await, answer(true, 3));
        assert_eq!((server.cmd(&["GET", name]).text(), server.pttl(name)), ("3", -1));
        assert_eq!(change(&redis, &down(name, 2)).await, answer(true, 1));
        assert_eq!((server.cmd(&["GET", name]).text(), server.pttl(name)), ("1", -1));
        assert_eq!(redis.latch_count(&key(name)).await.unwrap(), 1);
        assert_eq!(server.keys(), BTreeSet::from([name, operations]).into_iter().collect::<Vec<_>>());
        let opening = down(name, 1);
        assert_eq!(change(&redis, &opening).await, answer(true, 0));
        assert_eq!(server.keys(), [operations], "Redisson deletes a latch whose count is 0");
        // An operation that found an open latch is remembered, too.
        assert_eq!(change(&redis, &down(name, 1)).await, answer(false, 0));
        assert_eq!(server.keys(), [operations]);
        assert_eq!(server.cmd(&["ZCARD", operations]).int(), 4);
        let until: i64 = server.cmd(&["ZSCORE", operations, &format!("1 {}", opening.id)]).text().parse().unwrap();
        let seconds = server.cmd(&["TIME"]).texts()[0].parse::<i64>().unwrap();
        assert!((28..=31).contains(&(until / 1000 - seconds)), "{until}, {seconds}");
        assert!((28_000..=30_000).contains(&server.pttl(operations)));
        server.cmd(&["DEL", operations]);
    }
}

#[tokio::test]
async fn each_change_publishes_the_message_of_redisson() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for (name, channel, _) in NAMES {
        let mut subscription = subscriber(&server, channel);
        let mut expect =
            |message: &str| assert_eq!(subscription.read().unwrap().texts(), ["message", channel, message]);
        change(&redis, &set(name, 2)).await;
        expect("1");
        let opening = down(name, 1);
        change(&redis, &down(name, 1)).await;
        change(&redis, &opening).await;
        expect("0");
        // Redisson's waiters poll without a pause after a 0 that comes while the count is not 0. So repetitions and
        // count-downs of an open latch publish nothing.
        change(&redis, &opening).await;
        change(&redis, &down(name, 1)).await;
        change(&redis, &delete(name)).await;
        change(&redis, &set(name, 5)).await;
        expect("1");
        change(&redis, &set(name, 6)).await;
        change(&redis, &delete(name)).await;
        expect("1");
        change(&redis, &set(name, 3)).await;
        expect("1");
        change(&redis, &down(name, 4)).await;
        expect("0");
        quiet(&mut subscription);
    }
}

#[tokio::test]
async fn a_latch_of_redisson_that_was_left_at_0_is_open_but_exists() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let mut subscription = subscriber(&server, NAMES[0].1);
    for count in ["0", "-3"] {
        server.cmd(&["SET", "plain", count]);
        assert_eq!(redis.latch_count(&key("plain")).await.unwrap(), 0);
        assert_eq!(change(&redis, &set("plain", 2)).await, answer(false, 0));
        assert_eq!(server.cmd(&["GET", "plain"]).text(), count);
        assert_eq!(change(&redis, &down("plain", 1)).await, answer(true, 0));
        assert_eq!(server.keys(), ["bandog:ops:{plain}"]);
    }
    quiet(&mut subscription);
    server.cmd(&["SET", "plain", "9223372036854775807"]);
    assert_eq!(redis.latch_count(&key("plain")).await.unwrap(), i64::MAX.unsigned_abs());
}

// Promise: CL3
#[tokio::test]
async fn operations_are_forgotten_after_their_time() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let short = LatchOperation { remember: Duration::from_millis(30), ..set("k", 9) };
    change(&redis, &short).await;
    let forgotten = millis(&server) + 31;
    bandog_testkit::eventually(SOON, || millis(&server) > forgotten);
    // A longer time of another operation does not keep the first one, and a shorter one does not shorten the longer.
    let long = down("k", 1);
    change(&redis, &long).await;
    change(&redis, &LatchOperation { remember: Duration::from_millis(1), ..down("k", 1) }).await;
    assert!(server.pttl("bandog:ops:{k}") > 28_000);
    let forgotten = millis(&server) + 1;
    bandog_testkit::eventually(SOON, || millis(&server) > forgotten);
    change(&redis, &down("k", 1)).await;
    assert_eq!(server.cmd(&["ZCARD", "bandog:ops:{k}"]).int(), 2);
    assert_eq!(change(&redis, &long).await, answer(true, 6));
    assert!(server.pttl("bandog:ops:{k}") > 29 * 24 * 3_600_000, "the set shows that the number is a latch");
    // The operation that opens the latch has a short time. The longer time of another one still counts.
    change(&redis, &LatchOperation { remember: Duration::from_millis(1), ..down("k", 9) }).await;
    assert!((20_000..=30_000).contains(&server.pttl("bandog:ops:{k}")));
    change(&redis, &LatchOperation { remember: Duration::from_millis(30), ..set("short", 1) }).await;
    change(&redis, &LatchOperation { remember: Duration::from_millis(30), ..down("short", 1) }).await;
    bandog_testkit::eventually(SOON, || server.cmd(&["EXISTS", "bandog:ops:{short}"]).int() == 0);
}

/// The scan finds latches between other keys, and does not take other numbers for latches.
// Promise: CL9
#[tokio::test]
async fn latches_are_listed_beside_other_keys() {
    let server = RedisServer::start();
    let redis = operator(&server);
    server.cmd(&[
        "EVAL",
        "for i = 1, 3000 do redis.call('set', 'n:' .. i, i); redis.call('zadd', 'z:' .. i, 1, 'm') end",
        "0",
    ]);
    server.cmd(&["SET", "java", "3"]);
    for (name, _, _) in NAMES {
        change(&redis, &set(name, 2)).await;
    }
    for (name, text) in [("text", "12x"), ("zero", "0"), ("below", "-1")] {
        change(&redis, &set(name, 1)).await;
        server.cmd(&["SET", name, text]);
    }
    change(&redis, &set("gone", 1)).await;
    server.cmd(&["DEL", "gone"]);
    let listed = |rows: Vec<LatchRow>| rows.into_iter().map(|row| (row.name, row.count)).collect::<Vec<_>>();
    let all = listed(redis.list_latches(&Pattern::all()).await.unwrap());
    let mut names = NAMES.map(|(name, _, _)| (name.to_owned(), 2));
    names.sort();
    assert_eq!(all, names);
    assert_eq!(listed(redis.list_latches(&Pattern::new("pl*")).await.unwrap()), [("plain".to_owned(), 2)]);
    // A latch of Redisson is listed as soon as bandog has counted it down.
    change(&redis, &down("java", 1)).await;
    assert_eq!(listed(redis.list_latches(&Pattern::new("java")).await.unwrap()), [("java".to_owned(), 2)]);
    assert_eq!(server.calls("keys"), 0);
    // Latches that the user may not read are left out.
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~plain", "+@all"]);
    let limited = at(&format!("redis://u:p@{}", server.addr()));
    assert_eq!(listed(limited.list_latches(&Pattern::all()).await.unwrap()), [("plain".to_owned(), 2)]);
}

// Promise: CL7
#[tokio::test]
async fn a_key_that_is_not_a_latch_is_denied_and_never_changed() {
    let server = RedisServer::start();
    let redis = operator(&server);
    server.cmd(&["SET", "text", "12x"]);
    server.cmd(&["SET", "huge", "99999999999999999999"]);
    server.cmd(&["RPUSH", "list", "1"]);
    take(&redis, &claim("lock")).await.unwrap();
    for name in ["text", "list", "lock"] {
        let before = server.cmd(&["DUMP", name]);
        for operation in [set(name, 1), down(name, 1), delete(name)] {
            let error = redis.change_latch(&operation).await.unwrap_err();
            assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Denied, false), "{error}");
            assert_eq!((error.key(), error.verb()), (Some(&key(name)), Some(operation.action.verb())));
        }
        assert_eq!(redis.latch_count(&key(name)).await.unwrap_err().kind(), ErrorKind::Denied, "{name}");
        assert_eq!(server.cmd(&["DUMP", name]), before);
        assert_eq!(server.cmd(&["EXISTS", &format!("bandog:ops:{{{name}}}")]).int(), 0);
    }
    assert_eq!(redis.latch_count(&key("huge")).await.unwrap_err().kind(), ErrorKind::Denied);
    // A lock cannot take the name of a latch.
    change(&redis, &set("latch", 1)).await;
    assert_eq!(take(&redis, &claim("latch")).await.unwrap_err().kind(), ErrorKind::Denied);
    let limit = redis.set_limit(&key("latch"), NonZeroU32::new(9).unwrap()).await;
    assert_eq!(limit.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(redis.latch_count(&key("latch")).await.unwrap(), 1);
    // A foreign key under the name of the operations is not changed, and the latch stays as it was.
    server.cmd(&["SET", "bandog:ops:{other}", "text"]);
    assert_eq!(redis.change_latch(&set("other", 1)).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(server.cmd(&["EXISTS", "other"]).int(), 0);
}

#[test]
fn the_documentation_lists_exactly_the_rights_that_latches_need() {
    let rules = RedisServer::latch_rights();
    let asked: BTreeSet<&str> = rules.iter().filter_map(|rule| rule.strip_prefix('+')).collect();
    assert_eq!(asked, ADDED.into());
    assert!(rules.contains(&"&redisson_countdownlatch__channel__*"));
}

#[tokio::test]
async fn an_operation_that_lacks_one_right_changes_nothing() {
    let (server, redis) = limited();
    let number = |number| NonZeroU64::new(number).unwrap();
    let cases = [
        (LatchAction::Set(number(2)), "set"),
        (LatchAction::CountDown(number(1)), "decrby"),
        (LatchAction::CountDown(number(5)), "del"),
        (LatchAction::Delete, "del"),
    ];
    for (action, command) in cases {
        // Only an operation that opens the latch reads how long other operations are remembered.
        let counts = (command == "del").then_some("zcount");
        for right in OPERATIONS.iter().copied().chain([command]).chain(counts) {
            server.cmd(&["FLUSHALL"]);
            if command != "set" {
                change(&redis, &set("k", 3)).await;
            }
            let before = (server.cmd(&["GET", "k"]), server.cmd(&["ZRANGE", "bandog:ops:{k}", "0", "-1"]));
            let operation = operation("k", action);
            rule(&server, &format!("-{right}"));
            let error = redis.change_latch(&operation).await.unwrap_err();
            rule(&server, &format!("+{right}"));
            assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Denied, false), "{right}: {error}");
            let after = (server.cmd(&["GET", "k"]), server.cmd(&["ZRANGE", "bandog:ops:{k}", "0", "-1"]));
            assert_eq!(after, before, "{command} without {right}");
            assert!(change(&redis, &operation).await.has_changed);
        }
    }
}

#[tokio::test]
async fn a_user_that_may_not_publish_or_subscribe_can_use_latches() {
    let (server, redis) = limited();
    let (warnings, counted) = warnings();
    let _subscriber = tracing::subscriber::set_default(warnings);
    rule(&server, "-publish");
    assert_eq!(change(&redis, &set("k", 1)).await, answer(true, 1));
    assert_eq!(counted(), 1);
    let subscription = redis.subscribe_latch(&key("k"), notifier().0).await.unwrap();
    assert!(!subscription.is_silent());
    rule(&server, "+publish");
    for channels in ["resetchannels", "&redisson_lock__channel:*"] {
        rule(&server, channels);
    }
    let redis = at(&format!("redis://u:p@{}", server.addr()));
    assert!(redis.subscribe_latch(&key("k"), notifier().0).await.unwrap().is_silent());
    assert_eq!(change(&redis, &down("k", 1)).await, answer(true, 0));
}

// Promise: CL2
#[tokio::test]
async fn a_subscriber_is_notified_of_messages_of_redisson() {
    let (server, redis) = limited();
    for (name, channel, _) in NAMES {
        let (on_open, notified) = notifier();
        let subscription = redis.subscribe_latch(&key(name), on_open).await.unwrap();
        for number in 1..=2 {
            server.cmd(&["PUBLISH", channel, "0"]);
            bandog_testkit::eventually_async(SOON, async || notified() == number).await;
        }
        drop(subscription);
        bandog_testkit::eventually_async(SOON, async || server.cmd(&["PUBLISH", channel, "0"]).int() == 0).await;
    }
}

/// A server and a backend whose user has exactly the rights that locks and latches need.
fn limited() -> (RedisServer, Redis) {
    let server = RedisServer::start();
    let rights = [RedisServer::least_rights(), RedisServer::latch_rights()].concat();
    assert_eq!(server.cmd(&[&["ACL", "SETUSER", "u"], &rights[..], &["resetpass", ">p"]].concat()).text(), "OK");
    let redis = at(&format!("redis://u:p@{}", server.addr()));
    (server, redis)
}

fn rule(server: &RedisServer, rule: &str) {
    assert_eq!(server.cmd(&["ACL", "SETUSER", "u", rule]).text(), "OK");
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn answer(has_changed: bool, count: u64) -> LatchAnswer {
    LatchAnswer { has_changed, count }
}

async fn change(redis: &Redis, operation: &LatchOperation) -> LatchAnswer {
    let changed: Result<_> = redis.change_latch(operation).await;
    changed.unwrap().unwrap()
}

/// A new operation.
fn operation(name: &str, action: LatchAction) -> LatchOperation {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let id = OperationId { client: ClientId::random(), number: NUMBER.fetch_add(1, Ordering::Relaxed) };
    LatchOperation { key: key(name), id, action, remember: REMEMBER, forget_before: 0 }
}

pub(crate) fn set(name: &str, count: u64) -> LatchOperation {
    operation(name, LatchAction::Set(NonZeroU64::new(count).unwrap()))
}

pub(crate) fn down(name: &str, number: u64) -> LatchOperation {
    operation(name, LatchAction::CountDown(NonZeroU64::new(number).unwrap()))
}

pub(crate) fn delete(name: &str) -> LatchOperation {
    operation(name, LatchAction::Delete)
}

/// The server's time in milliseconds since 1970.
fn millis(server: &RedisServer) -> u64 {
    let parts = server.cmd(&["TIME"]).texts().into_iter().map(|part| part.parse::<u64>().unwrap()).collect::<Vec<_>>();
    parts[0] * 1_000 + parts[1] / 1_000
}

/// Asserts that no further message comes.
fn quiet(subscription: &mut RawRedis) {
    subscription.set_patience(Duration::from_millis(20)).unwrap();
    assert!(subscription.read().is_err(), "a message without a change");
}
