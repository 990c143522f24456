//! Eviction of a lock.

use std::time::Duration;

use bandog_core::{ErrorKind, Holder, Inspect, Key, Kind, Leases, Released, Renewal};
use bandog_sync::Client;
use bandog_testkit::{RedisServer, Reply, eventually_async};

use crate::{
    help::{JAVA, SOON, at, backend, claim, ends, fences, notifier, operator, release, renew},
    layout::subscriber,
};

// Promise: RD12
#[tokio::test]
async fn an_eviction_frees_notifies_and_keeps_the_token() {
    let server = RedisServer::start();
    let (redis, other) = (backend(&server), operator(&server));
    let (held, next) = (claim("k"), claim("k"));
    let before = ends(&fences(&redis, &held).await).1;
    let mut java = subscriber(&server, "redisson_lock__channel:{k}");
    let (on_release, notified) = notifier();
    let _subscription = other.subscribe(&held, on_release).await.unwrap();
    let row = other.evict(&held.key).await.unwrap().unwrap();
    let [evicted] = &row.holders[..] else { panic!("{row:?}") };
    assert_eq!((evicted.owner.as_deref(), evicted.last_fence), (Some(held.id.to_string().as_str()), Some(before)));
    assert!(evicted.ttl.is_some_and(|ttl| ttl > Duration::from_secs(25) && ttl <= held.ttl), "{evicted:?}");
    assert_eq!(java.read().unwrap().texts(), ["message", "redisson_lock__channel:{k}", "0"]);
    eventually_async(SOON, async || notified() == 1).await;
    assert_eq!(server.keys(), ["redisson_lock_token:{k}"]);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Gone);
    assert_eq!(release(&redis, &held).await.unwrap(), Released::NotHeld);
    assert!(ends(&fences(&redis, &next).await).0 > before);
    java.set_patience(Duration::from_millis(20)).unwrap();
    assert!(java.read().is_err(), "the eviction sent a second notification");
}

#[tokio::test]
async fn an_operator_sees_holder_and_waiters_and_evicts_the_holder() {
    let server = RedisServer::start();
    let client = |backend| Client::options().watchdog(Duration::from_secs(3)).over(backend).unwrap();
    let (holder, waiter, operator_client) =
        (client(backend(&server)), client(backend(&server)), client(operator(&server)));
    let guard = holder.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn({
        let lock = waiter.mutex("k");
        async move { lock.lock().await }
    });
    let row = eventually_async(SOON, async || {
        let row = operator_client.show("k").await.unwrap();
        if row.member().is_some() && row.waiters.len() == 1 { Ok(row) } else { Err(row) }
    })
    .await;
    assert_eq!(row.member().map(|member| (member.id, member.pid)), Some((holder.id(), std::process::id())));
    assert_eq!(row.waiters[0].id, waiter.id());
    let evicted = operator_client.evict("k").await.unwrap().unwrap();
    assert_eq!(evicted.member().map(|member| member.id), Some(holder.id()));
    let next = waiting.await.unwrap().unwrap();
    assert!(next.fence() > guard.fence());
    tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    next.release().await.unwrap();
    for client in [&holder, &waiter] {
        client.close().await.unwrap();
    }
    assert_eq!(operator_client.members().await.unwrap(), []);
}

#[tokio::test]
async fn the_eviction_of_a_free_lock_notifies_no_subscriber() {
    let server = RedisServer::start();
    let mut java = subscriber(&server, "redisson_lock__channel:{k}");
    assert_eq!(operator(&server).evict(&Key::new("k").unwrap()).await.unwrap(), None);
    java.set_patience(Duration::from_millis(20)).unwrap();
    assert!(java.read().is_err());
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn a_hold_of_redisson_is_evicted_like_ours() {
    let server = RedisServer::start();
    server.cmd(&["HSET", "k", JAVA, "3"]);
    let row = operator(&server).evict(&Key::new("k").unwrap()).await.unwrap().unwrap();
    assert_eq!(row.holders, [Holder { kind: Some(Kind::Mutex), ..Holder::new(JAVA) }]);
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn a_key_that_is_not_a_lock_stays_unchanged() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let key = Key::new("k").unwrap();
    for plant in [
        &["SET", "k", "text"][..],
        &["RPUSH", "k", JAVA],
        &["SADD", "k", JAVA],
        &["ZADD", "k", "1", JAVA],
        &["HSET", "k", "name", "Rex"],
        &["HSET", "k", JAVA, "1", "name", "Rex"],
        &["HSET", "k", "mode", "other", JAVA, "1"],
        &["EVAL", "for i = 1, 100000 do redis.call('hset', KEYS[1], i, i) end", "1", "k"],
    ] {
        server.cmd(plant);
        let before = server.cmd(&["DUMP", "k"]);
        let error = redis.evict(&key).await.unwrap_err();
        assert_eq!((error.kind(), error.verb(), error.key()), (ErrorKind::Denied, Some("evict"), Some(&key)));
        assert!(error.to_string().contains("was not changed"), "{error}");
        assert_eq!(server.cmd(&["DUMP", "k"]), before, "{plant:?}");
        server.cmd(&["DEL", "k"]);
    }
}

#[tokio::test]
async fn an_eviction_that_lacks_a_right_other_than_publish_changes_nothing() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    fences(&redis, &held).await;
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-eval"]);
    let limited = at(&format!("redis://u:p@{}", server.addr()));
    for right in ["hscan", "del", "evalsha"] {
        server.cmd(&["ACL", "SETUSER", "u", &format!("-{right}")]);
        let error = limited.evict(&held.key).await.unwrap_err();
        assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("evict")), "{right}");
        assert_eq!(server.cmd(&["EXISTS", "k"]), Reply::Int(1));
        server.cmd(&["ACL", "SETUSER", "u", &format!("+{right}")]);
    }
    server.cmd(&["ACL", "SETUSER", "u", "-publish"]);
    server.flush_scripts();
    assert!(limited.evict(&held.key).await.unwrap().is_some());
}
