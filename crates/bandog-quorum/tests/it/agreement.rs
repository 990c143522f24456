//! All clients of a quorum have the same maximum ttl.

use std::time::Duration;

use bandog_core::{Claim, ErrorKind, Kind, Leases, Memory, Step};
use bandog_quorum::{Quorum, QuorumOptions};
use bandog_testkit::eventually_async;

use crate::{
    memories::{Nodes, SOON, claim, nodes, step, take},
    node::TestNode,
};

/// The name of the setting at each node.
const NAME: &str = "quorum:max_ttl";

fn quorum(nodes: &Nodes, max_ttl: u64) -> Quorum<TestNode<Memory>> {
    Quorum::new(nodes.clone(), QuorumOptions::default().max_ttl(Duration::from_secs(max_ttl))).unwrap()
}

async fn stored(node: &TestNode<Memory>) -> Option<String> {
    node.inner().setting(NAME, None).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_with_another_maximum_is_refused() {
    let nodes = nodes(3);
    let (first, second) = (quorum(&nodes, 60), quorum(&nodes, 20));
    first.ping().await.unwrap();
    let error = second.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    let text = error.to_string();
    assert!(text.contains("max_ttl is 20000ms here") && text.contains("use 60000ms"), "{text}");
    // A client that does not connect first is refused, too.
    let short = Claim { ttl: Duration::from_secs(10), ..claim(Kind::Mutex) };
    let error = step(&quorum(&nodes, 20), Step::Claim(short)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(take(&quorum(&nodes, 60), &claim(Kind::Mutex)).await.is_some());
}

/// A node that has restarted has no maximum. A client with a wrong one does not write it there.
#[tokio::test(start_paused = true)]
async fn a_client_that_is_refused_leaves_no_trace() {
    let nodes = nodes(3);
    let first = quorum(&nodes, 60);
    first.ping().await.unwrap();
    drop(first);
    nodes[2].restart();
    assert!(quorum(&nodes, 20).ping().await.is_err());
    let short = Claim { ttl: Duration::from_secs(10), ..claim(Kind::Mutex) };
    assert!(step(&quorum(&nodes, 20), Step::Claim(short)).await.is_err());
    assert_eq!(stored(&nodes[2]).await, None);
    quorum(&nodes, 60).ping().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_restarts_stores_the_maximum_again() {
    let nodes = nodes(3);
    let quorum = quorum(&nodes, 60);
    assert!(take(&quorum, &claim(Kind::Mutex)).await.is_some());
    for node in &nodes {
        node.restart();
        eventually_async(SOON, async || stored(node).await == Some("60000ms".into())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn clients_agree_while_a_node_does_not_answer() {
    let nodes = nodes(3);
    nodes[0].hang(true);
    quorum(&nodes, 60).ping().await.unwrap();
    assert_eq!(stored(&nodes[0]).await, None);
    assert!(quorum(&nodes, 20).ping().await.is_err());
    nodes[0].hang(false);
    assert!(quorum(&nodes, 20).ping().await.is_err());
}
