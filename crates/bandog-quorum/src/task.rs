//! The task of a node. It releases claims that the node might have granted, claims holds again that the node has lost,
//! checks whether a silent node answers again, and reports new connections.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::QuorumNode;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::node::Node;

/// Interval between two checks of a node that does not answer, and between two attempts of releases and repairs that have
/// failed. A node that does not refuse connections takes its whole timeout for each check.
const RETRY: Duration = Duration::from_millis(50);

/// The tasks of all nodes of a quorum. The tasks end when this value is dropped and no release is due.
#[derive(Debug)]
pub(crate) struct Tasks<B: QuorumNode> {
    nodes: Vec<Arc<Node<B>>>,
    /// Whether the task of each node runs.
    running: Vec<Arc<AtomicBool>>,
    /// Set when the quorum is dropped.
    closed: watch::Sender<bool>,
    /// The number of connections to all nodes, and of returns of silent nodes.
    epoch: Arc<watch::Sender<u64>>,
}

impl<B: QuorumNode> Tasks<B> {
    pub(crate) fn new(nodes: Vec<Arc<Node<B>>>) -> Self {
        let running = nodes.iter().map(|_| Arc::default()).collect();
        // The client ignores the number 1, which stands for the first connection. First connections are not counted here.
        Self { nodes, running, closed: watch::Sender::new(false), epoch: Arc::new(watch::Sender::new(1)) }
    }

    pub(crate) fn epoch(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    /// Starts the tasks that do not run, on the runtime of this call.
    pub(crate) fn start(&self) {
        for (node, running) in self.nodes.iter().zip(&self.running) {
            if !running.swap(true, Relaxed) {
                let (running, closed) = (Running(running.clone()), self.closed.subscribe());
                tokio::spawn(run(node.clone(), running, closed, self.epoch.clone()));
            }
        }
    }
}

impl<B: QuorumNode> Drop for Tasks<B> {
    fn drop(&mut self) {
        self.closed.send_replace(true);
    }
}

/// Records that a task has ended. A runtime that shuts down drops this value together with the task. Then the next call
/// starts a new task on its own runtime.
struct Running(Arc<AtomicBool>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

async fn run<B: QuorumNode>(
    node: Arc<Node<B>>,
    running: Running,
    mut closed: watch::Receiver<bool>,
    epoch: Arc<watch::Sender<u64>>,
) {
    let report_connections = async {
        let mut epochs = node.epochs();
        while epochs.changed().await.is_ok() {
            // A server that has restarted stores the maximum ttl again, and claims know early that it has no vote. After
            // this, the server is ready, so it answers the renewals that follow as fast as the other nodes.
            let _ = timeout(node.limit, node.check_vote()).await;
            // Before its first connection, a node can have lost nothing.
            if *epochs.borrow() > 1 {
                node.connected_again();
            }
        }
        std::future::pending::<()>().await; // A backend that never connects again.
    };
    let report_returns = async {
        loop {
            node.returned.notified().await;
            epoch.send_modify(|epoch| *epoch += 1);
        }
    };
    let settle = async {
        loop {
            while !node.settle().await {
                sleep(RETRY).await;
            }
            node.work.notified().await;
        }
    };
    tokio::select! {
        () = report_connections => {}
        () = report_returns => {}
        () = settle => {}
        // An error means that the quorum was dropped.
        _ = closed.wait_for(|closed| *closed) => {}
    }
    if node.owes() {
        node.settle().await; // One more attempt. The other holds expire after their ttl.
    }
    drop(running);
}
