//! The registry of clients.

use std::time::Duration;

use bandog_core::{ErrorKind, Inspect, Leases, MAX_WAITS, Member, Pattern};
use bandog_testkit::{RedisServer, eventually_async};

use crate::help::{SOON, TTL, at, backend, claim, fences, member, operator};

const INDEX: &str = "bandog:clients";

#[tokio::test]
async fn a_row_in_redis_has_the_documented_format() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let registered = member(&["a b", "c"]);
    redis.register(&registered, TTL).await.unwrap();
    let key = format!("bandog:client:{}", registered.id);
    assert_eq!(server.keys(), [key.as_str(), INDEX]);
    let row = [
        ("host", "shop-1"),
        ("pid", "17"),
        ("program", "till"),
        ("since", "1790000000123"),
        ("prefix", "shop:"),
        ("waits", "a b\nc"),
        ("blocked", ""),
    ];
    assert_eq!(server.hash(&key), row.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    for key in [&key, INDEX] {
        assert!((29_000..=30_000).contains(&server.pttl(key)), "{key}: {}", server.pttl(key));
    }
    let ends: u64 = server.cmd(&["ZSCORE", INDEX, &registered.id.to_string()]).text().parse().unwrap();
    let now: u64 = server.cmd(&["TIME"]).texts()[0].parse().unwrap();
    assert!((now * 1000 + 28_000..=(now + 1) * 1000 + 30_000).contains(&ends), "{ends} at {now}");
}

#[tokio::test]
async fn a_registered_client_is_a_member_with_its_last_row_until_it_deregisters() {
    let server = RedisServer::start();
    let (redis, other) = (backend(&server), operator(&server));
    let names: Vec<String> = (0..MAX_WAITS).map(|number| format!("{number}{}", "中".repeat(340))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut first, second) = (member(&["a"]), member(&names));
    redis.register(&first, TTL).await.unwrap();
    redis.register(&second, TTL).await.unwrap();
    assert_eq!(sorted(other.members().await.unwrap()), sorted(vec![first.clone(), second.clone()]));
    first.waits.clear();
    redis.register(&first, Duration::from_millis(300)).await.unwrap();
    assert!(other.members().await.unwrap().contains(&first));
    assert!(server.pttl(&format!("bandog:client:{}", first.id)) <= 300);
    other.deregister(second.id).await.unwrap();
    other.deregister(second.id).await.unwrap();
    eventually_async(SOON, async || other.members().await.unwrap().is_empty()).await;
    // The index expires together with the client that has the longest ttl.
    eventually_async(SOON, async || server.keys() == [INDEX]).await;
}

#[tokio::test]
async fn a_thousand_members_are_found_without_a_scan_of_all_keys() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let all: Vec<Member> = (0..1000).map(|_| member(&["a"])).collect();
    for one in &all {
        redis.register(one, TTL).await.unwrap();
    }
    fences(&redis, &claim("a")).await;
    assert_eq!(sorted(redis.members().await.unwrap()), sorted(all));
    assert_eq!(redis.list(&Pattern::all()).await.unwrap().len(), 1, "rows of the registry were listed as locks");
    assert_eq!((server.calls("keys"), server.cmd(&["ZCARD", INDEX]).int()), (0, 1000));
}

#[tokio::test]
async fn an_invalid_row_gives_no_member_and_does_not_affect_others() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let registered = member(&[]);
    redis.register(&registered, TTL).await.unwrap();
    let id = || {
        let id = bandog_core::ClientId::random().to_string();
        server.cmd(&["ZADD", INDEX, "inf", &id]);
        format!("bandog:client:{id}")
    };
    server.cmd(&["SET", &id(), "text"]);
    server.cmd(&["HSET", &id(), "host", "alone"]);
    server.cmd(&["HSET", &id(), "host", "h", "pid", "x", "program", "p", "since", "1", "waits", ""]);
    server.cmd(&["HSET", "bandog:client:nobody", "host", "h", "pid", "1", "program", "p", "since", "1", "waits", ""]);
    server.cmd(&["HSET", "bandog:client:", "host", "h"]);
    server.cmd(&["ZADD", INDEX, "inf", "nobody", "inf", "", "inf", &bandog_core::ClientId::random().to_string()]);
    assert_eq!(redis.members().await.unwrap(), [registered]);
}

#[tokio::test]
async fn a_row_of_another_type_stays_unchanged() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let registered = member(&[]);
    let key = format!("bandog:client:{}", registered.id);
    server.cmd(&["SET", &key, "text"]);
    let error = redis.register(&registered, TTL).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("register")));
    assert_eq!((server.cmd(&["GET", &key]).text(), server.pttl(&key)), ("text", -1));
}

#[tokio::test]
async fn lost_scripts_do_not_stop_a_registration() {
    let server = RedisServer::start();
    let redis = operator(&server);
    redis.ping().await.unwrap();
    server.flush_scripts();
    let registered = member(&[]);
    redis.register(&registered, TTL).await.unwrap();
    assert_eq!(redis.members().await.unwrap(), [registered]);
}

#[tokio::test]
async fn a_full_server_refuses_a_registration_and_keeps_no_part_of_it() {
    let server = RedisServer::start();
    let redis = backend(&server);
    redis.ping().await.unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = redis.register(&member(&[]), TTL).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{error}");
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn members_that_the_user_may_not_read_are_left_out() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (mine, theirs) = (member(&[]), member(&[]));
    redis.register(&mine, TTL).await.unwrap();
    redis.register(&theirs, TTL).await.unwrap();
    let pattern = format!("~bandog:client:{}", mine.id);
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", &pattern, "~bandog:clients", "+@all"]);
    let limited = at(&format!("redis://u:p@{}", server.addr()));
    assert_eq!(limited.members().await.unwrap(), [mine]);
    for right in ["-hmget", "-zrange"] {
        server.cmd(&["ACL", "SETUSER", "u", right]);
        let error = limited.members().await.unwrap_err();
        assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("members")), "{right}");
    }
}

#[tokio::test]
async fn expired_clients_are_not_members_and_are_removed_from_the_index_in_steps() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for number in 0..100 {
        let id = bandog_core::ClientId::random().to_string();
        server.cmd(&["ZADD", INDEX, &format!("{}", 1_000_000 + number), &id]);
    }
    let registered = member(&[]);
    for left in [84 + 1, 68 + 1, 52 + 1] {
        redis.register(&registered, TTL).await.unwrap();
        assert_eq!(server.cmd(&["ZCARD", INDEX]).int(), left);
    }
    server.cmd(&["CONFIG", "RESETSTAT"]);
    assert_eq!(redis.members().await.unwrap(), [registered]);
    assert_eq!(server.calls("hmget"), 1, "expired rows were requested");
}

#[tokio::test]
async fn a_client_that_may_not_write_the_index_is_registered_and_warned_once() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (warnings, counted) = crate::help::warnings();
    let _subscriber = tracing::subscriber::set_default(warnings);
    for right in ["-zadd", "-zrangebyscore"] {
        server.cmd(&["ACL", "SETUSER", "locks", right]);
        let registered = member(&[]);
        redis.register(&registered, TTL).await.unwrap();
        redis.register(&registered, TTL).await.unwrap();
        assert_eq!(counted(), 1, "{right}");
        let reader = operator(&server);
        assert_eq!(reader.members().await.unwrap(), []);
        assert_eq!(reader.members_of(&[registered.id]).await.unwrap(), std::slice::from_ref(&registered));
        redis.deregister(registered.id).await.unwrap();
        assert_eq!(server.keys(), [""; 0], "{right}");
        server.cmd(&["ACL", "SETUSER", "locks", "+zadd", "+zrangebyscore"]);
    }
    server.cmd(&["SET", INDEX, "something else"]);
    redis.register(&member(&[]), TTL).await.unwrap();
    assert_eq!(server.cmd(&["GET", INDEX]).text(), "something else");
}

#[tokio::test]
async fn holders_are_named_if_they_are_not_in_the_index_or_the_index_may_not_be_read() {
    let server = RedisServer::start();
    // The holder is a client of an earlier version, which is not in the index. The waiter is a client of this version.
    let (held, holder, waiter) = (claim("k"), backend(&server), member(&["k"]));
    fences(&holder, &held).await;
    let old = Member { id: held.id.client, ..member(&[]) };
    holder.register(&old, TTL).await.unwrap();
    server.cmd(&["ZREM", INDEX, &old.id.to_string()]);
    holder.register(&waiter, TTL).await.unwrap();
    let operator_client = bandog_sync::Client::over(operator(&server)).unwrap();
    for row in [operator_client.show("k").await.unwrap(), operator_client.list(Pattern::all()).await.unwrap().remove(0)]
    {
        assert_eq!((row.member(), &row.waiters[..]), (Some(&old), std::slice::from_ref(&waiter)));
    }
    assert_eq!(operator_client.holders(&["k"]).await.unwrap()[0].member(), Some(&old));
    assert_eq!(operator_client.members().await.unwrap(), [waiter]);

    server.cmd(&["ACL", "SETUSER", "operator", "-zrange"]);
    let (log, _guard) = bandog_testkit::LogCapture::of_thread("bandog_sync");
    for _ in 0..2 {
        let row = operator_client.show("k").await.unwrap();
        assert_eq!((row.member(), &row.waiters[..]), (Some(&old), &[][..]));
    }
    assert_eq!(log.lines_with("may not read the registry").len(), 1);
    assert_eq!(operator_client.members().await.unwrap_err().kind(), ErrorKind::Denied);
}

fn sorted(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by_key(|member| member.id);
    members
}
