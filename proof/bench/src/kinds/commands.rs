//! The commands that a server has executed: their numbers, and the commands themselves.

use std::collections::BTreeMap;

use bandog_testkit::{RedisServer, Reply};

/// Number of calls of each command. Commands inside scripts are counted too.
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

/// The address of a command in the server's slow log that a script has executed.
const INSIDE_A_SCRIPT: &str = "?:0";
/// Commands that prepare a connection or belong to the benchmark.
const NOT_COUNTED: [&str; 7] = ["hello", "client", "script", "ping", "info", "slowlog", "config"];

/// A command that a client has sent.
pub(crate) struct Request {
    /// The name of the command, in lower case.
    pub(crate) verb: String,
    /// The arguments; the server keeps only the first ones.
    pub(crate) args: Vec<String>,
}

/// The server's slow log, which logs all commands while this value exists. It makes the server slower.
pub(crate) struct Log<'a>(&'a RedisServer);

impl<'a> Log<'a> {
    pub(crate) fn start(server: &'a RedisServer) -> Self {
        server.cmd(&["CONFIG", "SET", "slowlog-max-len", "2000000"]);
        server.cmd(&["SLOWLOG", "RESET"]);
        server.cmd(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        Self(server)
    }

    /// The requests of clients so far. Commands inside scripts are not requests.
    pub(crate) fn requests(self) -> Vec<Request> {
        self.0.cmd(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
        let log = self.0.cmd(&["SLOWLOG", "GET", "-1"]);
        let mut requests = Vec::new();
        for entry in log.array() {
            // Each entry is a number, a time, a duration, the command, the address and the name of the client.
            let [_, _, _, command, address, _] = entry.array() else { continue };
            let mut words = command.array().iter().map(|word| match word {
                Reply::Text(text) => text.clone(),
                _ => String::new(),
            });
            let verb = words.next().unwrap_or_default().to_lowercase();
            if address.text() != INSIDE_A_SCRIPT && !NOT_COUNTED.contains(&verb.as_str()) {
                requests.push(Request { verb, args: words.collect() });
            }
        }
        self.0.cmd(&["SLOWLOG", "RESET"]);
        requests
    }
}
