//! Who the clients are.

use std::time::Duration;

use bandog_core::{ErrorKind, Inspect, Leases, MAX_WAITS, Member, Pattern};
use bandog_testkit::{RedisServer, eventually_async};

use crate::help::{SOON, TTL, at, backend, claim, fences, member, operator};

#[tokio::test]
async fn a_row_lies_in_redis_as_it_is_documented() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let there = member(&["a b", "c"]);
    redis.announce(&there, TTL).await.unwrap();
    let key = format!("bandog:client:{}", there.id);
    assert_eq!(server.keys(), [key.as_str()]);
    let row = [
        ("host", "shop-1"),
        ("pid", "17"),
        ("program", "till"),
        ("since", "1790000000123"),
        ("prefix", "shop:"),
        ("waits", "a b\nc"),
    ];
    assert_eq!(server.hash(&key), row.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    assert!((29_000..=30_000).contains(&server.pttl(&key)), "{}", server.pttl(&key));
}

#[tokio::test]
async fn who_announced_itself_is_a_member_as_it_said_last_until_it_withdraws() {
    let server = RedisServer::start();
    let (redis, other) = (backend(&server), operator(&server));
    let names: Vec<String> = (0..MAX_WAITS).map(|number| format!("{number}{}", "中".repeat(340))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut first, second) = (member(&["a"]), member(&names));
    redis.announce(&first, TTL).await.unwrap();
    redis.announce(&second, TTL).await.unwrap();
    assert_eq!(sorted(other.members().await.unwrap()), sorted(vec![first.clone(), second.clone()]));
    first.waits.clear();
    redis.announce(&first, Duration::from_millis(300)).await.unwrap();
    assert!(other.members().await.unwrap().contains(&first));
    assert!(server.pttl(&format!("bandog:client:{}", first.id)) <= 300);
    other.withdraw(second.id).await.unwrap();
    other.withdraw(second.id).await.unwrap();
    eventually_async(SOON, async || other.members().await.unwrap().is_empty()).await;
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn a_thousand_members_are_found_without_asking_for_all_keys() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let everybody: Vec<Member> = (0..1000).map(|_| member(&["a"])).collect();
    for one in &everybody {
        redis.announce(one, TTL).await.unwrap();
    }
    fences(&redis, &claim("a")).await;
    assert_eq!(sorted(redis.members().await.unwrap()), sorted(everybody));
    assert_eq!(redis.list(&Pattern::all()).await.unwrap().len(), 1, "a row is no lock");
    assert_eq!(server.calls("keys"), 0);
}

#[tokio::test]
async fn what_is_no_row_is_nobody_and_stops_nobody() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let there = member(&[]);
    redis.announce(&there, TTL).await.unwrap();
    let id = || format!("bandog:client:{}", bandog_core::ClientId::random());
    server.cmd(&["SET", &id(), "text"]);
    server.cmd(&["HSET", &id(), "host", "alone"]);
    server.cmd(&["HSET", &id(), "host", "h", "pid", "x", "program", "p", "since", "1", "waits", ""]);
    server.cmd(&["HSET", "bandog:client:nobody", "host", "h", "pid", "1", "program", "p", "since", "1", "waits", ""]);
    server.cmd(&["HSET", "bandog:client:", "host", "h"]);
    assert_eq!(redis.members().await.unwrap(), [there]);
}

#[tokio::test]
async fn a_row_that_is_something_else_is_left_alone() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let there = member(&[]);
    let key = format!("bandog:client:{}", there.id);
    server.cmd(&["SET", &key, "text"]);
    let error = redis.announce(&there, TTL).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("announce")));
    assert_eq!((server.cmd(&["GET", &key]).text(), server.pttl(&key)), ("text", -1));
}

#[tokio::test]
async fn forgotten_scripts_do_not_stop_an_announcement() {
    let server = RedisServer::start();
    let redis = operator(&server);
    redis.ping().await.unwrap();
    server.flush_scripts();
    let there = member(&[]);
    redis.announce(&there, TTL).await.unwrap();
    assert_eq!(redis.members().await.unwrap(), [there]);
}

#[tokio::test]
async fn a_full_memory_refuses_a_row_whole() {
    let server = RedisServer::start();
    let redis = backend(&server);
    redis.ping().await.unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = redis.announce(&member(&[]), TTL).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{error}");
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn members_out_of_reach_are_not_there() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (mine, theirs) = (member(&[]), member(&[]));
    redis.announce(&mine, TTL).await.unwrap();
    redis.announce(&theirs, TTL).await.unwrap();
    let pattern = format!("~bandog:client:{}", mine.id);
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", &pattern, "+@all"]);
    let limited = at(&format!("redis://u:p@{}", server.addr()));
    assert_eq!(limited.members().await.unwrap(), [mine]);
    for right in ["-hmget", "-scan"] {
        server.cmd(&["ACL", "SETUSER", "u", right]);
        let error = limited.members().await.unwrap_err();
        assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("members")), "{right}");
    }
}

fn sorted(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by_key(|member| member.id);
    members
}
