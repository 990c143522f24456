//! The store of a run. This module also gives access to the parts of the store that faults affect.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{RedisServer, Reply, Wire, eventually};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::{
    fault::FaultKind,
    plan::{self, LIMIT, LONG_TTL, SLACK},
    probe::Probe,
    settings::StoreKind,
    sqlite_files,
    topology::{self, cluster::Cluster, quorum::Quorum, sentinel::Watched, server::Server},
};

/// An SQL query for the data in the database that the clients should have removed.
const LEFT: &str = include_str!("sql/left.sql");
/// The least limit of values and packets that servers accept, in bytes.
pub(crate) const SMALL_PACKETS: usize = 1 << 20;
/// The default limit of Redis, in bytes.
const USUAL_BULKS: usize = 512 << 20;
/// Maximum time in which a server reads its data.
const LOADED_WITHIN: Duration = Duration::from_secs(60);
/// Timeout of the lock of the database file.
const LOCKED_WITHIN: Duration = Duration::from_secs(60);
/// The channel to which sentinels subscribe.
const OF_SENTINELS: &str = "__sentinel__:hello";

/// The traffic for which a store is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Purpose {
    /// Whether a single Redis server keeps its data when it is killed.
    pub(crate) keeps: bool,
    /// Chooses names whose slots move to another node of a cluster.
    pub(crate) movable: fn(&mut fastrand::Rng) -> Vec<String>,
}

/// The store that workers use.
#[derive(Debug)]
pub(crate) enum TestStore {
    Memory,
    Sqlite(PathBuf),
    Redis(RedisServer),
    Sentinel(Watched),
    Cluster(Cluster),
    Quorum(Quorum),
    Other(Server),
}

impl TestStore {
    pub(crate) fn open(store: StoreKind, dir: &Path, purpose: Purpose) -> Self {
        match store {
            StoreKind::Memory => Self::Memory,
            StoreKind::Sqlite => Self::Sqlite(dir.join("locks.db")),
            StoreKind::Redis if purpose.keeps => {
                let dir = dir.display().to_string();
                let lasting = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "always"];
                Self::Redis(RedisServer::start_with(&lasting))
            }
            StoreKind::Redis => Self::Redis(RedisServer::start()),
            StoreKind::Sentinel => Self::Sentinel(Watched::start()),
            StoreKind::Cluster => Self::Cluster(Cluster::start(purpose.movable)),
            StoreKind::Quorum => Self::Quorum(Quorum::start()),
            StoreKind::Postgres => Self::Other(Server::postgres()),
            StoreKind::Mariadb => Self::Other(Server::mariadb()),
            StoreKind::Zookeeper => Self::Other(Server::zookeeper()),
            StoreKind::ZookeeperEnsemble => Self::Other(Server::zookeeper_ensemble()),
        }
    }

    /// The URL of the store.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Memory => "memory:".into(),
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Redis(server) => server.url(),
            Self::Sentinel(watched) => watched.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Quorum(quorum) => quorum.url(),
            Self::Other(server) => server.url(),
        }
    }

    /// The URL of the store for one worker, and the wires behind this URL. A wire is a proxy in front of a server, which
    /// faults can disturb. There are none if the store has no server, or if clients learn the addresses of servers from
    /// sentinels or from a node.
    pub(crate) fn connection(&self) -> (String, Vec<Wire>) {
        match self {
            Self::Memory | Self::Sqlite(_) | Self::Sentinel(_) | Self::Cluster(_) => (self.url(), Vec::new()),
            Self::Redis(server) => {
                let wire = server.wire();
                (wire.url(), vec![wire])
            }
            Self::Quorum(quorum) => quorum.connection(),
            Self::Other(server) => server.connection(),
        }
    }

    /// A probe of each server that has data.
    pub(crate) fn probes(&self) -> Vec<Probe> {
        match self {
            Self::Other(server) => {
                let probe = |wire: Wire| {
                    let question = server.question(wire.addr());
                    Probe::start(wire, question)
                };
                server.wires().into_iter().map(probe).collect()
            }
            _ => self.servers().into_iter().map(|server| Probe::of_redis(server.wire())).collect(),
        }
    }

    /// Another program locks the table for this time: of SQLite the whole file. Returns false if there is no table yet.
    pub(crate) fn lock_table(&self, table: &str, length: Duration) -> bool {
        match self {
            Self::Sqlite(path) => lock_file(path, length).is_ok(),
            _ => self.other_server().lock_table(table, length),
        }
    }

    /// The server that is not Redis.
    pub(crate) fn other_server(&self) -> &Server {
        match self {
            Self::Other(server) => server,
            _ => unreachable!("only stores with such a server have this fault"),
        }
    }

    /// Kills the server, and starts it again with its data.
    pub(crate) fn kill_and_restart(&self) {
        match self {
            Self::Redis(server) => {
                server.restart();
                // It answers with errors until it has read all its data.
                eventually(LOADED_WITHIN, || {
                    server.try_cmd(&["PING"]).is_ok_and(|reply| reply == Reply::Text("PONG".into()))
                });
            }
            _ => self.other_server().kill_and_restart(),
        }
    }

    /// Stops a server with this number, until [`TestStore::resume`].
    pub(crate) fn pause(&self, number: usize) {
        match self {
            Self::Other(server) => server.pause(),
            _ => self.server(number).pause(),
        }
    }

    /// Continues a server.
    pub(crate) fn resume(&self, number: usize) {
        match self {
            Self::Other(server) => server.resume(),
            _ => self.server(number).resume(),
        }
    }

    /// Closes all connections of clients to a server.
    pub(crate) fn kill_clients(&self, number: usize) {
        match self {
            Self::Other(server) => server.end_sessions(),
            _ => self.server(number).kill_clients(),
        }
    }

    /// From now on, the servers take packets or values of at most 1 MiB, or again of as many bytes as before.
    pub(crate) fn limit_packets(&self, is_limited: bool) {
        if let Self::Other(server) = self {
            return server.limit_packets(is_limited);
        }
        let bytes = if is_limited { SMALL_PACKETS } else { USUAL_BULKS };
        for server in self.servers() {
            // A server that is stopped has the old limit.
            let _ = server.try_cmd(&["CONFIG", "SET", "proto-max-bulk-len", &bytes.to_string()]);
        }
    }

    /// The Redis servers that have data.
    pub(crate) fn servers(&self) -> Vec<&RedisServer> {
        match self {
            Self::Memory | Self::Sqlite(_) | Self::Other(_) => Vec::new(),
            Self::Redis(server) => vec![server],
            Self::Sentinel(watched) => watched.servers(),
            Self::Cluster(cluster) => cluster.servers(),
            Self::Quorum(quorum) => quorum.servers(),
        }
    }

    /// The server with this number, or the only server.
    pub(crate) fn server(&self, number: usize) -> &RedisServer {
        self.servers().get(number).copied().expect("a fault of a server affects a server of the store")
    }

    /// The ports of the masters of servers with replicas. `None` if there are no such servers, or if none answers.
    pub(crate) fn masters(&self) -> Option<BTreeSet<u16>> {
        match self {
            Self::Memory | Self::Sqlite(_) | Self::Redis(_) | Self::Quorum(_) | Self::Other(_) => None,
            Self::Sentinel(watched) => watched.masters(),
            Self::Cluster(cluster) => cluster.masters(),
        }
    }

    /// The number of the server that such a fault affects.
    pub(crate) fn victim(&self, kind: FaultKind, random: &mut fastrand::Rng) -> usize {
        match self {
            Self::Memory | Self::Sqlite(_) | Self::Redis(_) | Self::Other(_) => 0,
            Self::Sentinel(watched) => watched.victim(kind, random),
            Self::Cluster(cluster) => cluster.victim(kind, random),
            Self::Quorum(quorum) => random.usize(..quorum.servers().len()),
        }
    }

    /// Causes a fault of a store with several servers.
    pub(crate) fn begin(&self, kind: FaultKind, victim: usize, random: &mut fastrand::Rng) {
        match self {
            Self::Sentinel(watched) => watched.begin(kind, victim, random),
            Self::Cluster(cluster) => cluster.begin(kind, victim, random),
            Self::Memory | Self::Sqlite(_) | Self::Redis(_) | Self::Quorum(_) | Self::Other(_) => {
                unreachable!("the store does not have this fault")
            }
        }
    }

    /// Removes a fault that [`TestStore::begin`] has caused.
    ///
    /// # Errors
    /// The reason why no replica has taken over.
    pub(crate) fn end(&self, kind: FaultKind, victim: usize) -> Result<(), String> {
        match self {
            Self::Sentinel(watched) => watched.end(kind, victim),
            Self::Cluster(cluster) => cluster.end(kind, victim),
            Self::Memory | Self::Sqlite(_) | Self::Redis(_) | Self::Quorum(_) | Self::Other(_) => Ok(()),
        }
    }

    /// Waits until all servers work. Until then, a further fault could break what the store promises.
    ///
    /// # Errors
    /// The reason why they do not work.
    pub(crate) fn repaired(&self) -> Result<(), String> {
        match self {
            Self::Memory | Self::Sqlite(_) | Self::Redis(_) => Ok(()),
            Self::Other(server) => topology::repaired(|| server.problem()),
            Self::Sentinel(watched) => topology::repaired(|| watched.problem()),
            Self::Cluster(cluster) => topology::repaired(|| cluster.problem()),
            Self::Quorum(quorum) => topology::repaired(|| quorum.problem()),
        }
    }

    /// The file of SQLite's database.
    pub(crate) fn database(&self) -> PathBuf {
        self.beside("")
    }

    /// The file by which SQLite clients notify each other.
    pub(crate) fn notification_file(&self) -> PathBuf {
        self.beside("-bell")
    }

    /// The file that contains SQLite's own locks.
    pub(crate) fn shared_memory(&self) -> PathBuf {
        self.beside("-shm")
    }

    /// The file whose path is the path of the database plus this ending.
    fn beside(&self, ending: &str) -> PathBuf {
        match self {
            Self::Sqlite(path) => sqlite_files::beside(path, ending),
            _ => unreachable!("only SQLite has database files"),
        }
    }

    /// The rows of a query, which SQLite and the other databases spell in different ways. Empty for all other stores.
    pub(crate) fn select(&self, of_sqlite: &str, of_servers: &str) -> Vec<String> {
        match self {
            Self::Sqlite(path) => {
                rows(path, of_sqlite).unwrap_or_else(|error| vec![format!("{}: {error}", path.display())])
            }
            Self::Other(server) => server.rows(of_servers),
            Self::Memory | Self::Redis(_) | Self::Sentinel(_) | Self::Cluster(_) | Self::Quorum(_) => Vec::new(),
        }
    }

    /// The remaining data after all clients have ended, as text. Empty for a memory store, because that store ends with
    /// its process.
    pub(crate) fn left(&self) -> Vec<String> {
        match self {
            Self::Memory => Vec::new(),
            Self::Sqlite(_) => self.select(LEFT, ""),
            Self::Redis(_) | Self::Quorum(_) => left_at(&self.servers()),
            Self::Other(server) => server.left(),
            Self::Sentinel(_) | Self::Cluster(_) => {
                let masters = self.masters().unwrap_or_default();
                left_at(
                    &self.servers().into_iter().filter(|server| masters.contains(&server.port())).collect::<Vec<_>>(),
                )
            }
        }
    }
}

/// The keys that are left at these servers: see [`keys`].
fn left_at(servers: &[&RedisServer]) -> Vec<String> {
    let left = |server: &&RedisServer| {
        keys(server).into_iter().map(|left| format!("{left}, on the server {}", server.port())).collect::<Vec<_>>()
    };
    servers.iter().flat_map(left).collect()
}

/// The texts that a query finds in the database.
fn rows(path: &Path, query: &str) -> rusqlite::Result<Vec<String>> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = conn.prepare(query)?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Locks the database file for this time.
fn lock_file(path: &Path, length: Duration) -> rusqlite::Result<()> {
    let mut other = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    other.busy_timeout(LOCKED_WITHIN)?;
    let transaction = other.transaction_with_behavior(TransactionBehavior::Immediate)?;
    thread::sleep(length);
    transaction.rollback()
}

/// The keys that are left in Redis, and the channels that still have subscribers. The keys of fence counters are left
/// out, and so are the limits of semaphores, if all permits are free, the records of barriers, the operations on latches
/// that the server still remembers, and what the servers and the quorum themselves need. This function waits until the
/// registry entries of killed clients have expired.
fn keys(server: &RedisServer) -> Vec<String> {
    let until = Instant::now() + LONG_TTL + SLACK;
    loop {
        let left = keys_now(server);
        // It makes no sense to wait for a key that never expires.
        let never_expires = left.iter().any(|key| key.ends_with("(never expires)"));
        if left.is_empty() || never_expires || Instant::now() > until {
            return left;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The present result of [`keys`], without a wait.
fn keys_now(server: &RedisServer) -> Vec<String> {
    let free = Reply::Text(LIMIT.to_string());
    let stays = |key: &String| {
        let is_latch = plan::LATCHES.map(plan::name).any(|name| name == *key);
        let is_of_semaphore = key.starts_with("storm-") && !is_latch && server.cmd(&["GET", key]) == free;
        // On a cluster, a hash tag comes before the name.
        let of_record = |words: &str| key.strip_prefix(words).is_some_and(|name| name.contains("barrier/"));
        let is_remembered = || key.starts_with("bandog:ops:{storm-") && server.pttl(key) > 0;
        is_of_semaphore
            || key.starts_with("bandog:records")
            || of_record("bandog:record:")
            || of_record("redisson_lock_token:")
            || key.starts_with("redisson_lock_token:{election/")
            || is_remembered()
            || key.starts_with("redisson_lock_token:{storm-")
            || key.starts_with("bandog:limit:{storm-")
            || key.as_str() == "bandog:ack"
            || key.as_str() == "bandog:setting:quorum:max_ttl"
    };
    let unexpected = server.keys().into_iter().filter(|key| !stays(key));
    let unexpected = unexpected.map(|key| match server.pttl(&key) {
        -1 => format!("{key} (never expires)"),
        _ => key,
    });
    let mut channels = server.cmd(&["PUBSUB", "CHANNELS"]).texts();
    if RedisServer::version().is_since(7, 0) {
        channels.extend(server.cmd(&["PUBSUB", "SHARDCHANNELS"]).texts());
    }
    channels.retain(|channel| channel != OF_SENTINELS);
    unexpected.chain(channels.into_iter().map(|channel| format!("channel {channel}"))).collect()
}
