//! The store of a run. This module also gives access to the parts of the store that faults affect.

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{RedisServer, Reply, Wire};
use rusqlite::{Connection, OpenFlags};

use crate::{
    args::StoreKind,
    nemesis,
    plan::{self, LIMIT, SLACK, TTL},
};

/// An SQL query for the data in the database that the clients should have removed.
const LEFT: &str = include_str!("sql/left.sql");

/// The store that workers use.
#[derive(Debug)]
pub(crate) enum TestStore {
    Memory,
    Sqlite(PathBuf),
    Redis(RedisServer),
}

impl TestStore {
    pub(crate) fn open(store: StoreKind, dir: &Path) -> Self {
        match store {
            StoreKind::Memory => Self::Memory,
            StoreKind::Sqlite => Self::Sqlite(dir.join("locks.db")),
            StoreKind::Redis => Self::Redis(RedisServer::start()),
        }
    }

    /// The URL of the store for one worker, and the wire behind this URL. A wire is a proxy in front of the server,
    /// which faults can disturb. `None` if the store has no server.
    pub(crate) fn connection(&self) -> (String, Option<Wire>) {
        match self {
            Self::Memory => ("memory:".into(), None),
            Self::Sqlite(path) => (format!("sqlite:{}", path.display()), None),
            Self::Redis(server) => {
                let wire = server.wire();
                (wire.url(), Some(wire))
            }
        }
    }

    pub(crate) fn server(&self) -> &RedisServer {
        match self {
            Self::Redis(server) => server,
            Self::Memory | Self::Sqlite(_) => unreachable!("only Redis has a server"),
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
            Self::Sqlite(path) => nemesis::beside(path, ending),
            Self::Memory | Self::Redis(_) => unreachable!("only SQLite has database files"),
        }
    }

    /// The remaining data after all clients have ended, as text. Empty for a memory store, because that store ends with
    /// its process.
    pub(crate) fn left(&self) -> Vec<String> {
        match self {
            Self::Memory => Vec::new(),
            Self::Sqlite(path) => rows(path).unwrap_or_else(|error| vec![format!("{}: {error}", path.display())]),
            Self::Redis(server) => keys(server),
        }
    }
}

/// The rows that the query `LEFT` finds in the database.
fn rows(path: &Path) -> rusqlite::Result<Vec<String>> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = conn.prepare(LEFT)?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// The keys that are left in Redis, and the channels that still have subscribers. The keys of fence counters are left
/// out, and so are the limits of semaphores, if all permits are free, the records of barriers, and the operations on
/// latches that the server still remembers. This function waits until the registry entries of
/// killed clients have expired.
fn keys(server: &RedisServer) -> Vec<String> {
    let until = Instant::now() + TTL + SLACK;
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
        let of_record = |words: &str| key.strip_prefix(words).is_some_and(|name| name.starts_with("{barrier/"));
        let is_remembered = || key.starts_with("bandog:ops:{storm-") && server.pttl(key) > 0;
        is_of_semaphore
            || key.as_str() == "bandog:records"
            || of_record("bandog:record:")
            || of_record("redisson_lock_token:")
            || key.starts_with("redisson_lock_token:{election/")
            || is_remembered()
            || key.starts_with("redisson_lock_token:{storm-")
            || key.starts_with("bandog:limit:{storm-")
    };
    let unexpected = server.keys().into_iter().filter(|key| !stays(key));
    let unexpected = unexpected.map(|key| match server.pttl(&key) {
        -1 => format!("{key} (never expires)"),
        _ => key,
    });
    let channels = server.cmd(&["PUBSUB", "CHANNELS"]).texts();
    unexpected.chain(channels.into_iter().map(|channel| format!("channel {channel}"))).collect()
}
