//! Stores with servers: a master with replicas and sentinels, a cluster and a quorum of Redis, and one server of another
//! kind.

pub(crate) mod cluster;
pub(crate) mod quorum;
pub(crate) mod sentinel;
pub(crate) mod server;

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{RedisServer, Reply};

/// Maximum time that the servers need until a replica has taken over, or until all of them work again after a fault. If
/// the sentinels do not agree, they try again after some seconds, and if the machine has not run them for two seconds,
/// they do nothing for 30 s.
const REPAIRED_WITHIN: Duration = Duration::from_secs(90);
/// Interval of the checks of the servers.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Waits until there is no problem. Returns the problem that is still there after the timeout.
pub(crate) fn repaired(mut problem: impl FnMut() -> Option<String>) -> Result<(), String> {
    let start = Instant::now();
    while let Some(problem) = problem() {
        if start.elapsed() > REPAIRED_WITHIN {
            return Err(format!("after {REPAIRED_WITHIN:?}: {problem}"));
        }
        thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Kills a master. In half of the cases, its replicas lose their connections before, and are stopped until the master is
/// dead. So they do not have its last writes.
fn kill(master: &RedisServer, replicas: &[&RedisServer], random: &mut fastrand::Rng) {
    let are_behind = random.bool();
    if are_behind {
        replicas.iter().for_each(|replica| replica.pause());
        let _ = master.try_cmd(&["CLIENT", "KILL", "TYPE", "replica"]);
        thread::sleep(Duration::from_millis(random.u64(50..500)));
    }
    master.kill();
    if are_behind {
        replicas.iter().for_each(|replica| replica.resume());
    }
}

/// The text that a server returns for a command. `None` if the server does not answer, or returns something else.
fn text(server: &RedisServer, command: &[&str]) -> Option<String> {
    match server.try_cmd(command) {
        Ok(Reply::Text(text)) => Some(text),
        Ok(_) | Err(_) => None,
    }
}

/// The texts that a server returns for a command. Empty if the server does not answer, or returns something else.
fn texts(server: &RedisServer, command: &[&str]) -> Vec<String> {
    match server.try_cmd(command) {
        Ok(reply @ Reply::Array(_)) => reply.texts(),
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// The state of the replication of a server: the fields of `INFO replication`.
struct Replication(BTreeMap<String, String>);

impl Replication {
    fn of(server: &RedisServer) -> Self {
        let info = text(server, &["INFO", "replication"]).unwrap_or_default();
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    fn field(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Whether this is a replica of the server with this port.
    fn follows(&self, master: u16) -> bool {
        self.field("role") == "slave" && self.field("master_port") == master.to_string()
    }

    fn is_master(&self) -> bool {
        self.field("role") == "master"
    }

    /// Whether this is a replica that has the data of the master with this port, or of any master.
    fn is_replica_of(&self, master: Option<u16>) -> bool {
        self.field("role") == "slave"
            && self.field("master_link_status") == "up"
            && master.is_none_or(|port| self.field("master_port") == port.to_string())
    }

    /// Whether this is a master whose replicas have this number, and are ready.
    fn has_replicas(&self, number: usize) -> bool {
        let ready = |at: usize| self.field(&format!("slave{at}")).contains("state=online");
        self.is_master() && self.field("connected_slaves") == number.to_string() && (0..number).all(ready)
    }
}
