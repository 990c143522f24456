//! Which node has which slot.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use redis::Pipeline;

use super::acknowledgements::Acknowledgements;
use crate::{options::Host, server::Server, slots::SLOTS};

/// Time for which a node without slots is kept after another node has named it. So while a slot moves to a new node, its
/// connection stays open.
const KEPT: Duration = Duration::from_secs(60);

/// Time for which an answer with an older epoch does not replace the map. After this time, it can be a new cluster.
const EPOCH_TRUST: Duration = Duration::from_secs(30);

/// The answer of a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Topology {
    /// The first and the last slot of each range, and the master that has it.
    pub(super) ranges: Vec<(u16, u16, Host)>,
    /// Whether the node knows sharded channels.
    pub(super) sharded: bool,
    /// Whether the node says that the cluster serves all slots.
    pub(super) is_ok: bool,
    /// The epoch that the node knows. Each failover and each move of a slot makes it greater. None if the user has no
    /// right to read it.
    pub(super) epoch: Option<u64>,
}

/// A node of the cluster.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) host: Host,
    pub(crate) server: Server,
    pub(super) acknowledgements: Acknowledgements,
    /// Whether the connection is being checked.
    pub(super) is_checked: AtomicBool,
}

/// Makes a node of the cluster. The flag says whether messages are published on sharded channels.
pub(super) type Open<'a> = &'a dyn Fn(&Host, bool) -> Node;

/// The check of a connection. It ends when this is dropped, also if its runtime shuts down.
struct Check(Arc<Node>);

impl Drop for Check {
    fn drop(&mut self) {
        self.0.is_checked.store(false, Relaxed);
    }
}

impl Node {
    /// Checks the connection, because a call was given up before its deadline. If the node answers nothing for the timeout
    /// of a request, the connection is opened again: it might be half open.
    pub(super) fn check(self: &Arc<Self>) {
        if self.is_checked.swap(true, Relaxed) {
            return;
        }
        let check = Check(self.clone());
        tokio::spawn(async move {
            let link = &check.0.server.link;
            let mut ping = Pipeline::new();
            ping.cmd("PING");
            if link.call(ping).await.is_err() {
                link.give_up();
            }
        });
    }
}

/// The nodes, and the slots that they have.
#[derive(Debug, Default)]
pub(super) struct Map {
    /// The node of each slot. Empty until the first map was fetched.
    owners: Vec<Option<Arc<Node>>>,
    nodes: BTreeMap<Host, Arc<Node>>,
    /// When a node was last named by another node that had no slot or no key for a command.
    named: BTreeMap<Host, Instant>,
    /// Whether messages are published on sharded channels. None until the first map was fetched.
    sharded: Option<bool>,
    /// The epoch of the map, and when a node last confirmed it.
    epoch: Option<(u64, Instant)>,
}

impl Map {
    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    pub(super) fn is_sharded(&self) -> bool {
        self.sharded == Some(true)
    }

    /// The least epoch of an answer that may replace the map.
    pub(super) fn recent_epoch(&self) -> Option<u64> {
        self.epoch.filter(|(_, confirmed)| confirmed.elapsed() < EPOCH_TRUST).map(|(epoch, _)| epoch)
    }

    /// The node that has this slot.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        self.owners.get(usize::from(slot)).cloned().flatten()
    }

    /// All known nodes: first those with an open connection, then the others.
    pub(super) fn by_readiness(&self) -> Vec<Arc<Node>> {
        let mut nodes = self.nodes();
        nodes.sort_by_key(|node| !node.server.link.is_open());
        nodes
    }

    /// The nodes that have slots, in the order of their addresses.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        let has_slot = |node: &&Arc<Node>| self.owners.iter().flatten().any(|owner| Arc::ptr_eq(owner, node));
        self.nodes.values().filter(has_slot).cloned().collect()
    }

    /// Whether this is a known node.
    pub(super) fn has(&self, node: &Arc<Node>) -> bool {
        self.nodes.get(&node.host).is_some_and(|known| Arc::ptr_eq(known, node))
    }

    /// All known nodes.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.values().cloned().collect()
    }

    /// Replaces the map. A node that stays in the map keeps its connections.
    pub(super) fn apply(&mut self, topology: &Topology, open: Open<'_>) {
        self.sharded = self.sharded.or(Some(topology.sharded));
        let mut owners = vec![None; usize::from(SLOTS)];
        for (from, to, host) in &topology.ranges {
            let node = self.node(host, open);
            if let Some(range) = owners.get_mut(usize::from(*from)..=usize::from(*to)) {
                range.fill(Some(node));
            }
        }
        self.owners = owners;
        self.epoch = topology.epoch.map(|epoch| (epoch, Instant::now()));
        self.named.retain(|_, named| named.elapsed() < KEPT);
        let named = &self.named;
        self.nodes
            .retain(|host, _| named.contains_key(host) || topology.ranges.iter().any(|(.., owner)| owner == host));
    }

    /// Keeps the node at this address for a while, although it may have no slot.
    pub(super) fn keep(&mut self, host: &Host) {
        self.named.insert(host.clone(), Instant::now());
    }

    /// Corrects the owner of one slot.
    pub(super) fn set_owner(&mut self, slot: u16, node: Arc<Node>) {
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = Some(node);
        }
    }

    /// The node at this address.
    pub(super) fn node(&mut self, host: &Host, open: Open<'_>) -> Arc<Node> {
        let sharded = self.is_sharded();
        self.nodes.entry(host.clone()).or_insert_with(|| Arc::new(open(host, sharded))).clone()
    }
}
