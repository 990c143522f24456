//! Readers of Redisson whose holds have no key: the hash has their field, and decides how long they hold the lock.
//!
//! A multi lock of Redisson (`tryLock(2000, 5000)` of a read lock) takes the lock with a hold of 4 s, twice its wait
//! time, and then sets the ttl of the hash to the lease of 5 s. So the key of the hold expires before the hold.

use std::time::Duration;

use bandog_core::{Claim, Inspect, Kind, Released, Renewal, Verdict};
use bandog_redis::Redis;
use bandog_testkit::RedisServer;

use crate::{
    help::{JAVA, TTL, backend, granted, is_granted, no_message, operator, pass, release, renew, take},
    layout::subscriber,
    read_write::{fields, hold_key, reader, writer},
};

/// The rest of a multi lock of Redisson with this lease when the key of its hold has expired.
fn multi_lock_reads(server: &RedisServer, lease: &str) {
    server.cmd(&["HSET", "k", "mode", "read", JAVA, "1"]);
    server.cmd(&["PEXPIRE", "k", lease]);
}

/// The time after which the refused claim can be granted.
async fn refused_for(redis: &Redis, claim: &Claim) -> Duration {
    match take(redis, claim).await.unwrap() {
        Verdict::Busy { retry_after, .. } => retry_after,
        Verdict::Granted { .. } => panic!("granted beside a reader of Redisson"),
    }
}

// Promise: X6
#[tokio::test]
async fn a_reader_of_redisson_without_a_key_keeps_writers_out_until_the_hash_expires() {
    let server = RedisServer::start();
    let redis = backend(&server);
    multi_lock_reads(&server, "5000");
    let before = server.hash("k");
    for next in [writer("k"), Claim { joins: false, ..writer("k") }, Claim { offers: true, ..writer("k") }] {
        let left = refused_for(&redis, &next).await;
        assert!(left <= Duration::from_secs(5) && left > Duration::from_secs(1), "{left:?}");
        release(&redis, &next).await.unwrap();
    }
    assert_eq!(server.hash("k"), before);
    assert!((1..=5000).contains(&server.pttl("k")));
    server.cmd(&["PERSIST", "k"]);
    assert_eq!(refused_for(&redis, &writer("k")).await, Duration::from_secs(1));
    assert_eq!((server.hash("k"), server.pttl("k")), (before, -1));
    server.cmd(&["PEXPIRE", "k", "1"]);
    bandog_testkit::eventually(crate::help::SOON, || server.cmd(&["EXISTS", "k"]).int() == 0);
    server.cmd(&["DEL", "bandog:writers:{k}"]);
    assert!(is_granted(&redis, &writer("k")).await);
}

#[tokio::test]
async fn our_readers_join_and_leave_a_reader_of_redisson_without_a_key() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let mut subscription = subscriber(&server, "redisson_rwlock:{k}");
    multi_lock_reads(&server, "5000");
    let (ours, dead) = (reader("k"), reader("k"));
    for claim in [&ours, &dead] {
        granted(take(&redis, claim).await.unwrap());
    }
    // Our reader without a key is dead. The reader of Redisson is not.
    server.cmd(&["DEL", &hold_key("{k}:", dead.id)]);
    let next = Claim { joins: false, ..writer("k") };
    refused_for(&redis, &next).await;
    let owner = ours.id.to_string();
    assert_eq!(server.hash("k"), fields(&[("mode", "read"), (JAVA, "1"), (&owner, "1")]));
    assert_eq!(renew(&redis, &ours).await.unwrap(), Renewal::Extended { valid_for: TTL });
    assert_eq!(release(&redis, &ours).await.unwrap(), Released::Freed { others: None });
    assert_eq!(server.hash("k"), fields(&[("mode", "read"), (JAVA, "1")]));
    // The store does not say how long the other reader holds the lock, so the ttl is not lowered.
    assert!((29_000..=30_000).contains(&server.pttl("k")), "{}", server.pttl("k"));
    no_message(&mut subscription);
    refused_for(&redis, &next).await;
    // A lock without a ttl gets none when our reader leaves.
    granted(take(&redis, &ours).await.unwrap());
    server.cmd(&["PERSIST", "k"]);
    release(&redis, &ours).await.unwrap();
    assert_eq!((server.hash("k"), server.pttl("k")), (fields(&[("mode", "read"), (JAVA, "1")]), -1));
}

#[tokio::test]
async fn a_downgrade_leaves_a_reader_of_redisson_that_comes_later() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (from, to) = (writer("k"), reader("k"));
    granted(take(&redis, &from).await.unwrap());
    granted(pass(&redis, &from, &to).await.unwrap());
    multi_lock_reads(&server, "5000");
    // The renewal restores the ttl that the multi lock has lowered.
    assert_eq!(renew(&redis, &to).await.unwrap(), Renewal::Extended { valid_for: TTL });
    assert!(server.pttl("k") > 29_000);
    refused_for(&redis, &Claim { joins: false, ..writer("k") }).await;
    release(&redis, &to).await.unwrap();
    assert_eq!(server.hash("k"), fields(&[("mode", "read"), (JAVA, "1")]));
}

#[tokio::test]
async fn operators_see_and_evict_a_reader_of_redisson_without_a_key() {
    let server = RedisServer::start();
    let redis = operator(&server);
    let key = reader("k").key;
    for has_ttl in [true, false] {
        multi_lock_reads(&server, "5000");
        if !has_ttl {
            server.cmd(&["PERSIST", "k"]);
        }
        let row = redis.show(&key).await.unwrap();
        assert_eq!((row.kind, row.holders.len()), (Some(Kind::Read), 1));
        assert_eq!(row.holders[0].owner.as_deref(), Some(JAVA));
        assert_eq!(row.holders[0].ttl.is_some(), has_ttl);
        assert_eq!(redis.evict(&key).await.unwrap().unwrap().owner(), Some(JAVA));
        assert_eq!(server.keys(), [""; 0]);
    }
}

/// The key of the hold exists, but it expires before the lease of the multi lock.
#[tokio::test]
async fn the_release_of_our_reader_leaves_a_multi_lock_of_redisson_its_lease() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let ours = reader("k");
    granted(take(&redis, &ours).await.unwrap());
    server.cmd(&["SET", &format!("{{k}}:{JAVA}:rwlock_timeout:1"), "1", "PX", "2000"]);
    multi_lock_reads(&server, "60000");
    release(&redis, &ours).await.unwrap();
    assert_eq!(server.hash("k"), fields(&[("mode", "read"), (JAVA, "1")]));
    assert!((50_000..=60_000).contains(&server.pttl("k")), "{}", server.pttl("k"));
    let row = operator(&server).show(&ours.key).await.unwrap();
    assert!(row.holders[0].ttl > Some(Duration::from_secs(50)), "{row:?}");
    assert!(refused_for(&redis, &Claim { joins: false, ..writer("k") }).await > Duration::from_secs(50));
    // A lock without a ttl gets none.
    granted(take(&redis, &ours).await.unwrap());
    server.cmd(&["PERSIST", "k"]);
    release(&redis, &ours).await.unwrap();
    assert_eq!(server.pttl("k"), -1);
}
