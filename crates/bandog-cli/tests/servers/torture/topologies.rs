//! `bandog torture` over a master with sentinels, a cluster and a quorum.

use bandog_testkit::{RedisCluster, RedisServer, Sentinels, eventually};

use super::{held, is_clean, options, report, reported};
use crate::help::{Place, SOON};

#[test]
fn a_failover_is_survived_and_its_gap_is_measured() {
    let master = RedisServer::start();
    let replica = RedisServer::replica_of(&master);
    let sentinels = Sentinels::start(3, &master, "orders");
    let place = Place::new();
    let mut torture = place.start(&options(&sentinels.url(), &["--for", "10m", "--hold", "2s"]));
    held(&master, "t:mutex-long-0");
    let old = sentinels.master();
    master.kill();
    sentinels.wait_for_failover(old);
    held(&replica, "t:mutex-short-0");
    held(&replica, "t:mutex-long-0");
    torture.int();
    let status = torture.wait(SOON);
    let report = report(&torture.stdout().join("\n"));
    // Without ?replicas=, a grant that the replica did not receive is lost. So both verdicts are right.
    let is_broken = report["losses_not_announced"].as_u64() > Some(0);
    assert_eq!(status.code(), Some(i32::from(is_broken)), "{report}");
    assert_eq!((&report["broken"], &report["repeated_fences"]), (&is_broken.into(), &0.into()), "{report}");
    assert_eq!((&report["hung_workers"], &report["left_behind"]), (&0.into(), &serde_json::json!([])), "{report}");
    assert!(report["longest_gap_ms"].as_u64() > Some(300), "{report}");
    is_clean(&replica, &[]);
}

// Promise: C8
#[test]
fn a_healthy_cluster_loses_nothing() {
    let (cluster, place) = (RedisCluster::start(3, 0), Place::new());
    let mut torture = place.start(&options(&cluster.url(), &["--for", "2s", "--hold", "300ms", "--names", "4"]));
    let report = reported(&mut torture, 0);
    assert!(report["grants"].as_u64() > Some(0), "{report}");
    for name in ["t:mutex-short-0", "t:fair-long-1", "t:semaphore-long-2", "t:read-write-short-3"] {
        is_clean(cluster.master_of(cluster.slot(name)), &[]);
    }
}

// Promise: C8
#[test]
fn a_healthy_quorum_has_two_kinds_and_loses_nothing() {
    let (nodes, place) = ([(); 3].map(|()| RedisServer::start()), Place::new());
    let hosts = nodes.each_ref().map(|node| node.addr().to_string()).join(",");
    let url = format!("redis+quorum://{hosts}?max_ttl=2s&watchdog=2s");
    // A node has a vote when it has run for longer than `max_ttl`.
    eventually(SOON, || place.run(&["lock", "x", "--wait", "0s", "--url", &url, "--", "true"]).code == 0);
    let ran = place.run(&options(&url, &["--for", "2s", "--hold", "300ms"]));
    ran.assert_ended(0, &["fair locks are left out", "semaphore locks are left out", "take mutex, read-write locks"]);
    assert!(report(&ran.stdout)["grants"].as_u64() > Some(0), "{ran:?}");
    for node in &nodes {
        assert!(!node.keys().iter().any(|key| key.contains("t:")), "{:?}", node.keys());
    }
    // The nodes that answer keep no name, although one node is down.
    nodes[2].kill();
    let ran = place.run(&options(&url, &["--for", "1s", "--kinds", "mutex", "--names", "3"]));
    ran.assert_ended(69, &["may stay at", &nodes[2].port().to_string()]);
    assert_eq!(report(&ran.stdout)["left_behind"].as_array().unwrap().len(), 6, "{ran:?}");
    for node in &nodes[..2] {
        assert!(!node.keys().iter().any(|key| key.contains("t:")), "{:?}", node.keys());
    }
}
