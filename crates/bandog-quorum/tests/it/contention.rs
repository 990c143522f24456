//! Many clients contend for one lock. One of them gets it, and they do not split the nodes among themselves.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::{Clock, Kind, Step};
use bandog_sync::Client;
use bandog_testkit::eventually_async;
use futures_util::future::join_all;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::memories::{Nodes, SOON, claim, is_held, must_release, nodes, quorum, step, take};

/// A request to a node takes between one and ten milliseconds. So the requests of two clients arrive at the nodes in
/// different orders.
const LATENCY: Duration = Duration::from_millis(1);
const JITTER: Duration = Duration::from_millis(9);
const HOLD: Duration = Duration::from_millis(1);
const PERIOD: Duration = Duration::from_secs(5);

/// The throughput of the contenders.
#[derive(Debug)]
struct Traffic {
    /// Grants per second.
    grants: f64,
    longest_gap: Duration,
    /// Requests to all nodes per grant.
    requests: f64,
}

#[derive(Debug)]
struct Grants {
    number: u32,
    is_held: bool,
    /// The last grant, or the beginning.
    last: Instant,
    longest_gap: Duration,
}

impl Grants {
    fn new() -> Self {
        Self { number: 0, is_held: false, last: Instant::now(), longest_gap: Duration::ZERO }
    }

    fn begin(&mut self) {
        assert!(!std::mem::replace(&mut self.is_held, true), "two clients hold the lock");
        self.note_gap();
        self.number += 1;
    }

    fn note_gap(&mut self) {
        let now = Instant::now();
        self.longest_gap = self.longest_gap.max(now - std::mem::replace(&mut self.last, now));
    }
}

fn slow_nodes(number: usize) -> Nodes {
    let nodes = nodes(number);
    for node in &nodes {
        node.latency(LATENCY);
        node.jitter(JITTER);
    }
    nodes
}

fn client(nodes: &Nodes) -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(quorum(nodes)).unwrap()
}

async fn contend(nodes: &Nodes, clients: usize) -> Traffic {
    contend_for(PERIOD, nodes, clients).await
}

/// Clients that take one lock again and again, for a moment each time. A single node is used without a quorum.
async fn contend_for(period: Duration, nodes: &Nodes, clients: usize) -> Traffic {
    let (grants, mut tasks) = (Arc::new(Mutex::new(Grants::new())), JoinSet::new());
    for _ in 0..clients {
        let options = Client::options().clock(Clock::tokio()).on_current_runtime();
        let client = match &nodes[..] {
            [node] => options.over(node.clone()).unwrap(),
            _ => options.over(quorum(nodes)).unwrap(),
        };
        let grants = Arc::clone(&grants);
        tasks.spawn(async move {
            let mutex = client.mutex("orders");
            loop {
                let guard = mutex.lock().await.unwrap();
                grants.lock().unwrap().begin();
                sleep(HOLD).await;
                grants.lock().unwrap().is_held = false;
                guard.release().await.unwrap();
            }
        });
    }
    sleep(period).await;
    let mut grants = std::mem::replace(&mut *grants.lock().unwrap(), Grants::new());
    grants.note_gap(); // The clients may have stopped before the end.
    let requests: usize = nodes.iter().map(|node| node.requests()).sum();
    let requests = f64::from(u32::try_from(requests).unwrap()) / f64::from(grants.number);
    Traffic { grants: f64::from(grants.number) / period.as_secs_f64(), longest_gap: grants.longest_gap, requests }
}

// Promise: RQ4
#[tokio::test(start_paused = true)]
async fn contenders_do_not_split_the_nodes() {
    for clients in [2, 8, 32] {
        let one = contend(&slow_nodes(1), clients).await;
        for number in [3, 5] {
            let traffic = contend(&slow_nodes(number), clients).await;
            let all = format!("{clients} clients, {number} nodes: {traffic:?}; one node: {one:?}");
            assert!(traffic.grants > one.grants / 5.0, "{all}");
            assert!(traffic.longest_gap < Duration::from_millis(400), "{all}");
            let requests = 40 + 4 * u32::try_from(clients).unwrap();
            assert!(traffic.requests < f64::from(requests), "{all}");
        }
    }
}

/// A client has died after the first node has granted its claim.
// Promise: RQ4
#[tokio::test(start_paused = true)]
async fn a_claim_that_only_the_first_node_has_does_not_stop_the_others() {
    let nodes = slow_nodes(3);
    take(&nodes[0], &claim(Kind::Mutex)).await.unwrap();
    let traffic = contend(&nodes, 4).await;
    assert!(traffic.grants > 8.0 && traffic.longest_gap < Duration::from_secs(1), "{traffic:?}");
}

// Promise: RQ4
#[tokio::test(start_paused = true)]
async fn contenders_do_not_wait_for_a_first_node_that_hangs() {
    let nodes = slow_nodes(3);
    let first = nodes[0].clone();
    let (before, hangs_for) = (Duration::from_secs(1), Duration::from_secs(10));
    tokio::spawn(async move {
        sleep(before).await;
        first.hang(true);
        sleep(hangs_for).await;
        first.hang(false);
    });
    let traffic = contend_for(before + hangs_for + before, &nodes, 8).await;
    // A call waits for the node for one second at most. The node is left out when it has not answered a ping, which takes
    // another second. Then the contenders need a few rounds until one of them has both other nodes.
    assert!(traffic.grants > 15.0 && traffic.longest_gap < Duration::from_secs(3), "{traffic:?}");
}

/// Cron starts the same command on several machines in the same second. Each of them could get one node, and none a majority.
// Promise: RQ4
#[tokio::test(start_paused = true)]
async fn of_simultaneous_attempts_one_gets_a_free_lock() {
    for (number, is_one_down) in [(2, true), (3, false), (3, true), (8, false)] {
        let nodes = slow_nodes(3);
        let clients: Vec<_> = (0..number).map(|_| client(&nodes)).collect();
        for client in &clients {
            client.mutex("before").lock().await.unwrap().release().await.unwrap();
        }
        nodes[0].hang(is_one_down);
        for client in clients.iter().filter(|_| is_one_down) {
            // The clients learn that the node does not answer.
            client.mutex("before").lock().await.unwrap().release().await.unwrap();
            sleep(Duration::from_secs(3)).await;
        }
        for round in 0..100 {
            let attempts = clients.iter().map(|client| {
                let mutex = client.mutex(format!("job-{round}"));
                async move { mutex.try_lock().await.unwrap() }
            });
            let guards: Vec<_> = join_all(attempts).await.into_iter().flatten().collect();
            assert_eq!(guards.len(), 1, "round {round}, {number} clients, one node is down: {is_one_down}");
        }
    }
}

/// The usual case: one other client holds the lock, at all nodes.
// Promise: RQ10
#[tokio::test(start_paused = true)]
async fn an_attempt_for_a_held_lock_costs_no_additional_request() {
    // All nodes are equally fast, so none is pinged because it is slower than the others.
    let nodes = nodes(3);
    nodes.iter().for_each(|node| node.latency(LATENCY));
    let (holder, other) = (client(&nodes), client(&nodes));
    let _guard = holder.mutex("orders").lock().await.unwrap();
    other.mutex("before").lock().await.unwrap().release().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let requests = || nodes.iter().map(|node| node.requests()).sum::<usize>();
    let before = requests();
    assert!(other.mutex("orders").try_lock().await.unwrap().is_none());
    sleep(Duration::from_millis(50)).await;
    assert!(requests() - before <= 3, "{}", requests() - before);
}

/// One other client holds the lock at a majority, and one node is free. An attempt ends with the answer of the nodes, and
/// does not wait until the deadline.
#[tokio::test(start_paused = true)]
async fn an_attempt_for_a_lock_that_a_majority_holds_ends_early() {
    let nodes = slow_nodes(3);
    let theirs = claim(Kind::Mutex);
    for node in &nodes[..2] {
        take(node, &theirs).await.unwrap();
    }
    let client = client(&nodes);
    client.mutex("before").lock().await.unwrap().release().await.unwrap();
    let began = Instant::now();
    assert!(client.mutex("orders").try_lock().await.unwrap().is_none());
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}

/// A node still has an earlier request of the claim, and must release it. If it were asked again, it would grant the claim
/// and then release it.
// Promise: RQ2
#[tokio::test(start_paused = true)]
async fn a_node_that_must_release_the_claim_is_not_asked_again() {
    let nodes = nodes(3);
    let (quorum, ours) = (quorum(&nodes), claim(Kind::Mutex));
    let theirs = must_release(&quorum, &nodes, &ours).await;
    step(&nodes[0], Step::Release(theirs)).await.unwrap();
    // Now the first node grants the claim, and it is asked first.
    assert!(take(&quorum, &ours).await.is_none(), "a node counts that has not released the earlier request");
    nodes[1].fault(None);
    for node in &nodes[..2] {
        eventually_async(SOON, async || !is_held(node, &ours.key).await).await;
    }
}
