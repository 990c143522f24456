//! A Redis Cluster for one test.

pub mod moves;
mod reused;

use std::net::SocketAddrV4;
use std::ops::Deref;
use std::time::Duration;

pub use self::reused::ReusedCluster;
use crate::authority::TlsFiles;
use crate::eventually;
use crate::redis::RedisServer;
use crate::resp::Reply;

/// Number of the hash slots of a cluster.
const SLOTS: usize = 16_384;
/// Timeout for the start: all nodes must know each other, and all slots must be served.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// `cluster-node-timeout` of a cluster without replicas, in milliseconds.
const PATIENT: &str = "3000";

/// Several nodes that form a cluster and serve all hash slots.
///
/// In a cluster with replicas, a node counts as down after a second. Then one of its replicas becomes a master. Without
/// replicas this takes 3 s: on a full machine, a node can be silent for a second.
///
/// This dereferences to a slice of the nodes: first the masters, in the order of their slots, then the replicas. Each
/// node is a [`RedisServer`].
///
/// ```no_run
/// use bandog_testkit::RedisCluster;
/// let cluster = RedisCluster::start(3, 1);
/// let slot = cluster.slot("orders");
/// assert_eq!(cluster.master_of(slot).cmd(&["SET", "orders", "1"]).text(), "OK");
/// ```
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    masters: usize,
}

impl RedisCluster {
    /// Starts a cluster with this number of masters, which share the slots equally, and this number of replicas of each
    /// master. This takes one or two seconds.
    #[must_use]
    #[track_caller]
    pub fn start(masters: usize, replicas_each: usize) -> Self {
        Self::start_with(masters, replicas_each, &[])
    }

    /// Starts a cluster whose nodes have additional arguments.
    #[must_use]
    #[track_caller]
    pub fn start_with(masters: usize, replicas_each: usize, args: &[&str]) -> Self {
        let node_timeout = if replicas_each == 0 { PATIENT } else { "1000" };
        let args = [&["--cluster-node-timeout", node_timeout], args].concat();
        Self::of((0..masters * (1 + replicas_each)).map(|_| RedisServer::start_node_with(&args)).collect(), masters)
    }

    /// Starts a cluster of masters that also listen with TLS ([`RedisServer::tls_addr`]), and whose bus uses TLS.
    #[must_use]
    #[track_caller]
    pub fn start_tls(masters: usize, files: &TlsFiles, args: &[&str]) -> Self {
        let args = [&["--cluster-node-timeout", PATIENT], args].concat();
        Self::of((0..masters).map(|_| RedisServer::start_tls_node(files, &args)).collect(), masters)
    }

    /// Makes a cluster of these nodes, of which the first ones are the masters.
    #[track_caller]
    fn of(nodes: Vec<RedisServer>, masters: usize) -> Self {
        let cluster = Self { nodes, masters };
        cluster.assign_slots();
        cluster.meet();
        cluster.add_replicas();
        eventually(READY_WITHIN, || cluster.is_complete());
        cluster
    }

    /// `redis+cluster://127.0.0.1:PORT,127.0.0.1:PORT,…` with the first masters, without passwords.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.nodes.iter().take(self.masters).map(|node| node.addr().to_string()).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The hash slot of a key.
    #[must_use]
    #[track_caller]
    pub fn slot(&self, key: &str) -> u16 {
        let slot = self.running().cmd(&["CLUSTER", "KEYSLOT", key]).int();
        u16::try_from(slot).expect("a slot")
    }

    /// The node that serves this slot now, as the first running node knows it.
    #[must_use]
    #[track_caller]
    pub fn master_of(&self, slot: u16) -> &RedisServer {
        let slots = self.running().cmd(&["CLUSTER", "SLOTS"]);
        let range = slots
            .array()
            .iter()
            .map(Reply::array)
            .find(|range| (range[0].int()..=range[1].int()).contains(&i64::from(slot)));
        let port = range.unwrap_or_else(|| panic!("no node serves the slot {slot}"))[2].array()[1].int();
        self.node_at(u16::try_from(port).expect("a port"))
    }

    /// The id of a node.
    #[must_use]
    #[track_caller]
    pub fn id(node: &RedisServer) -> String {
        node.cmd(&["CLUSTER", "MYID"]).text().to_owned()
    }

    /// The node with this port.
    #[must_use]
    #[track_caller]
    pub fn node_at(&self, port: u16) -> &RedisServer {
        self.nodes.iter().find(|node| node.port() == port).unwrap_or_else(|| panic!("no node has the port {port}"))
    }

    /// The addresses of all nodes.
    #[must_use]
    pub fn addrs(&self) -> Vec<SocketAddrV4> {
        self.nodes.iter().map(RedisServer::addr).collect()
    }

    /// Whether all running nodes say that all slots are served.
    #[must_use]
    #[track_caller]
    pub fn is_ok(&self) -> bool {
        self.nodes.iter().filter(|node| node.is_running()).all(is_ok)
    }

    #[track_caller]
    fn running(&self) -> &RedisServer {
        self.nodes.iter().find(|node| node.is_running()).expect("no node runs")
    }

    /// Gives each master its slots and an epoch of its own. Nodes with equal epochs would first have to agree on others.
    #[track_caller]
    fn assign_slots(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            let epoch = (at + 1).to_string();
            assert_eq!(node.cmd(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).text(), "OK");
        }
        for (at, master) in self.nodes[..self.masters].iter().enumerate() {
            let slots = SLOTS * at / self.masters..SLOTS * (at + 1) / self.masters;
            let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
            let mut command = vec!["CLUSTER", "ADDSLOTS"];
            command.extend(slots.iter().map(String::as_str));
            assert_eq!(master.cmd(&command).text(), "OK");
        }
    }

    /// Introduces each node to each other node. Then no node waits for the gossip of others.
    #[track_caller]
    fn meet(&self) {
        for node in &self.nodes {
            self.introduce(node);
        }
        let all = self.nodes.len().to_string();
        for node in &self.nodes {
            eventually(READY_WITHIN, || {
                let nodes = node.cmd(&["CLUSTER", "NODES"]).text().to_owned();
                let (known, is_meeting) = (field(node, "cluster_known_nodes"), nodes.contains("handshake"));
                // A node forgets another node if the handshake takes longer than the time after which a node is down.
                if known != all && !is_meeting {
                    self.introduce(node);
                }
                if known == all && !is_meeting { Ok(()) } else { Err(nodes) }
            });
        }
    }

    /// Introduces this node to each other node.
    #[track_caller]
    fn introduce(&self, node: &RedisServer) {
        for other in self.nodes.iter().filter(|other| other.port() != node.port()) {
            let port = other.outer_addr().port().to_string();
            assert_eq!(node.cmd(&["CLUSTER", "MEET", "127.0.0.1", &port]).text(), "OK");
        }
    }

    #[track_caller]
    fn add_replicas(&self) {
        let (masters, replicas) = self.nodes.split_at(self.masters);
        for (replica, master) in replicas.iter().zip(masters.iter().cycle()) {
            let id = Self::id(master);
            assert_eq!(replica.cmd(&["CLUSTER", "REPLICATE", &id]).text(), "OK");
        }
    }

    /// Whether all nodes serve, all replicas have their data, and all nodes know which nodes are replicas.
    #[track_caller]
    fn is_complete(&self) -> Result<(), String> {
        let (masters, replicas) = self.nodes.split_at(self.masters);
        let each = (replicas.len() / masters.len()).to_string();
        let has_data = |replica: &RedisServer| replica.info("replication", "master_link_status") == "up";
        let has_replicas = |master: &RedisServer| master.info("replication", "connected_slaves") == each;
        for node in &self.nodes {
            let nodes = node.cmd(&["CLUSTER", "NODES"]).text().to_owned();
            if !is_ok(node) || nodes.matches("slave ").count() != replicas.len() {
                return Err(nodes);
            }
        }
        let complete = replicas.iter().all(has_data) && masters.iter().all(has_replicas);
        complete.then_some(()).ok_or_else(|| "a replica has no data yet".into())
    }
}

impl Deref for RedisCluster {
    type Target = [RedisServer];

    fn deref(&self) -> &[RedisServer] {
        &self.nodes
    }
}

fn is_ok(node: &RedisServer) -> bool {
    field(node, "cluster_state") == "ok"
}

/// The value of a field of `CLUSTER INFO`.
fn field(node: &RedisServer, name: &str) -> String {
    let info = node.cmd(&["CLUSTER", "INFO"]);
    let head = format!("{name}:");
    info.text().lines().find_map(|line| line.strip_prefix(&head)).unwrap_or_default().to_owned()
}
