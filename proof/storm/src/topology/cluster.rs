//! A Redis Cluster of three masters with a replica each.
//!
//! Each grant waits for the replica of its master (`?replicas=1`), which is the only server that can take over. That is
//! why no grant may be lost in this store.

use std::{collections::BTreeSet, time::Duration};

use bandog_testkit::{RedisCluster, RedisServer, moves::move_names};

use super::{Replication, kill, repaired, text};
use crate::{
    fault::FaultKind,
    plan::{self, BARRIERS, LONG, NAMES},
};

const MASTERS: usize = 3;
/// Time in milliseconds without an answer, after which a node is down. It is longer than the stops of single nodes, and so
/// long that a busy machine rarely causes a failover.
const NODE_TIMEOUT: &str = "1500";

/// Maximum pauses between the moves of two keys of a slot. For such a time, the keys of a lock are on two nodes.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(10), Duration::from_millis(100)];

/// The nodes of the cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    nodes: RedisCluster,
    /// Chooses names whose slots move.
    movable: fn(&mut fastrand::Rng) -> Vec<String>,
}

impl Cluster {
    pub(crate) fn start(movable: fn(&mut fastrand::Rng) -> Vec<String>) -> Self {
        let nodes = RedisCluster::start_with(MASTERS, 1, &["--cluster-node-timeout", NODE_TIMEOUT]);
        Self { nodes, movable }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?replicas=1", self.nodes.url())
    }

    pub(crate) fn servers(&self) -> Vec<&RedisServer> {
        self.nodes.iter().collect()
    }

    /// The ports of the masters that have slots, as the first node that answers knows them.
    pub(crate) fn masters(&self) -> Option<BTreeSet<u16>> {
        let nodes =
            self.nodes.iter().filter(|node| node.is_running()).find_map(|node| text(node, &["CLUSTER", "NODES"]))?;
        Some(nodes.lines().map(Line::new).filter(Line::has_slots).filter_map(|line| line.port()).collect())
    }

    /// The number of the node that such a fault affects.
    pub(crate) fn victim(&self, kind: FaultKind, random: &mut fastrand::Rng) -> usize {
        let ports = self.masters().unwrap_or_default();
        let (masters, replicas): (Vec<_>, Vec<_>) =
            (0..self.nodes.len()).partition(|at| ports.contains(&self.nodes[*at].port()));
        let nodes = match kind {
            FaultKind::MasterKilled
            | FaultKind::MasterStopped
            | FaultKind::SlotsMoved
            | FaultKind::Flushed
            | FaultKind::Full
            | FaultKind::RightMissing => masters,
            FaultKind::HandedOver => replicas,
            _ => (0..self.nodes.len()).collect(),
        };
        random.choice(nodes).unwrap_or(0)
    }

    pub(crate) fn begin(&self, kind: FaultKind, victim: usize, random: &mut fastrand::Rng) {
        let node = &self.nodes[victim];
        match kind {
            FaultKind::MasterKilled => {
                let follows = |other: &&RedisServer| Replication::of(other).follows(node.port());
                kill(node, &self.nodes.iter().filter(follows).collect::<Vec<_>>(), random);
            }
            FaultKind::MasterStopped => node.pause(),
            // A replica refuses the order while its master does not answer. Then nothing happens.
            FaultKind::HandedOver => drop(node.try_cmd(&["CLUSTER", "FAILOVER"])),
            FaultKind::SlotsMoved => {
                let names = (self.movable)(random);
                move_names(&self.nodes, &names, node, random.choice(PAUSES).unwrap_or_default());
            }
            _ => unreachable!("the nemesis causes this fault at a single server"),
        }
    }

    /// Removes the fault. Before a failover has ended, this waits until the replica has taken over.
    pub(crate) fn end(&self, kind: FaultKind, victim: usize) -> Result<(), String> {
        let node = &self.nodes[victim];
        let promoted = || {
            let masters = self.masters().unwrap_or_default();
            let is_replaced = masters.len() == MASTERS && !masters.contains(&node.port());
            (!is_replaced).then(|| format!("no replica of {} has taken over", node.port()))
        };
        match kind {
            FaultKind::MasterKilled => {
                repaired(promoted)?;
                node.restart();
            }
            FaultKind::MasterStopped => {
                let result = repaired(promoted);
                node.resume();
                return result;
            }
            _ => {}
        }
        Ok(())
    }

    /// The reason why not all nodes work. `None` if a further fault may follow.
    pub(crate) fn problem(&self) -> Option<String> {
        let mut views = BTreeSet::new();
        for node in self.nodes.iter() {
            let nodes = text(node, &["CLUSTER", "NODES"]).unwrap_or_default();
            let lines: Vec<_> = nodes.lines().map(Line::new).collect();
            let info = text(node, &["CLUSTER", "INFO"]).unwrap_or_default();
            let is_well = info.contains("cluster_state:ok")
                && lines.len() == self.nodes.len()
                && lines.iter().all(Line::is_connected)
                && lines.iter().filter(|line| line.has_slots()).count() == MASTERS;
            let replication = Replication::of(node);
            let has_data = replication.has_replicas(1) || replication.is_replica_of(None);
            if !is_well || !has_data {
                return Some(format!("the node {} is not ready: {nodes} {:?}", node.port(), replication.0));
            }
            views.insert(lines.iter().map(Line::view).collect::<BTreeSet<_>>());
        }
        (views.len() > 1).then(|| "the nodes do not know the same".into())
    }
}

/// Names of locks whose slots move.
pub(crate) fn locks(random: &mut fastrand::Rng) -> Vec<String> {
    // The elections are locks, too, and the records of barriers have one slot together.
    let any = random.usize(..4);
    let any = random.choose_multiple(0..BARRIERS.end, any);
    // These locks are held for most of the time.
    let held = random.usize(1..=LONG);
    let held = random.choose_multiple(NAMES - LONG..NAMES, held);
    any.into_iter().chain(held).map(key).collect()
}

/// A key in the slot of the lock or the latch with this number, or in the slot of all barriers.
fn key(number: usize) -> String {
    if BARRIERS.contains(&number) { "{/}".into() } else { plan::mutex(number) }
}

/// A line of `CLUSTER NODES`. Its fields are: id, address, flags, master, two times, epoch, state of the link, slots.
struct Line<'a>(Vec<&'a str>);

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        Self(line.split(' ').collect())
    }

    /// The port in an address such as `127.0.0.1:7001@17001`.
    fn port(&self) -> Option<u16> {
        self.0.get(1)?.split_once(':')?.1.split('@').next()?.parse().ok()
    }

    fn flags(&self) -> &'a str {
        self.0.get(2).copied().unwrap_or_default().trim_start_matches("myself,")
    }

    fn has_slots(&self) -> bool {
        self.flags().starts_with("master") && self.0.len() > 8
    }

    /// Whether the node answers, and is a master or a replica.
    fn is_connected(&self) -> bool {
        let is_connected = self.0.get(7).is_some_and(|link| *link == "connected");
        ["master", "slave"].contains(&self.flags()) && is_connected
    }

    /// The id, the flags, the epoch and the slots.
    fn view(&self) -> String {
        let slots = self.0.get(8..).unwrap_or_default().join(" ");
        format!("{} {} {} {slots}", self.0[0], self.flags(), self.0.get(6).copied().unwrap_or_default())
    }
}
