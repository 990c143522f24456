//! The connections and subscriptions of a cluster: nodes without slots, nodes that do not answer, missing rights.

use std::time::{Duration, Instant};

use bandog_core::{ErrorKind, Leases, Released, Renewal, Step};
use bandog_redis::{Redis, RedisOptions};
use bandog_sync::Client;
use bandog_testkit::{RedisCluster, RedisServer, eventually, eventually_async};
use futures_util::future::join_all;

use crate::{
    cluster::{names, operator},
    help::{SOON, claim, granted, is_granted, notifier, release, renew, take},
    moves::{begin_move, move_keys, move_slot, two_nodes},
};

fn with_timeout(cluster: &RedisCluster, timeout: Duration) -> Redis {
    let url = cluster.url().replace("://", &format!("://{}@", RedisServer::OPERATOR));
    Redis::new(RedisOptions::from_url(&url).unwrap().timeout(timeout)).unwrap()
}

/// Number of requests for the map of slots that the running nodes have answered.
fn maps(cluster: &RedisCluster) -> u64 {
    cluster.iter().filter(|node| node.is_running()).map(|node| node.calls("cluster|slots")).sum()
}

/// A node that gets its first slot is connected once, although the map does not contain it yet. Each connection would let
/// the watchdog renew all holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_slots_is_connected_once() {
    let cluster = RedisCluster::start(3, 0);
    let new = RedisServer::start_node_with(&["--cluster-node-timeout", "1000"]);
    eventually(SOON, || {
        let known = |node: &RedisServer| node.cmd(&["CLUSTER", "NODES"]).text().to_owned();
        let all: Vec<_> = cluster.iter().map(known).chain([known(&new)]).collect();
        if all.iter().all(|nodes| nodes.lines().count() == 4 && !nodes.contains("handshake")) {
            return Ok(());
        }
        new.cmd(&["CLUSTER", "MEET", "127.0.0.1", &cluster[0].port().to_string()]);
        Err(all)
    });
    eventually(SOON, || new.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok"));
    let redis = operator(&cluster);
    let held = claim("orders");
    granted(take(&redis, &held).await.unwrap());
    let (slot, from, _) = two_nodes(&cluster, "orders");
    begin_move(slot, from, &new);
    move_keys(slot, from, &new);
    assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }));
    let clients = || {
        let clients = new.cmd(&["CLIENT", "LIST"]).text().to_owned();
        let ours = clients.lines().filter(|client| client.contains("user=operator"));
        ours.map(|client| client.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let connection = clients();
    assert_eq!(connection.len(), 1);
    // The new node may be the first of the known nodes. Then it answers all requests for the map.
    let maps = || maps(&cluster) + new.calls("cluster|slots");
    for _ in 0..3 {
        // The slot is not the only key that a claim of a free lock needs, so the nodes answer TRYAGAIN, and the client asks
        // for the map.
        let (before, free) = (maps(), claim("{orders}:free"));
        let hasty = tokio::time::timeout(SOON, take(&redis, &free));
        let asked = async { eventually_async(SOON, async || maps() > before + 1).await };
        tokio::select! {
            _ = hasty => panic!("the claim did not wait"),
            () = asked => {}
        }
        assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }));
    }
    assert_eq!(clients(), connection, "the node was connected again");
    assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }));
}

/// Steps at other nodes do not wait for a node that does not answer. Nevertheless its connection is opened again, because
/// it might be half open.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_to_one_node_is_opened_again() {
    let cluster = RedisCluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]);
    let timeout = Duration::from_secs(2);
    let redis = with_timeout(&cluster, timeout);
    let names = names(&cluster);
    for name in &names {
        assert!(is_granted(&redis, &claim(name)).await);
    }
    let connections = *redis.profile().epoch.borrow();
    let node = cluster.master_of(cluster.slot(&names[1]));
    node.pause();
    let began = Instant::now();
    let mut calls = 0;
    while began.elapsed() < 2 * timeout {
        let steps: Vec<_> = names.iter().map(|name| Step::Claim(claim(&format!("{{{name}}}:{calls}")))).collect();
        let answers = redis.apply(&steps).await;
        assert!(answers[1].is_err());
        calls += 1;
    }
    assert!(calls > 3, "a call waited for the node until its timeout");
    node.resume();
    let is_new = || *redis.profile().epoch.borrow() > connections;
    eventually_async(SOON, async || is_new() || renew(&redis, &claim(&names[1])).await.is_err()).await;
    eventually_async(SOON, async || is_new()).await;
}

/// A command without a key, such as PING, needs one node that answers. So a new client connects although the first node of
/// the map is down or silent.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_client_connects_although_a_node_is_down() {
    let cluster = RedisCluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]);
    let mut nodes: Vec<&RedisServer> = cluster.iter().collect();
    nodes.sort_by_key(|node| node.port());
    let used = operator(&cluster);
    used.ping().await.unwrap();
    let connects = async || {
        let began = Instant::now();
        operator(&cluster).ping().await.unwrap();
        used.ping().await.unwrap();
        assert!(began.elapsed() < SOON, "a call waited for the node until its timeout");
    };
    nodes[0].pause();
    connects().await;
    nodes[0].resume();
    for down in [nodes[0], nodes[1]] {
        down.kill();
        connects().await;
    }
    nodes[2].kill();
    for redis in [&used, &operator(&cluster)] {
        let error = redis.ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
}

/// The locks of the other nodes are shown although the node with the index of clients is down.
#[tokio::test(flavor = "multi_thread")]
async fn locks_are_shown_without_the_node_of_the_registry() {
    let cluster = RedisCluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]);
    let index = cluster.master_of(cluster.slot("bandog:clients"));
    let names = names(&cluster);
    let name = names.iter().find(|name| cluster.master_of(cluster.slot(name)).port() != index.port()).unwrap();
    let client = Client::over(operator(&cluster)).unwrap();
    let _guard = client.mutex(name).lock().await.unwrap();
    let shown = async || client.show(name).await;
    assert!(shown().await.unwrap().is_held());
    index.kill();
    assert!(shown().await.unwrap().is_held());
}

/// A subscription that moves to a node that does not answer delays neither the map nor other subscriptions.
// Promise: RC3
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_cannot_move_delays_no_other() {
    let cluster = RedisCluster::start_with(3, 0, &["--cluster-require-full-coverage", "no"]);
    let redis = with_timeout(&cluster, 6 * SOON);
    let [silent, others @ ..] = &cluster[..3] else { unreachable!() };
    let name_at = |node: &RedisServer| {
        (0..)
            .map(|number| format!("name {number}"))
            .find(|name| cluster.master_of(cluster.slot(name)).port() == node.port())
    };
    let [first, second] = [name_at(&others[0]).unwrap(), name_at(&others[1]).unwrap()];
    let mut subscriptions = Vec::new();
    for name in [&first, &second] {
        subscriptions.push(redis.subscribe(&claim(name), notifier().0).await.unwrap());
    }
    // The node has the slot, and is stopped before the former node ends the subscription.
    let slot = cluster.slot(&first);
    begin_move(slot, &others[0], silent);
    let id = RedisCluster::id(silent);
    let assign = |node: &RedisServer, slot: u16, id: &str| {
        assert_eq!(node.cmd(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", id]).text(), "OK");
    };
    assign(silent, slot, &id);
    silent.pause();
    let before = maps(&cluster);
    others.iter().for_each(|node| assign(node, slot, &id));
    eventually_async(SOON, async || maps(&cluster) > before).await;
    // Now a subscription moves between the other nodes.
    let slot = cluster.slot(&second);
    begin_move(slot, &others[1], &others[0]);
    let id = RedisCluster::id(&others[0]);
    others.iter().for_each(|node| assign(node, slot, &id));
    let channel = format!("redisson_lock__channel:{{{second}}}");
    let is_subscribed = || others[0].cmd(&["PUBSUB", "SHARDCHANNELS"]).texts().contains(&channel);
    eventually_async(SOON, async || is_subscribed()).await;
    silent.resume();
}

/// The time that thousands of subscriptions need to move is proportional to their number. If all of them were searched
/// after each move, this test would take minutes.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_subscriptions_move_together() {
    let cluster = RedisCluster::start(3, 0);
    let redis = with_timeout(&cluster, 6 * SOON);
    let each = (0..5_000).map(async |number| {
        let (notify, notified) = notifier();
        (redis.subscribe(&claim(&format!("{{orders}}:{number}")), notify).await.unwrap(), notified)
    });
    let subscriptions = join_all(each).await;
    let (slot, from, to) = two_nodes(&cluster, "{orders}");
    move_slot(&cluster, slot, from, to);
    let moved = || to.cmd(&["PUBSUB", "SHARDCHANNELS"]).texts().len();
    eventually_async(2 * SOON, async || if moved() == subscriptions.len() { Ok(()) } else { Err(moved()) }).await;
    let notified = || subscriptions.iter().filter(|(_, notified)| notified() > 0).count();
    eventually_async(SOON, async || notified() == subscriptions.len()).await;
}

/// A user without the right to ask for sharded channels still uses them, as the other clients do.
// Promise: RC3
#[tokio::test(flavor = "multi_thread")]
async fn sharded_channels_need_no_right_for_pubsub() {
    let cluster = RedisCluster::start(3, 0);
    for node in cluster.iter() {
        node.cmd(&["ACL", "SETUSER", "operator", "-pubsub"]);
    }
    let (redis, other) = (operator(&cluster), operator(&cluster));
    let held = claim("orders");
    assert!(is_granted(&redis, &held).await);
    let (notify, notified) = notifier();
    let _subscription = other.subscribe(&claim("orders"), notify).await.unwrap();
    let node = cluster.master_of(cluster.slot("orders"));
    assert_eq!(node.cmd(&["PUBSUB", "SHARDCHANNELS"]).texts().len(), 1);
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(1) });
    eventually_async(SOON, async || notified() == 1).await;
    let (slot, from, to) = two_nodes(&cluster, "orders");
    move_slot(&cluster, slot, from, to);
    eventually_async(SOON, async || notified() > 1).await;
}
