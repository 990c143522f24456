//! A Redis Cluster whose nodes require TLS.

use bandog_core::{ErrorKind, Leases, Released, Renewal, Verdict};
use bandog_testkit::{Authority, RedisCluster, RedisServer, eventually_async};

use crate::{
    cluster::names,
    help::{SOON, at, claim, is_granted, notifier, release, renew, take},
    moves::{begin_move, two_nodes},
};

/// The URL of one node. The client learns the other nodes from it.
fn url(node: &RedisServer, authority: &Authority) -> String {
    format!("rediss+cluster://{}@{}?ca={}", RedisServer::LEAST, node.tls_addr(), authority.ca.display())
}

/// The nodes publish IP addresses, for which their certificate is made.
fn start(authority: &Authority) -> RedisCluster {
    RedisCluster::start_tls(3, &authority.issue("127.0.0.1", |_| ()), &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_all_nodes_work_over_tls() {
    let authority = Authority::new("shop");
    let cluster = start(&authority);
    let [redis, other] = [(); 2].map(|()| at(&url(&cluster[0], &authority)));
    for name in names(&cluster) {
        let (held, waiting) = (claim(&name), claim(&name));
        assert!(is_granted(&redis, &held).await && !is_granted(&other, &waiting).await, "{name}");
        let (on_release, notified) = notifier();
        let _subscription = other.subscribe(&waiting, on_release).await.unwrap();
        assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }), "{name}");
        assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(1) });
        eventually_async(SOON, async || notified() == 1).await;
        assert!(is_granted(&other, &waiting).await, "{name}");
    }
    for node in cluster.iter() {
        let clients = node.cmd(&["CLIENT", "LIST"]);
        let of_locks: Vec<&str> = clients.text().lines().filter(|line| line.contains(" user=locks ")).collect();
        let local = format!(" laddr=127.0.0.1:{} ", node.tls_addr().port());
        assert!(!of_locks.is_empty() && of_locks.iter().all(|line| line.contains(&local)), "{of_locks:?}");
    }
}

/// The node names the port of the other node for clients with TLS.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_followed_to_another_node_over_tls() {
    let authority = Authority::new("shop");
    let cluster = start(&authority);
    let redis = at(&url(&cluster[0], &authority));
    // The client knows the slots of all nodes.
    for name in names(&cluster) {
        assert!(is_granted(&redis, &claim(&name)).await);
    }
    let (slot, from, to) = two_nodes(&cluster, "orders");
    begin_move(slot, from, to);
    let (number, id) = (slot.to_string(), RedisCluster::id(to));
    for node in [to, from] {
        assert_eq!(node.cmd(&["CLUSTER", "SETSLOT", &number, "NODE", &id]).text(), "OK");
    }
    let held = claim("orders");
    assert!(is_granted(&redis, &held).await);
    assert_eq!(to.hash("orders").len(), 1, "the new node has the lock");
    assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) });
}

/// The certificate is made for a name, so the nodes must publish this name.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_publish_a_host_name_need_a_certificate_for_it() {
    let authority = Authority::new("shop");
    let args = ["--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"];
    let cluster = RedisCluster::start_tls(3, &authority.issue("localhost", |_| ()), &args);
    let redis = at(&url(&cluster[0], &authority).replace("127.0.0.1", "localhost"));
    for name in names(&cluster) {
        // The nodes learn the names of each other a short time after the start.
        let held = claim(&name);
        eventually_async(SOON, async || matches!(take(&redis, &held).await, Ok(Verdict::Granted { .. }))).await;
        assert_eq!(release(&redis, &held).await.unwrap(), Released::Freed { others: Some(0) }, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_other_names_is_refused() {
    let authority = Authority::new("shop");
    let cluster = RedisCluster::start_tls(3, &authority.issue("localhost", |_| ()), &[]);
    let error = at(&url(&cluster[0], &authority)).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("it was not issued for this host"), "{error}");
}
