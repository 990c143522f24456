//! Locks on a Redis Cluster.

use std::num::NonZeroU32;

use bandog_core::{Answer, ErrorKind, Inspect, Key, Kind, Leases, Pattern, Records, Released, Renewal, Step, Verdict};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async};

use crate::{
    help::{SOON, claim, granted, is_granted, member, notifier, release, renew, take},
    records::create,
};

/// A backend whose user has exactly the documented rights.
pub(crate) fn operator(cluster: &RedisCluster) -> Redis {
    Redis::new(RedisOptions::from_url(&operator_url(cluster)).unwrap().timeout(2 * SOON)).unwrap()
}

pub(crate) fn operator_url(cluster: &RedisCluster) -> String {
    cluster.url().replace("://", &format!("://{}@", RedisServer::OPERATOR))
}

/// Names that are on different nodes.
pub(crate) fn names(cluster: &RedisCluster) -> Vec<String> {
    let node = |name: &String| cluster.master_of(cluster.slot(name)).port();
    let mut names: Vec<String> = Vec::new();
    for name in (0..).map(|number| format!("name {number}")) {
        if names.iter().all(|other| node(other) != node(&name)) {
            names.push(name);
        }
        if names.len() == 3 {
            return names;
        }
    }
    unreachable!()
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_all_kinds_work_on_every_node() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    redis.ping().await.unwrap();
    let permits = Kind::Permits { take: NonZeroU32::MIN, of: NonZeroU32::MIN };
    for name in names(&cluster) {
        for kind in [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, permits] {
            let name = format!("{name} {kind}");
            let claims = [(); 2].map(|()| bandog_core::Claim { kind, joins: kind == Kind::Fair, ..claim(&name) });
            granted(take(&redis, &claims[0]).await.unwrap());
            let other = take(&redis, &claims[1]).await.unwrap();
            assert_eq!(matches!(other, Verdict::Granted { .. }), kind == Kind::Read, "{kind}");
            assert!(matches!(renew(&redis, &claims[0]).await.unwrap(), Renewal::Extended { .. }), "{kind}");
            for claim in &claims {
                release(&redis, claim).await.unwrap();
            }
            assert!(is_granted(&redis, &claims[1]).await, "{kind}");
        }
    }
}

// Promise: RC1
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_over_many_slots_is_answered_in_place() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let claims: Vec<_> = (0..40).map(|number| claim(&format!("batch {number}"))).collect();
    // Every second lock is busy.
    for other in claims.iter().step_by(2) {
        assert!(is_granted(&redis, &claim(other.key.as_str())).await);
    }
    let steps: Vec<_> = claims.iter().cloned().map(Step::Claim).collect();
    for (at, answer) in redis.apply(&steps).await.into_iter().enumerate() {
        let granted = matches!(answer.unwrap(), Answer::Claimed(Verdict::Granted { .. }));
        assert_eq!(granted, at % 2 == 1, "{at}");
    }
    for (at, renewal) in redis.renew(&claims).await.into_iter().enumerate() {
        assert_eq!(renewal.unwrap() != Renewal::Gone, at % 2 == 1, "{at}");
    }
    let used = cluster.iter().filter(|node| node.calls("evalsha") > 0).count();
    assert_eq!(used, 3, "a node was not used");
    let steps: Vec<_> = claims.iter().cloned().map(Step::Release).collect();
    for (at, answer) in redis.apply(&steps).await.into_iter().enumerate() {
        let freed = matches!(answer.unwrap(), Answer::Released(Released::Freed { .. }));
        assert_eq!(freed, at % 2 == 1, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_the_waiters_of_each_node() {
    let cluster = RedisCluster::start(3, 0);
    let (redis, other) = (operator(&cluster), operator(&cluster));
    for name in names(&cluster) {
        let (holder, waiter) = (claim(&name), claim(&name));
        assert!(is_granted(&redis, &holder).await);
        let (notify, notified) = notifier();
        let subscription = other.subscribe(&waiter, notify).await.unwrap();
        // The channel is sharded, as Redisson's on a cluster of Redis 7.
        let node = cluster.master_of(cluster.slot(&name));
        let channels = node.cmd(&["PUBSUB", "SHARDCHANNELS"]).texts();
        assert!(channels.contains(&format!("redisson_lock__channel:{{{name}}}")), "{channels:?}");
        assert_eq!(release(&redis, &holder).await.unwrap(), Released::Freed { others: Some(1) });
        eventually_async(SOON, async || notified() == 1).await;
        drop(subscription);
        eventually_async(SOON, async || node.cmd(&["PUBSUB", "SHARDCHANNELS"]).texts().is_empty()).await;
    }
}

// Promise: RC5
#[tokio::test(flavor = "multi_thread")]
async fn names_whose_keys_would_be_on_several_nodes_are_refused() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    for name in ["a{b", "{}x", "a}b{c", "a}b"] {
        for kind in [Kind::Mutex, Kind::Fair] {
            let error = take(&redis, &bandog_core::Claim { kind, ..claim(name) }).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misused, "{name}: {error}");
        }
        let key = Key::new(name).unwrap();
        assert_eq!(redis.show(&key).await.unwrap_err().kind(), ErrorKind::Misused, "{name}");
        assert_eq!(redis.evict(&key).await.unwrap_err().kind(), ErrorKind::Misused, "{name}");
    }
    for name in ["{tag}:a", "a{b}c", "a{b}c{", "中文 {x}"] {
        let claim = claim(name);
        assert!(is_granted(&redis, &claim).await, "{name}");
        assert!(matches!(release(&redis, &claim).await.unwrap(), Released::Freed { .. }), "{name}");
    }
    let left: Vec<String> = cluster.iter().flat_map(RedisServer::keys).collect();
    assert!(left.iter().all(|key| key.starts_with("redisson_lock_token:")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_and_evict_locks_of_all_nodes() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let names = names(&cluster);
    for name in &names {
        assert!(is_granted(&redis, &claim(name)).await);
    }
    let members = [member(&["a"]), member(&["b"]), member(&[])];
    for member in &members {
        redis.register(member, SOON).await.unwrap();
    }
    let rows = redis.list(&Pattern::new("name*")).await.unwrap();
    let mut listed: Vec<_> = rows.into_iter().map(|row| row.name).collect();
    listed.sort();
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(listed, expected);
    assert_eq!(redis.members().await.unwrap().len(), members.len());
    redis.deregister(members[0].id).await.unwrap();
    assert_eq!(redis.members().await.unwrap().len(), 2);
    for name in &names {
        let key = Key::new(name).unwrap();
        assert!(redis.show(&key).await.unwrap().is_held());
        assert!(redis.evict(&key).await.unwrap().is_some());
        assert!(!redis.show(&key).await.unwrap().is_held());
    }
    assert!(redis.check().await.is_ok());
}

/// Only the sessions of nodes and the parties of barriers have further hash tags. Clients of Redisson find all other locks.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_a_user_has_its_own_name_as_its_key() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let is_key = |key: &str| !cluster.master_of(cluster.slot(key)).hash(key).is_empty();
    for name in ["my-barrier/1", "my-schedule/node/1", "toll/barrier/x/1", "barrier/1"] {
        assert!(is_granted(&redis, &claim(name)).await);
        assert!(is_key(name), "{name}");
        let rows = redis.list(&Pattern::new(name)).await.unwrap();
        assert_eq!(rows.iter().map(|row| &*row.name).collect::<Vec<_>>(), [name]);
    }
    let own = [("shop:barrier/x/1", "{shop:/}bandog:barrier/x/1"), ("schedule/node/1", "{/}bandog:schedule/node/1")];
    for (name, key) in own {
        assert!(is_granted(&redis, &claim(name)).await);
        assert!(is_key(key), "{name}");
        assert_eq!(redis.list(&Pattern::new(name)).await.unwrap().len(), 1, "{name}");
    }
}

/// The list of jobs reads one index. A list of all records scans all keys.
#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_a_prefix_are_found_without_a_scan() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let scans = || cluster.iter().map(|node| node.calls("scan")).sum::<u64>();
    for (prefix, other) in [("{shop}:", "{shop}:other"), ("shop:", "x"), ("a{b}*c:", "a{b}*c:other")] {
        let mut jobs: Vec<_> = (0..3).map(|number| Key::new(format!("{prefix}job/{number}")).unwrap()).collect();
        for key in jobs.iter().chain(&[Key::new(other).unwrap()]) {
            create(&redis, key.as_str(), "one").await;
        }
        assert_eq!(redis.names(&Pattern::new("job/*").after(prefix)).await.unwrap(), jobs);
        jobs.truncate(1);
        assert_eq!(redis.names(&Pattern::exactly(&jobs[0])).await.unwrap(), jobs);
    }
    assert_eq!(scans(), 0);
    assert_eq!(redis.names(&Pattern::all()).await.unwrap().len(), 12);
    assert!(scans() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_server_is_no_cluster() {
    let server = RedisServer::start();
    let url = format!("redis+cluster://{}", server.addr());
    let redis = Redis::new(RedisOptions::from_url(&url).unwrap()).unwrap();
    assert_eq!(redis.ping().await.unwrap_err().kind(), ErrorKind::Unsupported);
    let error = take(&redis, &claim("x")).await.unwrap_err();
    assert!(error.to_string().contains("not a node of a Redis Cluster"), "{error}");
}

/// The name `a` and the name under which `a` is stored would be one lock.
// Promise: L24
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_looks_like_one_with_an_added_tag_is_refused() {
    let cluster = RedisCluster::start(3, 0);
    let redis = operator(&cluster);
    let session = claim("shop:schedule/node/1");
    granted(take(&redis, &session).await.unwrap());
    let same = claim("{shop:/}bandog:schedule/node/1");
    assert_eq!(cluster.master_of(cluster.slot(same.key.as_str())).hash(same.key.as_str()).len(), 1);
    let error = take(&redis, &same).await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Misused, Some(&same.key)), "{error}");
    assert!(error.to_string().contains("\"shop:schedule/node/1\" is stored under this name"), "{error}");
    assert_eq!(redis.show(&same.key).await.unwrap_err().kind(), ErrorKind::Misused);
    create(&redis, "shop:job/mail", "text").await;
    let record = Key::new("{shop:/}bandog:job/mail").unwrap();
    let read = redis.read(std::slice::from_ref(&record), &[]).await.unwrap().records.remove(0);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Misused);
    assert_eq!(redis.history(&record).await.unwrap_err().kind(), ErrorKind::Misused);
    assert!(matches!(release(&redis, &session).await.unwrap(), Released::Freed { .. }));
}
