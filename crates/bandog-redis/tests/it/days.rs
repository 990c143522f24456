//! Servers that refuse or delay requests for some time, for example because their memory is full or they load data.
//! docs/redis.md describes the error for each case.

use std::time::{Duration, Instant};

use bandog_core::{Claim, Error, ErrorKind, Leases, Released, Renewal};
use bandog_redis::Redis;
use bandog_sync::Client;
use bandog_testkit::{RedisServer, eventually_async};

use crate::help::{SOON, backend, claim, fences, lock_user_url, member, notifier, release, renew, take, with_timeout};

const SHORT: Duration = Duration::from_millis(200);

// Promise: RD8
#[tokio::test]
async fn a_full_server_refuses_only_claims_and_registrations() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (kept, freed) = (claim("kept"), claim("freed"));
    fences(&redis, &kept).await;
    fences(&redis, &freed).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    refused(&take(&redis, &claim("new")).await.unwrap_err(), "memory limit");
    refused(&redis.register(&member(&[]), crate::help::TTL).await.unwrap_err(), "memory limit");
    assert_eq!(renew(&redis, &kept).await.unwrap(), Renewal::Extended { valid_for: kept.ttl });
    assert!(matches!(release(&redis, &freed).await.unwrap(), Released::Freed { .. }));
    redis.subscribe(&kept, notifier().0).await.unwrap();
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    fences(&redis, &claim("new")).await;
}

// Promise: RD9
#[tokio::test]
async fn a_master_that_became_a_replica_refuses_every_verb_with_the_reason() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    fences(&redis, &held).await;
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    all_refused(&redis, &held, "read-only replica").await;
    server.cmd(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
}

// Promise: RD9
#[tokio::test]
async fn a_server_that_accepts_no_writes_refuses_every_verb_and_loses_nothing() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    fences(&redis, &held).await;
    server.cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    all_refused(&redis, &held, "fewer replicas").await;
    server.cmd(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });

    // A snapshot fails if its directory is missing.
    std::fs::remove_dir_all(server.socket().parent().unwrap()).unwrap();
    server.cmd(&["CONFIG", "SET", "save", "3600 1"]);
    server.cmd(&["BGSAVE"]);
    let failed = async || server.cmd(&["INFO", "persistence"]).text().contains("rdb_last_bgsave_status:err");
    eventually_async(SOON, failed).await;
    all_refused(&redis, &held, "cannot write its data to disk").await;
    server.cmd(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
}

// Promise: RD7
#[tokio::test]
async fn a_renewal_succeeds_after_a_server_has_slept_or_paused_its_clients() {
    let server = RedisServer::start();
    let redis = with_timeout(&lock_user_url(server.addr()), SHORT);
    let held = claim("k");
    fences(&redis, &held).await;
    for command in
        [&["DEBUG", "SLEEP", "0.5"][..], &["CLIENT", "PAUSE", "500", "ALL"], &["CLIENT", "PAUSE", "500", "WRITE"]]
    {
        let mut client = server.client();
        client.send(command).unwrap();
        eventually_async(SOON, async || {
            let error = renew(&redis, &held).await.err()?;
            assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
            Some(())
        })
        .await;
        let renewal = eventually_async(SOON, async || renew(&redis, &held).await).await;
        assert_eq!(renewal, Renewal::Extended { valid_for: held.ttl }, "{command:?}");
    }
    assert_eq!(server.hash("k").len(), 1);
}

#[tokio::test]
async fn a_server_is_unavailable_while_it_loads_its_data() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    fences(&redis, &held).await;
    server.cmd(&["EVAL", "for i = 1, 1000 do redis.call('set', 'filler' .. i, string.rep('x', 10000)) end", "0"]);
    // While Redis loads data, it serves clients after each 2 MB. Before Redis 7, this amount cannot be configured. So
    // there are 10 MB of data, and the delay for each key makes loading slow enough to be observed.
    server.cmd(&["CONFIG", "SET", "rdbcompression", "no"]);
    server.cmd(&["CONFIG", "SET", "key-load-delay", "2000"]);
    let mut client = server.client();
    client.send(&["DEBUG", "RELOAD"]).unwrap();
    eventually_async(SOON, async || {
        let error = take(&redis, &claim("new")).await.map(|_| ()).err()?;
        refused(&error, "still loading");
        Some(())
    })
    .await;
    // A client may connect while the server loads data. Its calls succeed when the data are loaded.
    server.kill_clients();
    let renewal = eventually_async(2 * SOON, async || renew(&redis, &held).await).await;
    assert_eq!(renewal, Renewal::Extended { valid_for: held.ttl });
}

#[tokio::test]
async fn a_subscriber_disconnected_because_of_its_backlog_is_notified_and_subscribed_again() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (on_release, notified) = notifier();
    let _subscription = redis.subscribe(&claim("k"), on_release).await.unwrap();
    cut_off_subscribers(&server, "redisson_lock__channel:{k}");
    // The first notification is sent because a message may have been lost. The second notification is for a message on
    // the new connection.
    eventually_async(SOON, async || notified() >= 1).await;
    eventually_async(SOON, async || {
        server.cmd(&["PUBLISH", "redisson_lock__channel:{k}", "0"]);
        notified() >= 2
    })
    .await;
}

#[tokio::test]
async fn a_waiter_is_served_within_about_a_second_while_subscribers_are_disconnected() {
    let server = RedisServer::start();
    let (holder, waiter) = (client(&server), client(&server));
    let guard = holder.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn({
        let lock = waiter.mutex("k");
        async move { lock.lock().await }
    });
    let is_subscribed = async || server.cmd(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{k}"]).array()[1].int() == 1;
    eventually_async(SOON, is_subscribed).await;
    cut_off_subscribers(&server, "redisson_lock__channel:{k}");
    let released = Instant::now();
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(released.elapsed() < Duration::from_secs(3), "{:?}", released.elapsed());
}

fn client(server: &RedisServer) -> Client {
    Client::options().over(backend(server)).unwrap()
}

/// Sends the subscribers more data than the server buffers for them, so that it disconnects them.
fn cut_off_subscribers(server: &RedisServer, channel: &str) {
    let ids = || -> Vec<String> {
        let list = server.cmd(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        list.text().lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
    };
    let before = ids();
    assert_eq!(before.len(), 1);
    server.cmd(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1024 1024 1"]);
    server.cmd(&["PUBLISH", channel, &"x".repeat(1 << 20)]);
    server.cmd(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60"]);
    bandog_testkit::eventually(SOON, || !ids().contains(&before[0]));
}

async fn all_refused(redis: &Redis, held: &Claim, part: &str) {
    refused(&take(redis, &claim("new")).await.unwrap_err(), part);
    // A renewal writes only if less than its ttl is left, and all of it is left within the first ms after the claim.
    let longer = Claim { ttl: 2 * held.ttl, ..held.clone() };
    refused(&renew(redis, &longer).await.unwrap_err(), part);
    refused(&release(redis, held).await.unwrap_err(), part);
}

#[track_caller]
fn refused(error: &Error, part: &str) {
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{error}");
    assert!(error.to_string().contains(part), "{error} does not contain {part:?}");
}
