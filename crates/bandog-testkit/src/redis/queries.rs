//! Queries that many tests make.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};

use super::RedisServer;

impl RedisServer {
    /// All keys, sorted.
    #[must_use]
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.cmd(&["KEYS", "*"]).texts();
        keys.sort();
        keys
    }

    /// The fields and values of a hash, sorted. Empty if the key does not exist.
    #[must_use]
    #[track_caller]
    pub fn hash(&self, key: &str) -> BTreeMap<String, String> {
        let fields = self.cmd(&["HGETALL", key]).texts();
        let pairs = fields.chunks_exact(2);
        pairs.map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    /// The remaining life of a key in milliseconds, as `PTTL` returns it: -1 for a key that does not expire, -2 if the
    /// key does not exist.
    #[must_use]
    #[track_caller]
    pub fn pttl(&self, key: &str) -> i64 {
        self.cmd(&["PTTL", key]).int()
    }

    /// Number of calls of a command since the server's start or the last `CONFIG RESETSTAT`. Examples of commands are
    /// `evalsha` and `client|list`.
    #[must_use]
    #[track_caller]
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.cmd(&["INFO", "commandstats"]);
        let head = format!("cmdstat_{command}:calls=");
        let line = stats.text().lines().find_map(|line| line.strip_prefix(&head));
        line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// The value of a field of `INFO`, such as `info("replication", "role")`. Empty if the section has no such field.
    ///
    /// Sentinels end all connections of a server whose role they change (`CLIENT KILL TYPE normal`). A request that
    /// loses its connection so is sent again.
    #[must_use]
    #[track_caller]
    pub fn info(&self, section: &str, field: &str) -> String {
        let request = ["INFO", section];
        let ended = |error: &Error| matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
        let info = match self.try_cmd(&request) {
            Err(error) if ended(&error) => self.cmd(&request),
            answer => answer.unwrap_or_else(|error| panic!("{request:?}: {error}")),
        };
        let head = format!("{field}:");
        info.text().lines().find_map(|line| line.strip_prefix(&head)).unwrap_or_default().to_owned()
    }
}
