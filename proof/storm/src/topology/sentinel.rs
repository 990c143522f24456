//! A master, its two replicas, and three sentinels.
//!
//! Each grant waits for both replicas (`?replicas=2`). So whichever of them takes over has the lock, and a master that
//! has been replaced gets no acknowledgements any more. That is why no grant may be lost in this store.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use bandog_testkit::{RedisServer, Replica, Sentinels};

use super::{Replication, kill, repaired, text, texts};
use crate::fault::FaultKind;

/// The name of the master.
const MASTER: &str = "storm";
/// Time in milliseconds without an answer, after which a master is down. It is longer than the stops of replicas, and so
/// long that a busy machine rarely causes a failover.
const DOWN_AFTER: &str = "1200";
/// A failed failover is repeated after twice this time, in milliseconds.
const FAILOVER_TIMEOUT: &str = "2000";

/// Interval at which a failover is ordered again.
const ORDER_INTERVAL: Duration = Duration::from_secs(6);

/// The servers and their sentinels.
///
/// The sentinels are dropped first. Otherwise, another server could get the port of the master while they still watch it.
#[derive(Debug)]
pub(crate) struct Watched {
    sentinels: Sentinels,
    replicas: Vec<Replica>,
    first: RedisServer,
}

impl Watched {
    pub(crate) fn start() -> Self {
        let first = RedisServer::start();
        let replicas = vec![RedisServer::replica_of(&first), RedisServer::replica_of(&first)];
        let sentinels = Sentinels::start(3, &first, MASTER);
        sentinels.set("down-after-milliseconds", DOWN_AFTER);
        sentinels.set("failover-timeout", FAILOVER_TIMEOUT);
        Self { sentinels, replicas, first }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?replicas={}", self.sentinels.url(), self.replicas.len())
    }

    /// All servers with data.
    pub(crate) fn servers(&self) -> Vec<&RedisServer> {
        let replicas: Vec<&RedisServer> = self.replicas.iter().map(|replica| &**replica).collect();
        [&[&self.first], &replicas[..]].concat()
    }

    /// The port of the master, as the first sentinel that answers names it.
    pub(crate) fn masters(&self) -> Option<BTreeSet<u16>> {
        let named = self.sentinels.iter().filter(|sentinel| sentinel.is_running()).find_map(named);
        named.map(|port| BTreeSet::from([port]))
    }

    /// The number of the server, or of the sentinel, that such a fault affects.
    pub(crate) fn victim(&self, kind: FaultKind, random: &mut fastrand::Rng) -> usize {
        let (servers, master) = (self.servers(), self.masters().unwrap_or_default());
        let is_master = |at: &usize| master.contains(&servers[*at].port());
        let (masters, replicas): (Vec<_>, Vec<_>) = (0..servers.len()).partition(is_master);
        match kind {
            FaultKind::SentinelKilled | FaultKind::SentinelStopped => random.usize(..self.sentinels.len()),
            FaultKind::ServerStop => random.choice(replicas).unwrap_or(0),
            _ => masters.first().copied().unwrap_or(0),
        }
    }

    pub(crate) fn begin(&self, kind: FaultKind, victim: usize, random: &mut fastrand::Rng) {
        match kind {
            FaultKind::SentinelKilled => self.sentinels[victim].kill(),
            FaultKind::SentinelStopped => self.sentinels[victim].pause(),
            FaultKind::MasterKilled => {
                let mut others = self.servers();
                let master = others.remove(victim);
                kill(master, &others, random);
            }
            FaultKind::MasterStopped => self.servers()[victim].pause(),
            FaultKind::Failover => self.sentinels.order_failover(),
            _ => unreachable!("the nemesis causes this fault at a single server"),
        }
    }

    /// Removes the fault. Before a failover has ended, this waits until a sentinel names another master.
    pub(crate) fn end(&self, kind: FaultKind, victim: usize) -> Result<(), String> {
        let server = self.servers()[victim];
        let promoted = || {
            let masters = self.masters();
            let is_other = masters.is_some_and(|masters| !masters.contains(&server.port()));
            (!is_other).then(|| format!("no replica of {} has taken over", server.port()))
        };
        match kind {
            FaultKind::SentinelKilled => self.sentinels[victim].restart(),
            FaultKind::SentinelStopped => self.sentinels[victim].resume(),
            FaultKind::MasterKilled => {
                repaired(promoted)?;
                server.restart();
                // A sentinel would do this after ten seconds.
                let master = self.masters().and_then(|masters| masters.first().copied()).unwrap_or_default();
                let ordered = text(server, &["REPLICAOF", "127.0.0.1", &master.to_string()]);
                return ordered.map(drop).ok_or_else(|| "a server does not become a replica".into());
            }
            FaultKind::MasterStopped => {
                let result = repaired(promoted);
                server.resume();
                return result;
            }
            FaultKind::Failover => {
                let mut ordered = Instant::now();
                return repaired(|| {
                    let problem = promoted();
                    // Sentinels give up an ordered failover if the machine is too slow.
                    if problem.is_some() && ordered.elapsed() > ORDER_INTERVAL {
                        ordered = Instant::now();
                        self.sentinels.order_failover();
                    }
                    problem
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// The reason why not all servers and sentinels work. `None` if a further fault may follow.
    pub(crate) fn problem(&self) -> Option<String> {
        let servers = self.servers();
        let masters: BTreeSet<_> = self.sentinels.iter().map(named).collect();
        let master = masters.first().copied().flatten().filter(|_| masters.len() == 1);
        let Some(port) = master else { return Some(format!("the sentinels name {masters:?}")) };
        for server in &servers {
            let replication = Replication::of(server);
            let is_well = match server.port() == port {
                true => replication.has_replicas(servers.len() - 1),
                false => replication.is_replica_of(Some(port)),
            };
            if !is_well {
                return Some(format!("the server {} is not ready: {:?}", server.port(), replication.0));
            }
        }
        self.sentinels.iter().find_map(|sentinel| unready(sentinel, &servers))
    }
}

/// The port of the master that this sentinel names.
fn named(sentinel: &RedisServer) -> Option<u16> {
    texts(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).get(1)?.parse().ok()
}

/// The reason why this sentinel could not replace the master now.
fn unready(sentinel: &RedisServer, servers: &[&RedisServer]) -> Option<String> {
    let flags = |facts: &[String]| {
        let pair = facts.chunks_exact(2).find(|pair| pair[0] == "flags");
        pair.map(|pair| pair[1].clone()).unwrap_or_default()
    };
    let of_master = flags(&texts(sentinel, &["SENTINEL", "MASTER", MASTER]));
    let replicas: Vec<_> = match sentinel.try_cmd(&["SENTINEL", "REPLICAS", MASTER]) {
        Ok(reply @ bandog_testkit::Reply::Array(_)) => {
            reply.array().iter().map(|replica| flags(&replica.texts())).collect()
        }
        Ok(_) | Err(_) => Vec::new(),
    };
    let is_ready =
        of_master == "master" && replicas.len() == servers.len() - 1 && replicas.iter().all(|flags| flags == "slave");
    (!is_ready).then(|| format!("a sentinel sees the master as {of_master}, and the replicas as {replicas:?}"))
}
