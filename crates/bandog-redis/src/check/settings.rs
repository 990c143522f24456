//! The server's settings, from `INFO` and `CONFIG GET`. Many users have the right to run only one of these two
//! commands.

use std::collections::HashMap;

use bandog_core::Finding;
use bandog_redis_net::{
    Options,
    replication::Replication,
    reply::{list, text},
};
use redis::Value;

use crate::refusal;

/// The settings that are read with `CONFIG GET`.
pub(super) const CONFIG: [&str; 10] = [
    "maxmemory",
    "maxmemory-policy",
    "appendonly",
    "appendfsync",
    "save",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    COVERAGE,
    MAX_LENGTH,
    MAX_BUFFER,
];
/// Whether all nodes of a cluster refuse everything while a master is down.
const COVERAGE: &str = "cluster-require-full-coverage";

/// The maximum length of an argument.
const MAX_LENGTH: &str = "proto-max-bulk-len";
/// The maximum number of bytes of a request that the server keeps until it is complete.
const MAX_BUFFER: &str = "client-query-buffer-limit";
/// The maximum length of an element of a work queue, and what the server keeps beside it.
const MAX_ELEMENT: u64 = 1 << 20;
const BESIDE_ELEMENT: u64 = 64 * 1024;

/// The oldest supported version of Redis.
const OLDEST: (u32, u32) = (6, 0);

#[derive(Debug, Default)]
pub(super) struct Settings {
    /// The fields of the reply to `INFO`.
    info: HashMap<String, String>,
    replication: Replication,
    /// The settings in the replies to `CONFIG GET`.
    config: HashMap<String, String>,
    /// The server's first refusal. It is reported as the reason why a setting is unknown.
    refused: Option<String>,
}

impl Settings {
    /// Reads the reply to `INFO` and the replies to `CONFIG GET`.
    pub(super) fn read(replies: &[Value]) -> Self {
        let mut settings = Self::default();
        for reply in replies {
            match reply {
                Value::ServerError(error) => {
                    settings.refused.get_or_insert_with(|| refusal::server_text(error));
                }
                Value::Map(pairs) => {
                    let pairs = pairs.iter().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
                    settings.config.extend(pairs);
                }
                Value::Array(_) => {
                    let pairs = list(reply).chunks_exact(2);
                    settings.config.extend(pairs.filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?))));
                }
                reply => {
                    let lines = text(reply).unwrap_or_default();
                    settings.replication = Replication::read(&lines);
                    let pairs = lines.lines().filter_map(|line| line.split_once(':'));
                    settings.info.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
                }
            }
        }
        settings
    }

    /// The finding about the length of arguments. None if a whole element of a work queue is accepted, or the server does not say.
    pub(super) fn arguments(&self) -> Option<Finding> {
        let least = [(MAX_LENGTH, MAX_ELEMENT), (MAX_BUFFER, MAX_ELEMENT + BESIDE_ELEMENT)];
        let (setting, limit, least) = least.into_iter().find_map(|(setting, least)| {
            let limit = self.config.get(setting)?.parse::<u64>().ok()?;
            (limit < least).then_some((setting, limit, least))
        })?;
        Some(Finding::advice(
            "arguments",
            format!("{setting} is {limit}, so elements of a work queue that have up to 1 MiB may be refused"),
            format!("set {setting} to at least {least}"),
        ))
    }

    /// Checks whether the version of the server is supported.
    pub(super) fn version(&self) -> Finding {
        let Some(version) = self.info("redis_version") else {
            return self.unknown("version", "check `INFO server`: locks need Redis 6.0 or later");
        };
        // Valkey reports the Redis version with which it is compatible, and its own version.
        let name =
            self.info("valkey_version").map_or_else(|| format!("Redis {version}"), |own| format!("Valkey {own}"));
        let mut numbers = version.split('.').map(|number| number.parse().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) if (major, minor) < OLDEST => Finding::danger(
                "version",
                format!("the server is {name}; locks need 6.0 or later"),
                "upgrade the server",
            ),
            _ => Finding::fine("version", format!("the server is {name}")),
        }
    }

    /// Whether the server has a ttl for single fields of hashes. None if its version is not known.
    pub(super) fn field_ttl(&self) -> Option<Finding> {
        // Valkey reports an old version of Redis, and its own version.
        let (version, since) = match self.info("valkey_version") {
            Some(version) => (version, (9, 0)),
            None => (self.info("redis_version")?, (7, 4)),
        };
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
        let says = if (numbers.next()??, numbers.next()??) >= since {
            "the server has a ttl for single fields of hashes"
        } else {
            "the server has no ttl for single fields of hashes: Redis has it since 7.4, Valkey since 9"
        };
        Some(Finding::fine("field-ttl", says))
    }

    /// The number of keys of the database 0, the only one of a node of a cluster.
    pub(super) fn keys(&self) -> u64 {
        let keys = self.info("db0").and_then(|text| text.strip_prefix("keys=")?.split(',').next()?.parse().ok());
        keys.unwrap_or(0)
    }

    /// Checks whether the server might drop locks or refuse claims when it reaches its memory limit.
    pub(super) fn eviction(&self) -> Finding {
        const SUBJECT: &str = "maxmemory-policy";
        let policy = self.config("maxmemory-policy").or(self.info("maxmemory_policy"));
        let limit = self.config("maxmemory").or(self.info("maxmemory")).and_then(|limit| limit.parse::<u64>().ok());
        let used = self.info("used_memory").and_then(|used| used.parse::<u64>().ok()).unwrap_or(0);
        match (limit, policy) {
            (Some(0), _) => Finding::fine(SUBJECT, "there is no memory limit, so nothing is evicted"),
            (Some(limit), Some("noeviction")) if used >= limit => Finding::danger(
                SUBJECT,
                format!(
                    "{used} of {limit} bytes are in use, so no lock can be taken; renewals and releases still work"
                ),
                "raise maxmemory, or delete data that is not needed",
            ),
            (Some(limit), Some("noeviction")) => Finding::fine(
                SUBJECT,
                format!("noeviction: at {limit} bytes claims are refused, while renewals and releases still work"),
            ),
            (Some(limit), Some(policy)) => Finding::danger(
                SUBJECT,
                format!(
                    "{policy}: when {limit} bytes are in use, Redis may drop a lock that is held{}",
                    if policy.starts_with("allkeys-") { ", and whole queues and maps" } else { "" }
                ),
                "set maxmemory-policy noeviction, or use a separate server for locks",
            ),
            (None, _) | (_, None) => {
                self.unknown(SUBJECT, "check `CONFIG GET maxmemory*`: the policy must be noeviction, or the limit 0")
            }
        }
    }

    /// The finding about a node of a cluster that refuses all steps while another master is down. None if it serves its own
    /// slots, or if its setting is not known.
    pub(super) fn coverage(&self) -> Option<Finding> {
        let says = "cluster-require-full-coverage yes: while one master is down, no lock of the whole cluster can be taken \
                    or renewed";
        let cure = "set cluster-require-full-coverage no on all nodes; then only the locks of this master are affected";
        (self.config(COVERAGE) == Some("yes")).then(|| Finding::advice(COVERAGE, says, cure))
    }

    /// Checks whether locks survive a restart of the server.
    pub(super) fn persistence(&self) -> Finding {
        const SUBJECT: &str = "persistence";
        const CURE: &str = "set appendonly yes if locks must survive a restart";
        let appends = match (self.config("appendonly"), self.info("aof_enabled")) {
            (Some(value), _) => Some(value == "yes"),
            (None, value) => value.map(|value| value == "1"),
        };
        match (appends, self.config("appendfsync"), self.config("save")) {
            (Some(true), Some("always"), _) => {
                Finding::fine(SUBJECT, "the append-only file is synced with every write: locks survive a restart")
            }
            (Some(true), ..) => Finding::fine(
                SUBJECT,
                "there is an append-only file: locks survive a restart; if the machine fails, the locks of the last \
                 second may be lost",
            ),
            (Some(false), _, Some("")) => Finding::advice(
                SUBJECT,
                "nothing is kept on disk: a restart loses every lock; holders are notified within a second, and fences \
                 continue to rise with the server's clock",
                CURE,
            ),
            (Some(false), _, Some(_)) => Finding::advice(
                SUBJECT,
                "there are snapshots only: a restart loses the locks taken since the last one; holders are notified \
                 within a second, and fences continue to rise with the server's clock",
                CURE,
            ),
            (Some(false), _, None) => self.unknown(
                SUBJECT,
                "there is no append-only file, so a restart loses locks: check `CONFIG GET save` for snapshots",
            ),
            (None, ..) => self.unknown(SUBJECT, "check `CONFIG GET appendonly`: without it a restart loses locks"),
        }
    }

    /// Checks whether the server is a replica, has replicas, or is part of a cluster.
    pub(super) fn replication(&self, options: &Options) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.info("cluster_enabled") == Some("1") && !options.is_cluster() {
            findings.push(Finding::danger(
                "cluster",
                "this server is one node of a cluster: it refuses the locks whose slot belongs to another node",
                "write redis+cluster:// in the URL",
            ));
        }
        findings.push(self.role(options));
        findings
    }

    /// Whether the server is a master that sentinels watch. Without a replica, no failover is possible.
    pub(super) fn needs_replicas(&self, options: &Options) -> bool {
        options.has_sentinels() && self.info("role") == Some("master")
    }

    /// The replicas of the server.
    pub(super) fn replication_state(&self) -> &Replication {
        &self.replication
    }

    /// Whether the server refuses all writes now, because too few replicas follow it in time.
    pub(super) fn refuses_writes(&self) -> bool {
        let number = |value: Option<&str>| value.and_then(|value| value.parse::<u64>().ok());
        let (good, needed) =
            (number(self.info("min_slaves_good_slaves")), number(self.config("min-replicas-to-write")));
        // Without the right for CONFIG, only the number of good replicas is known.
        good.is_some_and(|good| good < needed.unwrap_or(1))
    }

    /// Checks whether a master with replicas refuses writes when it has lost them.
    pub(super) fn min_replicas(&self) -> Finding {
        const SUBJECT: &str = "min-replicas-to-write";
        const CURE: &str = "CONFIG SET min-replicas-to-write 1, and CONFIG SET min-replicas-max-lag 2; then a master \
                            without its replicas refuses all writes";
        let number = |name: &str| self.config(name).and_then(|value| value.parse::<u64>().ok());
        // INFO has this field only if the setting is in use.
        let is_in_use = self.info("min_slaves_good_slaves").is_some();
        match (number(SUBJECT), number("min-replicas-max-lag")) {
            _ if self.refuses_writes() => Finding::danger(
                SUBJECT,
                format!(
                    "this server refuses all writes, so no lock can be taken: {} replicas report in time, but it \
                     needs {}",
                    self.info("min_slaves_good_slaves").unwrap_or("too few"),
                    self.config(SUBJECT).unwrap_or("more")
                ),
                "start the missing replicas, or CONFIG SET min-replicas-to-write 0",
            ),
            (Some(0), _) | (_, Some(0)) => Finding::advice(
                SUBJECT,
                "it is not set: a master that was cut off from its replicas, or was only stopped, grants locks while \
                 another server has taken over",
                CURE,
            ),
            (Some(number), Some(lag)) => Finding::fine(
                SUBJECT,
                format!("{number} replicas: a master without a report of them for {lag} s refuses all writes"),
            ),
            _ if is_in_use => Finding::fine(SUBJECT, "it is set, so a master without its replicas refuses all writes"),
            _ => self.unknown(SUBJECT, "check `CONFIG GET min-replicas*`: it should be 1 or more, with a lag of 2 s"),
        }
    }

    /// Checks whether the server is a master or a replica, and whether a master has replicas.
    fn role(&self, options: &Options) -> Finding {
        const SUBJECT: &str = "replication";
        let read_only = self.info("slave_read_only").is_none_or(|value| value == "1");
        let replicas = self.info("connected_slaves").unwrap_or("0");
        match (self.info("role"), replicas) {
            // A replica of a master that sentinels watch may come back.
            (Some("master"), "0") if !self.needs_replicas(options) => {
                Finding::fine(SUBJECT, "this server has no replica, so no failover can grant a lock twice")
            }
            (Some("master"), replicas) => Finding::advice(
                SUBJECT,
                format!(
                    "{replicas} replicas follow this server asynchronously: a replica that takes over may not have the \
                     latest locks, and then grants them again; fences still rise"
                ),
                "let the resource that the lock protects check the fence",
            ),
            (Some(_), _) if read_only => Finding::danger(
                SUBJECT,
                "this server is a replica and read-only: no lock can be taken, renewed or released here",
                "connect to its master",
            ),
            (Some(_), _) => Finding::danger(
                SUBJECT,
                "this server is a replica that accepts writes: its master and the master's clients do not see these \
                 locks",
                "connect to its master",
            ),
            (None, _) => self.unknown(
                SUBJECT,
                "check `INFO replication`: the role must be master; a failover to a replica may grant a lock twice",
            ),
        }
    }

    /// The finding for a setting that is not known.
    fn unknown(&self, subject: &str, cure: &str) -> Finding {
        let why = self.refused.as_deref().map_or_else(|| "the server does not report it".into(), |why| why.to_owned());
        Finding::advice(subject, format!("it could not be checked: {why}"), cure)
    }

    /// A field of the reply to INFO.
    pub(super) fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    fn config(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str)
    }
}
