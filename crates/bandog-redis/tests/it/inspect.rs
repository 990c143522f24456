//! Inspection of locks.

use std::time::Duration;

use bandog_core::{ErrorKind, Holder, Inspect, Key, Kind, Leases, Pattern, Row};
use bandog_redis::Redis;
use bandog_sync::Client;
use bandog_testkit::RedisServer;

use crate::help::{JAVA, at, backend, claim, ends, fences, operator};

#[tokio::test]
async fn show_returns_the_owner_the_fence_and_the_ttl_of_our_hold() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let key = Key::new("k").unwrap();
    assert_eq!(redis.show(&key).await.unwrap(), Row::free(&key));
    let held = claim("k");
    let block = fences(&redis, &held).await;
    let row = redis.show(&key).await.unwrap();
    assert_eq!((row.name.as_str(), row.kind), ("k", Some(Kind::Mutex)));
    let [holder] = &row.holders[..] else { panic!("{row:?}") };
    let (first, last) = ends(&block);
    assert_eq!(holder.owner, Some(held.id.to_string()));
    assert_eq!((holder.fence, holder.last_fence), (Some(first), Some(last)));
    let ttl = holder.ttl.unwrap();
    assert!(ttl > Duration::from_secs(29) && ttl <= Duration::from_secs(30), "{ttl:?}");
}

#[tokio::test]
async fn show_returns_a_hold_of_redisson_without_a_fence() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let key = Key::new("k").unwrap();
    server.cmd(&["HSET", "k", JAVA, "2"]);
    server.cmd(&["SET", "redisson_lock_token:{k}", "41"]);
    let row = redis.show(&key).await.unwrap();
    let java = Holder { kind: Some(Kind::Mutex), ..Holder::new(JAVA) };
    assert_eq!(row, Row::held(&key, Some(Kind::Mutex), java));
    server.cmd(&["PEXPIRE", "k", "5000"]);
    assert!(redis.show(&key).await.unwrap().holders[0].ttl.unwrap() <= Duration::from_secs(5));
}

#[tokio::test]
async fn show_returns_a_hold_of_any_owner() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let key = Key::new("k").unwrap();
    server.cmd(&["EVAL", "return redis.call('hset', KEYS[1], '\\255', 'x')", "1", "k"]);
    assert_eq!(redis.show(&key).await.unwrap(), Row::held(&key, None, Holder::default()));
    // A read-write lock has a field for its mode in addition to the fields of its owners. A reader of ours whose holds
    // have no keys is dead.
    server.cmd(&["DEL", "k"]);
    server.cmd(&["HSET", "k", "mode", "read", &claim("k").id.to_string(), "1"]);
    assert_eq!(redis.show(&key).await.unwrap(), Row::free(&key));
    server.cmd(&["HSET", "k", JAVA, "1"]);
    server.cmd(&["SET", &format!("{{k}}:{JAVA}:rwlock_timeout:1"), "1", "PX", "60000"]);
    let row = redis.show(&key).await.unwrap();
    assert_eq!((row.kind, row.owner(), row.fence()), (Some(Kind::Read), Some(JAVA), None));
    assert_eq!(listed(&redis, "*").await, ["k"]);
}

#[tokio::test]
async fn show_refuses_a_key_that_is_not_a_lock() {
    let server = RedisServer::start();
    server.cmd(&["SET", "k", "text"]);
    let error = operator(&server).show(&Key::new("k").unwrap()).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("show")));
    assert!(error.to_string().contains("\"k\"") && error.to_string().contains("not a lock"), "{error}");
}

#[tokio::test]
async fn list_finds_every_lock_and_nothing_else() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let mut names = vec!["a*b".to_owned(), "a[b]".into(), "ab".into(), "中文 name".into(), "back\\slash".into()];
    names.extend((0..1500).map(|number| format!("many:{number}")));
    for name in &names {
        fences(&redis, &claim(name)).await;
    }
    server.cmd(&["HSET", "java", JAVA, "1"]);
    server.cmd(&["HSET", "no-lock", "field", "value"]);
    server.cmd(&["RPUSH", "list", "x"]);
    server.cmd(&["EVAL", "for i = 1, 100000 do redis.call('hset', 'huge', i, i) end", "0"]);
    names.push("java".into());
    names.sort();
    assert_eq!(listed(&redis, "*").await, names);
    assert_eq!(listed(&redis, "many:*").await.len(), 1500);
    assert_eq!(listed(&redis, "many:?").await.len(), 10);
    assert_eq!(listed(&redis, "a\\*b").await, ["a*b"]);
    assert_eq!(listed(&redis, "a[b]").await, ["a[b]"]);
    assert_eq!(listed(&redis, "a?b").await, ["a*b"]);
    assert_eq!(listed(&redis, "??\\ name").await, ["中文 name"]);
    assert_eq!(listed(&redis, "back\\\\slash").await, ["back\\slash"]);
    assert_eq!(listed(&redis, "none").await, [""; 0]);
    assert_eq!(server.calls("keys"), 0);
}

#[tokio::test]
async fn list_leaves_out_locks_that_the_user_may_not_read() {
    let server = RedisServer::start();
    let redis = operator(&server);
    for name in ["mine:a", "mine:b", "theirs"] {
        fences(&redis, &claim(name)).await;
    }
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~mine:*", "~redisson_lock_token:{mine:*", "+@all"]);
    let url = format!("redis://u:p@{}", server.addr());
    assert_eq!(listed(&at(&url), "*").await, ["mine:a", "mine:b"]);
    server.cmd(&["ACL", "SETUSER", "u", "-hscan"]);
    let error = at(&url).list(&Pattern::all()).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("list")));
}

#[tokio::test]
async fn a_user_that_may_not_read_the_registry_can_show_a_lock() {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "locks", "+hscan"]);
    let client = Client::options().over(backend(&server)).unwrap();
    let guard = client.mutex("k").lock().await.unwrap();
    let row = client.show("k").await.unwrap();
    assert_eq!((row.is_held(), row.member()), (true, None));
    guard.release().await.unwrap();
}

async fn listed(redis: &Redis, pattern: &str) -> Vec<String> {
    let rows = redis.list(&Pattern::new(pattern)).await.unwrap();
    rows.into_iter().map(|row| row.name).collect()
}

#[tokio::test]
async fn a_list_leaves_out_records() {
    let server = RedisServer::start();
    let redis = operator(&server);
    fences(&redis, &claim("k")).await;
    for number in 0..100 {
        let record = crate::records::key(&format!("r{number}"));
        let swap = bandog_core::Swap::new(record, None, "x");
        crate::records::must_swap(&redis, &crate::records::with_lines(swap, &[("ok:0", JAVA)])).await;
    }
    server.cmd(&["CONFIG", "RESETSTAT"]);
    assert_eq!(listed(&redis, "*").await, ["k"]);
    assert_eq!(
        server.calls("hscan"),
        2,
        "expected one query to find out whether the key is a lock, and one query together with the other queries"
    );
}

#[tokio::test]
async fn the_documented_rights_are_enough_to_inspect() {
    let server = RedisServer::start();
    let rights = [RedisServer::least_rights(), RedisServer::inspect_rights()].concat();
    server.cmd(&[&["ACL", "SETUSER", "u"], &rights[..], &["resetpass", ">p"]].concat());
    let redis = at(&format!("redis://u:p@{}", server.addr()));
    let held = claim("k");
    fences(&redis, &held).await;
    redis.register(&crate::help::member(&["k"]), crate::help::TTL).await.unwrap();
    assert_eq!(listed(&redis, "*").await, ["k"]);
    assert!(redis.show(&held.key).await.unwrap().is_held());
    assert_eq!(redis.members().await.unwrap().len(), 1);
    redis.evict(&held.key).await.unwrap();
    let rights = redis.check().await.unwrap().into_iter().find(|finding| finding.subject == "rights").unwrap();
    // The rights of a user can be checked on Redis 7 and later.
    let says = if RedisServer::version().is_since(7, 0) { "which schedules need" } else { "could not be checked" };
    assert!(rights.says.contains(says) && rights.level == bandog_core::Level::Advice, "{rights:?}");
}
