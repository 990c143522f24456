//! Records of a user with few rights: a refused swap leaves no partial data and does not stop the others.

use std::{collections::BTreeSet, time::UNIX_EPOCH};

use bandog_core::{ErrorKind, Pattern, Records, Result, Swap, Swapped};
use bandog_redis::Redis;
use bandog_testkit::RedisServer;

use crate::{
    help::{SOON, at, claim, fences, notifier, release},
    records::{create, deletion, from, holding, key, line, must_swap, read_one, swap_one, value, with_lines},
};

/// The commands that swaps need.
const SWAPS: [&str; 10] = ["evalsha", "time", "hget", "hset", "pttl", "hexists", "set", "del", "sadd", "srem"];
/// The commands that docs/redis.md lists for records, in addition to those for locks.
const ADDED: [&str; 4] = ["hmget", "sadd", "srem", "sscan"];

#[test]
fn the_documentation_lists_exactly_the_rights_that_records_need() {
    let rules = RedisServer::record_rights();
    let asked: BTreeSet<&str> = rules.iter().map(|rule| rule.strip_prefix('+').unwrap()).collect();
    assert_eq!(asked, ADDED.into());
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_records() {
    let (_server, redis) = limited();
    let held = claim("l");
    fences(&redis, &held).await;
    let version = create(&redis, "r", "one").await;
    let swap = Swap { held: Some(holding(&held)), not_before: Some(UNIX_EPOCH), ..from("r", version, "two") };
    let version = must_swap(&redis, &with_lines(swap, &[("ok:0", "x")])).await.unwrap();
    let reading = redis.read(&[key("r")], &[holding(&held)]).await.unwrap();
    assert!(*reading.held[0].as_ref().unwrap());
    assert_eq!(redis.names(&Pattern::all()).await.unwrap(), [key("r")]);
    assert_eq!(redis.history(&key("r")).await.unwrap(), [line(("ok:0", "x"))]);
    let version = must_swap(&redis, &from("r", version, "three")).await.unwrap();
    assert_eq!(must_swap(&redis, &deletion("r", version)).await, None);
}

// Promise: RD13
#[tokio::test]
async fn a_swap_that_lacks_one_right_changes_nothing() {
    let (server, redis) = limited();
    let held = claim("l");
    fences(&redis, &held).await;
    // The commands that every swap needs, and the commands that each kind of swap needs in addition.
    let always = ["evalsha", "time", "hexists", "hget"];
    let kinds: [(&str, &[&str]); 5] = [
        ("make", &["pttl", "set", "del", "hset", "sadd"]),
        ("make with lines", &["pttl", "set", "del", "hset", "sadd"]),
        ("replace", &["hset"]),
        ("replace with lines", &["hset"]),
        ("delete", &["srem", "del"]),
    ];
    for (kind, needed) in kinds {
        for right in SWAPS {
            let old =
                must_swap(&redis, &with_lines(Swap::new(key("old"), None, "one"), &[("ok:0", "x")])).await.unwrap();
            let swap = match kind {
                "make" | "make with lines" => Swap::new(key("new"), None, "two"),
                "delete" => deletion("old", old),
                _ => from("old", old, "two"),
            };
            let lines = if kind.ends_with("lines") { &[("ok:0", "y"), ("ok:1", "y")][..] } else { &[] };
            let swap = Swap { held: Some(holding(&held)), ..with_lines(swap, lines) };
            let before = all(&server);
            rule(&server, &format!("-{right}"));
            let answer = swap_one(&redis, &swap).await;
            rule(&server, &format!("+{right}"));
            if always.contains(&right) || needed.contains(&right) {
                let error = answer.unwrap_err();
                assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Denied, false), "{right}: {error}");
                assert_eq!((error.verb(), error.key()), (Some("swap"), Some(&swap.key)), "{right}: {error}");
                assert_eq!(all(&server), before, "{kind} without {right}");
            } else {
                assert!(matches!(answer, Ok(Swapped::Done(_))), "{kind} without {right}: {answer:?}");
            }
            let ours = ["record:{old}", "record:{new}", "history:{old}", "history:{new}", "records"];
            server
                .cmd(&[&["DEL"], &ours.map(|key| format!("bandog:{key}")).each_ref().map(String::as_str)[..]].concat());
        }
    }
}

#[tokio::test]
async fn a_user_that_may_not_publish_or_subscribe_can_swap() {
    let (server, redis) = limited();
    let mut version = create(&redis, "r", "one").await;
    for right in ["-publish", "resetchannels", "-subscribe"] {
        let redis = at(&format!("redis://u:p@{}", server.addr()));
        rule(&server, right);
        let subscription = redis.subscribe_record(&key("r"), notifier().0).await.unwrap();
        assert_eq!(subscription.is_silent(), right != "-publish", "{right}");
        version = must_swap(&redis, &Swap { notifies: true, ..from("r", version, right) }).await.unwrap();
        assert_eq!(value(&redis, "r").await.unwrap(), right);
        for rule in ["+publish", "+subscribe", "&redisson_lock__channel:*"] {
            self::rule(&server, rule);
        }
    }
}

#[tokio::test]
async fn a_read_that_lacks_one_right_is_denied() {
    let (server, redis) = limited();
    create(&redis, "r", "one").await;
    for right in ["hmget", "hgetall", "sscan", "hexists"] {
        rule(&server, &format!("-{right}"));
        let mut reading = redis.read(&[key("r")], &[holding(&claim("l"))]).await.unwrap();
        for (verb, denied, error) in [
            ("read", "hmget", reading.records.remove(0).err()),
            ("read", "hexists", reading.held.remove(0).err()),
            ("names", "sscan", redis.names(&Pattern::all()).await.err()),
            ("history", "hgetall", redis.history(&key("r")).await.err()),
        ] {
            assert_eq!(error.is_some(), denied == right, "{verb} without {right}: {error:?}");
            if let Some(error) = error {
                assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some(verb)), "{error}");
            }
        }
        rule(&server, &format!("+{right}"));
    }
    rule(&server, "-time");
    assert_eq!(redis.read(&[], &[]).await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn a_user_limited_to_a_prefix_can_use_the_records_of_the_prefix() {
    let (server, redis) = limited();
    let keys = "~bandog:record:{orders:* ~bandog:history:{orders:* ~bandog:records";
    let channels = "&redisson_lock__channel:{orders:*";
    for rules in [keys, channels] {
        assert!(include_str!("../../../../docs/redis.md").contains(&format!("`{rules}`")));
    }
    server.cmd(&["ACL", "SETUSER", "u", "resetchannels", channels]);
    server.cmd(&[&["ACL", "SETUSER", "u", "resetkeys"], &keys.split(' ').collect::<Vec<_>>()[..]].concat());
    let names = ["orders:a", "stock:a", "orders:b"];
    let swaps = names.map(|name| with_lines(Swap::new(key(name), None, "one"), &[("ok:0", "x")]));
    let answers = redis.swap(&swaps).await.unwrap().each;
    let records = redis.read(&names.map(key), &[]).await.unwrap().records;
    for (name, (answer, record)) in names.iter().zip(answers.into_iter().zip(records)) {
        if *name == "stock:a" {
            out_of_reach(answer, name);
            out_of_reach(record, name);
            out_of_reach(redis.history(&key(name)).await, name);
        } else {
            assert!(matches!(answer, Ok(Swapped::Done(Some(_)))), "{answer:?}");
            assert_eq!(record.unwrap().unwrap().value, "one");
            redis.history(&key(name)).await.unwrap();
        }
    }
    out_of_reach(swap_one(&redis, &swaps[1]).await, "stock:a");
    let (on_release, notified) = notifier();
    let subscriptions = [
        redis.subscribe_record(&key("orders:c"), on_release.clone()).await,
        redis.subscribe_record(&key("stock:c"), on_release).await,
    ];
    assert_eq!(subscriptions.each_ref().map(|subscription| subscription.as_ref().unwrap().is_silent()), [false, true]);
    must_swap(&redis, &Swap { notifies: true, ..Swap::new(key("orders:c"), None, "one") }).await;
    bandog_testkit::eventually_async(SOON, async || notified() == 1).await;
    assert_eq!(server.cmd(&["EXISTS", "bandog:record:{stock:a}", "bandog:history:{stock:a}"]).int(), 0);
}

#[tokio::test]
async fn a_user_with_only_the_rights_of_locks_can_use_locks_and_read_the_time() {
    let server = RedisServer::start();
    let redis = crate::help::backend(&server);
    let held = claim("r");
    fences(&redis, &held).await;
    assert_eq!(swap_one(&redis, &Swap::new(key("r"), None, "x")).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(read_one(&redis, "r").await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(redis.read(&[], &[holding(&held)]).await.unwrap().held[0].as_ref().unwrap());
    release(&redis, &held).await.unwrap();
    assert_eq!(server.keys(), ["redisson_lock_token:{r}"]);
}

/// A server and a backend whose user has exactly the rights that locks and records need.
fn limited() -> (RedisServer, Redis) {
    let server = RedisServer::start();
    let rights = [RedisServer::least_rights(), RedisServer::record_rights()].concat();
    assert_eq!(server.cmd(&[&["ACL", "SETUSER", "u"], &rights[..], &["resetpass", ">p"]].concat()).text(), "OK");
    let redis = at(&format!("redis://u:p@{}", server.addr()));
    (server, redis)
}

fn rule(server: &RedisServer, rule: &str) {
    assert_eq!(server.cmd(&["ACL", "SETUSER", "u", rule]).text(), "OK");
}

/// All keys with their data.
fn all(server: &RedisServer) -> Vec<(String, String)> {
    let keys = server.keys().into_iter();
    keys.map(|key| (format!("{:?}", server.cmd(&["DUMP", &key])), key)).collect()
}

#[track_caller]
fn out_of_reach<T: std::fmt::Debug>(answer: Result<T>, name: &str) {
    let error = answer.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Denied, Some(&key(name))), "{error}");
}
