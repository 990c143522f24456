//! Acknowledgements of replicas (`?replicas=K`) on a Redis Cluster.

use std::time::{Duration, Instant};

use bandog_core::{Claim, ErrorKind, Kind, Leases, Released, Renewal, Step};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisCluster, RedisServer, eventually, eventually_async};
use futures_util::future::join_all;

use crate::{
    cluster::names,
    half_moved::PERMIT,
    help::{SOON, TTL, claim, granted, is_granted, release, renew, take},
};

const TIMEOUT: Duration = Duration::from_secs(2);

fn with_replicas(cluster: &RedisCluster, replicas: u8) -> Redis {
    for node in cluster.iter() {
        node.cmd(&["ACL", "SETUSER", "operator", "+wait"]);
    }
    let url = cluster.url().replace("://", &format!("://{}@", RedisServer::OPERATOR));
    Redis::new(RedisOptions::from_url(&url).unwrap().timeout(TIMEOUT).replicas(replicas)).unwrap()
}

/// The replica of the master that has the slot of this name.
fn replica_of<'a>(cluster: &'a RedisCluster, name: &str) -> &'a RedisServer {
    let master = RedisCluster::id(cluster.master_of(cluster.slot(name)));
    let is_its = |node: &&RedisServer| {
        let nodes = node.cmd(&["CLUSTER", "NODES"]);
        let own = nodes.text().lines().find(|line| line.contains("myself")).map(str::to_owned);
        own.is_some_and(|line| line.split(' ').nth(3) == Some(&master))
    };
    cluster.iter().find(is_its).unwrap()
}

// Promise: RD24
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_on_a_cluster_is_acknowledged_by_the_replicas_of_its_node() {
    let cluster = RedisCluster::start(3, 1);
    let redis = with_replicas(&cluster, 1);
    let names = names(&cluster);
    let kinds = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, PERMIT];
    let on_each =
        names.iter().flat_map(|name| kinds.map(|kind| Claim { kind, ..claim(&format!("{{{name}}}:{kind}")) }));
    let on_each: Vec<Claim> = on_each.collect();
    for claim in &on_each {
        assert!(is_granted(&redis, claim).await, "{claim:?}");
    }
    for renewal in redis.renew(&on_each).await {
        assert_eq!(renewal.unwrap(), Renewal::Extended { valid_for: TTL });
    }
    // The replica of one node gets nothing.
    let silent = replica_of(&cluster, &names[0]);
    silent.pause();
    for claim in on_each.iter().take(kinds.len()) {
        let renewal = renew(&redis, claim).await.unwrap_err();
        assert_eq!((renewal.kind(), renewal.maybe_applied()), (ErrorKind::NotReplicated, true), "{renewal}");
    }
    for kind in kinds {
        let other = Claim { kind, ..claim(&format!("{{{}}}:other {kind}", names[0])) };
        let error = take(&redis, &other).await.unwrap_err();
        assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::NotReplicated, true), "{error}");
        assert!(error.to_string().contains("0 of 1 replicas of 127.0.0.1:"), "{error}");
        assert!(matches!(release(&redis, &other).await.unwrap(), Released::Freed { .. }), "the lock was not granted");
    }
    // The other nodes are not affected, also in the same call.
    let steps: Vec<_> = names.iter().map(|name| Step::Claim(claim(&format!("{{{name}}}:batch")))).collect();
    let answers = redis.apply(&steps).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true], "{answers:?}");
    let renewals = redis.renew(&on_each).await;
    let kept: Vec<_> = renewals.iter().map(Result::is_ok).collect();
    assert_eq!(kept, [vec![false; kinds.len()], vec![true; 2 * kinds.len()]].concat());
    silent.resume();
    eventually_async(2 * SOON, async || renew(&redis, &on_each[0]).await.is_ok()).await;
    granted(take(&redis, &claim(&names[0])).await.unwrap());
}

// Promise: RD24
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_on_a_cluster_survives_the_failover_to_a_replica_that_has_acknowledged_it() {
    let cluster = RedisCluster::start(3, 1);
    let redis = with_replicas(&cluster, 1);
    let name = &names(&cluster)[0];
    let held = claim(name);
    granted(take(&redis, &held).await.unwrap());
    let (slot, master) = (cluster.slot(name), cluster.master_of(cluster.slot(name)));
    master.kill();
    eventually(3 * SOON, || cluster.is_ok() && cluster.master_of(slot).port() != master.port());
    // The new master has no replica, so a renewal is not acknowledged. But it has the hold.
    let lock = cluster.master_of(slot).hash(name);
    assert_eq!(lock.keys().map(String::as_str).collect::<Vec<_>>(), [held.id.to_string()]);
    let not_replicated = async || match renew(&redis, &held).await {
        Err(error) if error.kind() == ErrorKind::NotReplicated => Ok(()),
        answer => Err(format!("{answer:?}")),
    };
    eventually_async(2 * SOON, not_replicated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_on_a_cluster_survive_lost_scripts_and_need_the_right_to_wait() {
    let cluster = RedisCluster::start(3, 1);
    let redis = with_replicas(&cluster, 1);
    let held = claim("orders");
    granted(take(&redis, &held).await.unwrap());
    let master = cluster.master_of(cluster.slot("orders"));
    master.flush_scripts();
    assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }));
    // A user that may not load scripts sends their texts.
    for rule in ["-script", "-evalsha", "+eval"] {
        cluster.iter().for_each(|node| _ = node.cmd(&["ACL", "SETUSER", "operator", rule]));
    }
    let texts = with_replicas(&cluster, 1);
    assert!(is_granted(&texts, &claim("texts")).await);
    cluster.iter().for_each(|node| _ = node.cmd(&["ACL", "SETUSER", "operator", "-wait"]));
    let error = take(&texts, &claim("denied")).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Denied, true), "{error}");
    assert!(error.to_string().contains("WAIT"), "{error}");
}

/// The claims and the renewals of one node share rounds. A caller that has given up causes none.
#[tokio::test(flavor = "multi_thread")]
async fn grants_of_one_node_share_rounds() {
    const LAG: Duration = Duration::from_millis(50);
    let cluster = RedisCluster::start(3, 0);
    let redis = with_replicas(&cluster, 1);
    let node = cluster.master_of(cluster.slot("orders"));
    // A server that is no node can copy the data of a node. The nodes do not know it, but WAIT counts it.
    let replica = RedisServer::replica_of(node);
    let claims: Vec<Claim> = (0..64).map(|number| claim(&format!("{{orders}}:{number}"))).collect();
    eventually_async(SOON, async || take(&redis, &claims[0]).await.map(drop)).await;
    replica.stream().delay(LAG / 2);
    let before = node.calls("wait");
    let held = async |claim| {
        let began = Instant::now();
        granted(take(&redis, claim).await.unwrap());
        assert!(matches!(renew(&redis, claim).await.unwrap(), Renewal::Extended { .. }));
        began.elapsed()
    };
    let times = join_all(claims.iter().map(held)).await;
    let rounds = node.calls("wait") - before;
    assert!(rounds <= 32, "{rounds} rounds for {} acknowledgements", 2 * claims.len());
    assert!(*times.iter().min().unwrap() >= 2 * LAG);
    // While the replica is silent, callers give up. The rounds that have begun end at their limits.
    replica.stream().stall(true);
    let before = (node.calls("wait"), node.calls("evalsha"));
    for claim in &claims {
        let given_up = tokio::time::timeout(Duration::from_millis(5), renew(&redis, claim)).await;
        assert!(given_up.is_err(), "{given_up:?}");
    }
    replica.stream().stall(false);
    eventually_async(SOON, async || renew(&redis, &claims[0]).await.map(drop)).await;
    let (rounds, scripts) = (node.calls("wait") - before.0, node.calls("evalsha") - before.1);
    assert!(rounds <= 16, "{rounds} rounds for callers that gave up");
    assert!(scripts <= 64 + 32, "{scripts} scripts for 64 renewals whose callers gave up");
}
