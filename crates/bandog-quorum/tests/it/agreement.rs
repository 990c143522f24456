//! All clients of a quorum have the same maximum ttl, and name the same number of nodes.

use std::time::Duration;

use bandog_core::{Claim, ErrorKind, Kind, Leases, Memory, QuorumNode, Step};
use bandog_quorum::{Quorum, QuorumOptions};
use bandog_testkit::eventually_async;

use crate::{
    memories::{Nodes, SOON, claim, nodes, step, take},
    node::TestNode,
};

/// The name of the setting at each node.
const NAME: &str = "quorum:max_ttl";

fn quorum(nodes: &[TestNode<Memory>], max_ttl: u64) -> Quorum<TestNode<Memory>> {
    Quorum::new(nodes.to_vec(), QuorumOptions::default().max_ttl(Duration::from_secs(max_ttl))).unwrap()
}

async fn stored(node: &TestNode<Memory>) -> Option<String> {
    node.inner().setting(NAME, None).await.unwrap()
}

// Promise: RQ9
#[tokio::test(start_paused = true)]
async fn a_client_with_another_maximum_is_refused() {
    let nodes = nodes(3);
    let (first, second) = (quorum(&nodes, 60), quorum(&nodes, 20));
    first.ping().await.unwrap();
    let error = second.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    let text = error.to_string();
    assert!(text.contains("max_ttl is 20s here") && text.contains("use 1m "), "{text}");
    // A client that does not connect first is refused, too.
    let short = Claim { ttl: Duration::from_secs(10), ..claim(Kind::Mutex) };
    let error = step(&quorum(&nodes, 20), Step::Claim(short)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(take(&quorum(&nodes, 60), &claim(Kind::Mutex)).await.is_some());
}

/// A node that has restarted has no maximum. A client with a wrong one does not write it there.
// Promise: RQ9
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

// Promise: RQ9
#[tokio::test(start_paused = true)]
async fn a_node_that_restarts_stores_the_maximum_again() {
    let nodes = nodes(3);
    let quorum = quorum(&nodes, 60);
    assert!(take(&quorum, &claim(Kind::Mutex)).await.is_some());
    for node in &nodes {
        node.restart();
        eventually_async(SOON, async || stored(node).await == Some("60000ms of 3 nodes".into())).await;
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

/// Two clients whose lists have different numbers of nodes could both get the same lock.
// Promise: RQ9
#[tokio::test(start_paused = true)]
async fn a_client_that_names_another_number_of_nodes_is_refused() {
    for (first, others) in [(3, 5), (5, 3), (3, 4)] {
        let all = nodes(5);
        let ours = quorum(&all[..first], 60);
        ours.ping().await.unwrap();
        let error = quorum(&all[..others], 60).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("names {others} servers")) && text.contains(&format!("name {first} ")),
            "{text}"
        );
        // A client that does not connect first is refused, too, and leaves no trace.
        let error = step(&quorum(&all[..others], 60), Step::Claim(claim(Kind::Mutex))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
        for node in &all[first..] {
            assert_eq!(stored(node).await, None);
        }
        // The other order of the same nodes is the same list.
        let reversed: Nodes = all[..first].iter().rev().cloned().collect();
        assert!(take(&quorum(&reversed, 60), &claim(Kind::Mutex)).await.is_some());
    }
}

/// The text of an older version has no number. A text that nobody can read is refused.
// Promise: RQ9
#[tokio::test(start_paused = true)]
async fn a_text_without_the_number_of_nodes_is_accepted() {
    let nodes = nodes(3);
    for node in &nodes {
        node.inner().setting(NAME, Some("60000ms")).await.unwrap();
    }
    quorum(&nodes, 60).ping().await.unwrap();
    assert!(quorum(&nodes, 20).ping().await.unwrap_err().to_string().contains("use 1m "));
    let unknown = crate::memories::nodes(3);
    unknown[0].inner().setting(NAME, Some("v9")).await.unwrap();
    let error = quorum(&unknown, 60).ping().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Misused && error.to_string().contains("cannot read"), "{error}");
}
