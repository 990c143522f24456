//! The findings of `doctor` about a Redis Cluster.

use std::time::Duration;

use bandog_core::{ErrorKind, Finding, Inspect, Level};
use bandog_redis::{Redis, RedisOptions};
use bandog_redis_net::slot;
use bandog_testkit::{RedisCluster, RedisServer, eventually_async};

use crate::{
    cluster::operator,
    help::SOON,
    moves::{begin_move, two_nodes},
};

fn found(findings: &[Finding], subject: &str) -> Option<Finding> {
    findings.iter().find(|finding| finding.subject == subject).cloned()
}

// Promise: RC8
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
    // The default of Redis.
    let coverage = found(&findings, "cluster-require-full-coverage").unwrap();
    assert_eq!(coverage.level, Level::Advice);
    for node in cluster.iter() {
        node.cmd(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    assert!(found(&operator(&cluster).check().await.unwrap(), "cluster-require-full-coverage").is_none());
    let page = include_str!("../../../../docs/redis.md");
    for subject in ["cluster", "slots", "masters", "versions", "cluster-require-full-coverage"] {
        assert!(page.contains(&format!("\n| `{subject}` |")), "docs/redis.md does not mention {subject}");
    }
    // A user with the rights for locks only.
    for node in cluster.iter() {
        node.cmd(&["ACL", "SETUSER", "operator", "-cluster|nodes"]);
    }
    let state = found(&operator(&cluster).check().await.unwrap(), "cluster").unwrap();
    assert!(state.level == Level::Advice && state.cure.unwrap().contains("CLUSTER NODES"));
}

// Promise: RC8
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_reports_moving_slots_and_failed_nodes() {
    let cluster = RedisCluster::start(3, 0);
    let url = cluster.url().replace("://", &format!("://{}@", RedisServer::OPERATOR));
    let redis = Redis::new(RedisOptions::from_url(&url).unwrap().timeout(Duration::from_secs(1))).unwrap();
    let (slot, from, to) = two_nodes(&cluster, "orders");
    begin_move(slot, from, to);
    let findings = eventually_async(SOON, async || redis.check().await.map_err(|error| error.to_string())).await;
    let slots = found(&findings, "slots").unwrap();
    assert!(
        slots.says.starts_with("slots that are being moved: 1 (") && slots.says.contains(&format!("[{slot}->-")),
        "{slots:?}"
    );
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

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_with_a_quarter_of_the_keys_is_reported() {
    let cluster = RedisCluster::start(3, 0);
    let fill = |tag: &dyn Fn(usize) -> String, keys: usize| {
        for number in 0..keys {
            let name = tag(number);
            cluster.master_of(slot(name.as_bytes())).cmd(&["SET", &name, "1"]);
        }
    };
    let share = async || found(&operator(&cluster).check().await.unwrap(), "slot-share");
    fill(&|number| format!("key-{number}"), 900);
    assert_eq!(share().await, None);
    // 299 of 1,199 keys are less than a quarter, and 300 of 1,200 are one.
    fill(&|number| format!("{{shop}}:{number}"), 299);
    assert_eq!(share().await, None);
    fill(&|_| "{shop}:last".into(), 1);
    let finding = share().await.unwrap();
    let says =
        format!("the slot {} has 300 of the 1200 keys of the cluster, such as \"{{shop}}:", cluster.slot("{shop}"));
    assert!(finding.level == Level::Advice && finding.says.starts_with(&says), "{finding:?}");
    for node in cluster.iter() {
        node.cmd(&["ACL", "SETUSER", "operator", "-randomkey"]);
    }
    let finding = share().await.unwrap();
    assert!(finding.says.starts_with("it could not be checked: NOPERM"), "{finding:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_only_a_cluster_needs_are_checked() {
    if !RedisServer::version().is_since(7, 0) {
        return; // The server has no ACL DRYRUN, which the check of rights needs.
    }
    let cluster = RedisCluster::start(3, 0);
    let everywhere = |command: &[&str]| cluster.iter().for_each(|node| assert_eq!(node.cmd(command).text(), "OK"));
    everywhere(&["ACL", "SETUSER", "u", "on", ">p"]);
    let url = cluster.url().replace("://", "://u:p@");
    let options = RedisOptions::from_url(&url).unwrap().timeout(2 * SOON);
    let (redis, acknowledged) = (Redis::new(options.clone()).unwrap(), Redis::new(options.replicas(1)).unwrap());
    let rights = async |redis: &Redis| {
        let findings = redis.check_for("shop:").await.unwrap();
        findings.into_iter().filter(|finding| finding.subject == "rights").max_by_key(|finding| finding.level).unwrap()
    };
    for (rules, level, part) in [
        (&["-publish", "-subscribe", "-unsubscribe"][..], Level::Fine, "all commands"),
        (&["-spublish"], Level::Advice, "SPUBLISH, so waiters poll"),
        (&["-ssubscribe", "-sunsubscribe"], Level::Advice, "SSUBSCRIBE, SUNSUBSCRIBE, so waiters poll"),
        (&["-asking"], Level::Advice, "ASKING, so steps"),
        (&["-wait", "-info"], Level::Fine, "all commands"),
    ] {
        everywhere(&[&["ACL", "SETUSER", "u", "+@all", "~*", "&*"], rules].concat());
        let finding = rights(&redis).await;
        assert!(finding.level == level && finding.says.contains(part), "{rules:?}: {finding:?}");
        if let Some(cure) = finding.cure {
            everywhere(&cure.split(';').next().unwrap().split(' ').collect::<Vec<_>>());
            assert_eq!(rights(&redis).await.level, Level::Fine, "{cure}");
        }
    }
    // The right is missing at one node only.
    cluster[2].cmd(&["ACL", "SETUSER", "u", "-hset"]);
    let finding = rights(&redis).await;
    let at_node = format!("{}: the user \"u\" may not run HSET", cluster[2].addr());
    assert!(finding.level == Level::Danger && finding.says.starts_with(&at_node), "{finding:?}");
    cluster[2].cmd(&["ACL", "SETUSER", "u", "+hset"]);
    let finding = rights(&acknowledged).await;
    assert!(finding.level == Level::Danger && finding.says.contains("WAIT 1 1, which every lock"), "{finding:?}");
    // The index of the records of a prefix, and the channels of a mutex and of a latch.
    everywhere(&["ACL", "SETUSER", "u", "+@all", "resetkeys", "~*shop:*", "~bandog:clients", "~bandog:client:*"]);
    assert_eq!(rights(&redis).await.level, Level::Fine);
    let without_index = ["resetkeys", "~*bandog:probe*", "~bandog:clients", "~bandog:client:*", "~bandog:records"];
    everywhere(&[&["ACL", "SETUSER", "u"][..], &without_index].concat());
    let finding = rights(&redis).await;
    assert!(finding.says.contains("SADD bandog:records:{shop:/}"), "{finding:?}");
}
