//! The findings of `doctor` about a Redis Cluster.

use std::time::Duration;

use bandog_core::{ErrorKind, Finding, Inspect, Level};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async};

use crate::{
    cluster::operator,
    help::SOON,
    moves::{begin_move, two_nodes},
};

fn found(findings: &[Finding], subject: &str) -> Option<Finding> {
    findings.iter().find(|finding| finding.subject == subject).cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_order_has_fine_findings() {
    let cluster = RedisCluster::start(3, 1);
    let findings = operator(&cluster).check().await.unwrap();
    let state = found(&findings, "cluster").unwrap();
    assert_eq!((state.level, state.says.as_str()), (Level::Fine, "all 16384 slots are served by 3 masters"));
    assert_eq!(found(&findings, "masters").unwrap().level, Level::Fine);
    assert!(found(&findings, "slots").is_none() && found(&findings, "versions").is_none(), "{findings:?}");
    let clocks: Vec<_> = findings.iter().filter(|finding| finding.subject == "clock").collect();
    for node in cluster.iter().take(3) {
        let of_node = |finding: &&&Finding| finding.says.starts_with(&format!("{}: the server's clock", node.addr()));
        assert_eq!(clocks.iter().filter(of_node).count(), 1, "{clocks:?}");
    }
    assert!(clocks.len() == 3 && clocks.iter().all(|finding| finding.level == Level::Fine), "{clocks:?}");
    let page = include_str!("../../../../docs/redis.md");
    for subject in ["cluster", "slots", "masters", "versions"] {
        assert!(page.contains(&format!("\n| `{subject}` |")), "docs/redis.md does not mention {subject}");
    }
    // A user with the rights for locks only.
    for node in cluster.iter() {
        node.cmd(&["ACL", "SETUSER", "operator", "-cluster|nodes"]);
    }
    let state = found(&operator(&cluster).check().await.unwrap(), "cluster").unwrap();
    assert!(state.level == Level::Advice && state.cure.unwrap().contains("CLUSTER NODES"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_reports_moving_slots_and_failed_nodes() {
    let cluster = RedisCluster::start(3, 0);
    let url = cluster.url().replace("://", &format!("://{}@", RedisServer::OPERATOR));
    let redis = Redis::new(RedisOptions::from_url(&url).unwrap().timeout(Duration::from_secs(1))).unwrap();
    let (slot, from, to) = two_nodes(&cluster, "orders");
    begin_move(slot, from, to);
    let findings = eventually_async(SOON, async || redis.check().await.map_err(|error| error.to_string())).await;
    let slots = found(&findings, "slots").unwrap();
    assert!(slots.says.starts_with("2 slots") && slots.says.contains(&format!("[{slot}->-")), "{slots:?}");
    assert_eq!(found(&findings, "masters").unwrap().level, Level::Advice, "no master has a replica");
    to.kill();
    let failed = |findings: &[Finding]| {
        let state = found(findings, "cluster").unwrap();
        let names_it = state.says.contains(&format!("the master {} has failed", to.addr()));
        if state.level == Level::Danger && names_it { Ok(()) } else { Err(format!("{state:?}")) }
    };
    eventually_async(3 * SOON, async || match redis.check().await {
        Ok(findings) => failed(&findings),
        Err(error) => Err(error.to_string()),
    })
    .await;
    cluster.iter().for_each(RedisServer::kill);
    assert_eq!(redis.check().await.unwrap_err().kind(), ErrorKind::Unavailable);
}
