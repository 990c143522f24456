//! Who the clients are.

use std::time::Duration;

use bandog_core::{ErrorKind, Inspect, Leases, MAX_WAITS, Member, Pattern};
use bandog_testkit::{RedisServer, eventually_async};

use crate::help::{SOON, TTL, at, backend, claim, fences, member, operator};

const INDEX: &str = "bandog:clients";

#[tokio::test]
async fn a_row_lies_in_redis_as_it_is_documented() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let there = member(&["a b", "c"]);
    redis.announce(&there, TTL).await.unwrap();
    let key = format!("bandog:client:{}", there.id);
    assert_eq!(server.keys(), [key.as_str(), INDEX]);
    let row = [
        ("host", "shop-1"),
        ("pid", "17"),
        ("program", "till"),
        ("since", "1790000000123"),
        ("prefix", "shop:"),
        ("waits", "a b\nc"),
    ];
    assert_eq!(server.hash(&key), row.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    for key in [&key, INDEX] {
        assert!((29_000..=30_000).contains(&server.pttl(key)), "{key}: {}", server.pttl(key));
    }
    let ends: u64 = server.cmd(&["ZSCORE", INDEX, &there.id.to_string()]).text().parse().unwrap();
    let now: u64 = server.cmd(&["TIME"]).texts()[0].parse().unwrap();
    assert!((now * 1000 + 28_000..=(now + 1) * 1000 + 30_000).contains(&ends), "{ends} at {now}");
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
    // The index ends with the longest row that it told of.
    eventually_async(SOON, async || server.keys() == [INDEX]).await;
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
    assert_eq!((server.calls("keys"), server.cmd(&["ZCARD", INDEX]).int()), (0, 1000));
}

#[tokio::test]
async fn what_is_no_row_is_nobody_and_stops_nobody() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let there = member(&[]);
    redis.announce(&there, TTL).await.unwrap();
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
async fn clients_that_have_ended_are_no_members_and_are_cleared_out_of_the_index_some_at_a_time() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for number in 0..100 {
        let id = bandog_core::ClientId::random().to_string();
        server.cmd(&["ZADD", INDEX, &format!("{}", 1_000_000 + number), &id]);
    }
    let there = member(&[]);
    for left in [84 + 1, 68 + 1, 52 + 1] {
        redis.announce(&there, TTL).await.unwrap();
        assert_eq!(server.cmd(&["ZCARD", INDEX]).int(), left);
    }
    server.cmd(&["CONFIG", "RESETSTAT"]);
    assert_eq!(redis.members().await.unwrap(), [there]);
    assert_eq!(server.calls("hmget"), 1, "rows that have ended are not asked for");
}

#[tokio::test]
async fn a_client_that_may_not_write_the_index_is_announced_all_the_same_and_warned_once() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (warnings, counted) = crate::help::warnings();
    let _here = tracing::subscriber::set_default(warnings);
    for right in ["-zadd", "-zrangebyscore"] {
        server.cmd(&["ACL", "SETUSER", "locks", right]);
        let there = member(&[]);
        redis.announce(&there, TTL).await.unwrap();
        redis.announce(&there, TTL).await.unwrap();
        assert_eq!(counted(), 1, "{right}");
        let looks = operator(&server);
        assert_eq!(looks.members().await.unwrap(), []);
        assert_eq!(looks.members_of(&[there.id]).await.unwrap(), std::slice::from_ref(&there));
        redis.withdraw(there.id).await.unwrap();
        assert_eq!(server.keys(), [""; 0], "{right}");
        server.cmd(&["ACL", "SETUSER", "locks", "+zadd", "+zrangebyscore"]);
    }
    server.cmd(&["SET", INDEX, "something else"]);
    redis.announce(&member(&[]), TTL).await.unwrap();
    assert_eq!(server.cmd(&["GET", INDEX]).text(), "something else");
}

#[tokio::test]
async fn holders_are_named_where_the_index_does_not_tell_of_them_or_may_not_be_read() {
    let server = RedisServer::start();
    // A client of an earlier version, and one of this.
    let (held, holder, waiter) = (claim("k"), backend(&server), member(&["k"]));
    fences(&holder, &held).await;
    let old = Member { id: held.id.client, ..member(&[]) };
    holder.announce(&old, TTL).await.unwrap();
    server.cmd(&["ZREM", INDEX, &old.id.to_string()]);
    holder.announce(&waiter, TTL).await.unwrap();
    let looks = bandog_sync::Client::over(operator(&server)).unwrap();
    for row in [looks.show("k").await.unwrap(), looks.list(Pattern::all()).await.unwrap().remove(0)] {
        assert_eq!((row.holder, row.waiters), (Some(old.clone()), vec![waiter.clone()]));
    }
    assert_eq!(looks.holders(&["k"]).await.unwrap()[0].holder, Some(old.clone()));
    assert_eq!(looks.members().await.unwrap(), [waiter]);

    server.cmd(&["ACL", "SETUSER", "operator", "-zrange"]);
    let (ear, _hears) = bandog_testkit::Ear::of_thread("bandog_sync");
    for _ in 0..2 {
        let row = looks.show("k").await.unwrap();
        assert_eq!((row.holder, row.waiters), (Some(old.clone()), Vec::new()));
    }
    assert_eq!(ear.heard("who waits").len(), 1);
    assert_eq!(looks.members().await.unwrap_err().kind(), ErrorKind::Denied);
}

fn sorted(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by_key(|member| member.id);
    members
}
