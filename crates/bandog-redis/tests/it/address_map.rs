//! Clusters and sentinels that name addresses at which their servers cannot be reached, as behind NAT.

use bandog_core::{ErrorKind, Leases, Renewal};
use bandog_testkit::{RedisCluster, RedisServer, Sentinels, eventually, eventually_async};

use crate::{
    help::{SOON, at, claim, granted, renew, take},
    moves::{begin_move, move_keys, move_slot, two_nodes},
};

/// An address of this machine at which no server listens.
const NOWHERE: &str = "127.9.9.9";

/// A cluster whose nodes name each other by an address at which they do not listen. The bus of the cluster still works.
fn behind_nat() -> RedisCluster {
    let cluster = RedisCluster::start(3, 0);
    for node in cluster.iter() {
        node.cmd(&["CONFIG", "SET", "cluster-announce-hostname", NOWHERE]);
        node.cmd(&["CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname"]);
    }
    let name_of_master = |range: &bandog_testkit::Reply| range.array()[2].array()[0].text().to_owned();
    eventually(SOON, || {
        let slots = |node: &RedisServer| node.cmd(&["CLUSTER", "SLOTS"]).array().iter().map(name_of_master).collect();
        let named: Vec<Vec<String>> = cluster.iter().map(slots).collect();
        if named.iter().flatten().all(|name| name == NOWHERE) { Ok(()) } else { Err(named) }
    });
    cluster
}

fn url(cluster: &RedisCluster, query: &str) -> String {
    format!("{}?{query}", cluster.url().replace("://", &format!("://{}@", RedisServer::OPERATOR)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_names_the_address_of_the_cluster_and_the_option() {
    let cluster = behind_nat();
    let redis = at(&url(&cluster, "layout=redisson"));
    let error = take(&redis, &claim("orders")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let port = cluster.master_of(cluster.slot("orders")).port();
    let says = format!("the cluster names the address {NOWHERE}:{port}");
    assert!(error.to_string().contains(&says), "{error}");
    assert!(error.to_string().contains(&format!("address_map={NOWHERE}:{port}>HOST:PORT")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_cluster_are_reached_at_the_addresses_of_the_map() {
    let cluster = behind_nat();
    let pairs: Vec<_> = cluster.iter().map(|node| format!("{NOWHERE}:{}>{}", node.port(), node.addr())).collect();
    let redis = at(&url(&cluster, &format!("address_map={}", pairs.join(","))));
    let held: Vec<_> = (0..12).map(|number| claim(&format!("k{number}"))).collect();
    for claim in &held {
        granted(take(&redis, claim).await.unwrap());
    }
    assert!(cluster.iter().all(|node| node.calls("evalsha") + node.calls("eval") > 0), "a node was not used");

    // MOVED, and ASK in the middle of a move.
    let (slot, from, to) = two_nodes(&cluster, "k0");
    move_slot(&cluster, slot, from, to);
    assert!(matches!(renew(&redis, &held[0]).await.unwrap(), Renewal::Extended { .. }));
    let (slot, from, to) = two_nodes(&cluster, "k1");
    begin_move(slot, from, to);
    move_keys(slot, from, to);
    assert!(matches!(renew(&redis, &held[1]).await.unwrap(), Renewal::Extended { .. }));
    // Subscriptions use the same addresses.
    let (on_release, _) = crate::help::notifier();
    redis.subscribe(&held[2], on_release).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_master_of_sentinels_is_reached_at_the_address_of_the_map() {
    let master = RedisServer::start();
    let sentinels = Sentinels::start(1, &master, "orders");
    let port = master.port().to_string();
    for command in [&["SENTINEL", "REMOVE", "orders"][..], &["SENTINEL", "MONITOR", "orders", NOWHERE, &port, "1"]] {
        assert_eq!(sentinels[0].cmd(command).text(), "OK");
    }
    let url = sentinels.url().replace("://", &format!("://{}@", RedisServer::LEAST));
    let error = take(&at(&url), &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&format!("a sentinel names the address {NOWHERE}:{port}")), "{error}");
    assert!(error.to_string().contains("add address_map="), "{error}");

    let redis = at(&format!("{url}?address_map={NOWHERE}:{port}>{}", master.addr()));
    eventually_async(SOON, async || take(&redis, &claim("other")).await.map(granted)).await;
}
