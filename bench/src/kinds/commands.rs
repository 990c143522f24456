//! The commands that a server has executed, by name. Commands inside scripts are counted too.

use std::collections::BTreeMap;

use bandog_testkit::RedisServer;

/// Number of calls of each command.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct Commands(BTreeMap<String, u64>);

impl Commands {
    /// The calls since the start of this server.
    pub(crate) fn of(server: &RedisServer) -> Self {
        let info = server.cmd(&["INFO", "commandstats"]);
        let calls = info.text().lines().filter_map(|line| {
            let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), figures.split(',').next()?.parse().ok()?))
        });
        // `INFO` is the command of this query.
        Self(calls.filter(|(name, _)| name != "info").collect())
    }

    /// The calls after those of `before`.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (name, calls) in &mut self.0 {
            *calls -= before.0.get(name).copied().unwrap_or(0);
        }
        self.0.retain(|_, calls| *calls > 0);
        self
    }

    /// The calls of all commands, also of those inside scripts.
    pub(crate) fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// The calls of scripts.
    pub(crate) fn scripts(&self) -> u64 {
        let calls = |name: &str| self.0.get(name).copied().unwrap_or(0);
        calls("evalsha") + calls("eval")
    }
}
