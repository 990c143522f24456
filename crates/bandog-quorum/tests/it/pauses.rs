//! A client that cannot get a lock pauses between its claims, whatever the nodes answer.

use std::time::Duration;

use bandog_core::{Clock, Inspect, Kind, Step};
use bandog_sync::Client;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    memories::{Nodes, claim, nodes, quorum, step, take},
    node::NodeFault,
};

/// Duration of one request to a node.
const LATENCY: Duration = Duration::from_millis(1);
/// The time for which requests are counted.
const PERIOD: Duration = Duration::from_secs(10);

fn client(nodes: &Nodes) -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(quorum(nodes)).unwrap()
}

/// Nodes whose calls take time. So a client that does not pause makes a finite number of calls in a period.
fn slow_nodes() -> Nodes {
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.latency(LATENCY));
    nodes
}

/// Waits for the lock, and holds it for a moment. The result is the moment of the grant.
fn waiter(client: &Client) -> JoinHandle<Instant> {
    let mutex = client.mutex("orders");
    tokio::spawn(async move {
        let guard = mutex.lock().await.unwrap();
        let granted = Instant::now();
        guard.release().await.unwrap();
        granted
    })
}

/// The number of calls that the nodes receive in [`PERIOD`].
async fn requests(nodes: &Nodes) -> usize {
    let all = || nodes.iter().map(|node| node.requests()).sum::<usize>();
    let before = all();
    sleep(PERIOD).await;
    all() - before
}

/// A server without memory or without replicas refuses writes, and answers pings.
// Promise: RQ10
#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_claims_and_answers_pings_is_not_asked_without_a_pause() {
    let nodes = slow_nodes();
    let (holder, waiting) = (client(&nodes), client(&nodes));
    let guard = holder.mutex("orders").lock().await.unwrap();
    let waiter = waiter(&waiting);
    sleep(Duration::from_secs(1)).await;
    nodes[2].fault(NodeFault::Refuses);
    let number = requests(&nodes).await;
    // Most of them are the release that the node refuses: a ping and a release, 20 times a second.
    assert!(number < 800, "{number} requests in {PERIOD:?}");
    assert!(!guard.is_lost());
    let released = Instant::now();
    guard.release().await.unwrap();
    assert!(waiter.await.unwrap() - released < Duration::from_millis(50));
}

/// The free node grants each claim, which is then handed back because the others refuse.
// Promise: RQ10
#[tokio::test(start_paused = true)]
async fn a_waiter_pauses_while_a_majority_refuses() {
    let nodes = slow_nodes();
    let (holder, waiting) = (client(&nodes), client(&nodes));
    let guard = holder.mutex("orders").lock().await.unwrap();
    let waiter = waiter(&waiting);
    sleep(Duration::from_secs(1)).await;
    nodes[1..].iter().for_each(|node| node.fault(NodeFault::Refuses));
    nodes[0].inner().evict(&claim(Kind::Mutex).key).await.unwrap();
    let number = requests(&nodes).await;
    assert!(number < 1000, "{number} requests in {PERIOD:?}");
    nodes[1..].iter().for_each(|node| node.fault(None));
    guard.release().await.unwrap();
    waiter.await.unwrap();
}

/// The lock is held at two nodes, and the third one is free. So each claim of a waiter is granted there and handed back.
// Promise: RQ10
#[tokio::test(start_paused = true)]
async fn waiters_pause_although_one_node_is_free() {
    let nodes = slow_nodes();
    let theirs = claim(Kind::Mutex);
    for node in &nodes[..2] {
        take(node, &theirs).await.unwrap();
    }
    let clients = [client(&nodes), client(&nodes)];
    let waiters = clients.each_ref().map(waiter);
    sleep(Duration::from_secs(3)).await;
    let number = requests(&nodes).await;
    // Three claims and a release, about twice a second and client.
    assert!(number < 300, "{number} requests of two clients in {PERIOD:?}");
    // The release notifies the waiters of a majority, and they do not pause.
    let released = Instant::now();
    for node in &nodes[..2] {
        step(node, Step::Release(theirs.clone())).await.unwrap();
    }
    let [one, two] = waiters;
    let first = one.await.unwrap().min(two.await.unwrap());
    assert!(first - released < Duration::from_millis(50), "{:?}", first - released);
}
