//! A replica of a Redis server.

use std::ops::Deref;
use std::time::Duration;

use crate::eventually;
use crate::redis::RedisServer;
use crate::wire::Wire;

/// Timeout for the first copy of the master's data. A replica begins to connect within a second.
const SYNCED_WITHIN: Duration = Duration::from_secs(10);

/// A `redis-server` that copies the data of a master through a proxy.
///
/// All methods of [`RedisServer`] are available, for example `kill`, `pause` and `cmd`.
///
/// Sentinels direct a replica to the master's own address after a failover. If no failover happens, they do so after
/// their `failover-timeout` (3 s), because they see that the replica gets its data from another address, the address of
/// the proxy. Then the proxy has no effect any more. `Sentinels::set("failover-timeout", …)` makes this time longer.
///
/// ```no_run
/// use std::time::Duration;
/// use bandog_testkit::{RedisServer, eventually};
/// let master = RedisServer::start();
/// let replica = RedisServer::replica_of(&master);
/// replica.stream().delay_replies(Duration::from_millis(50)); // The data of the replica are now 50 ms old.
/// master.cmd(&["SET", "k", "v"]);
/// eventually(Duration::from_secs(1), || replica.cmd(&["GET", "k"]).text() == "v");
/// ```
#[derive(Debug)]
pub struct Replica {
    server: RedisServer,
    stream: Wire,
}

impl RedisServer {
    /// Starts a replica of this master, and waits until it has all data of the master. The replica has a machine of its own
    /// if the master has one.
    #[must_use]
    #[track_caller]
    pub fn replica_of(master: &Self) -> Replica {
        Replica::start(master, &[])
    }

    /// Starts a replica with additional arguments, such as `&["--replica-priority", "1"]`.
    #[must_use]
    #[track_caller]
    pub fn replica_with(master: &Self, args: &[&str]) -> Replica {
        Replica::start(master, args)
    }
}

impl Replica {
    #[track_caller]
    pub(crate) fn start(master: &RedisServer, args: &[&str]) -> Self {
        let stream = Wire::to(master.outer_addr());
        let server = RedisServer::start_replica(master, stream.port(), args);
        let replica = Self { server, stream };
        replica.wait_until_online(master);
        replica
    }

    /// The proxy of the replication stream. The requests of this proxy are the acknowledgements of the replica, and its
    /// replies are the data of the master.
    ///
    /// - `delay_replies` makes the data of the replica older.
    /// - `stall` stops the stream without an error. Then `WAIT` on the master finds no acknowledgement.
    /// - `refuse(true)` and `cut()` end the stream.
    #[must_use]
    pub fn stream(&self) -> &Wire {
        &self.stream
    }

    /// Waits until the replica has a copy of the master's data, and until the master counts the replica.
    #[track_caller]
    pub fn wait_until_online(&self, master: &RedisServer) {
        let entry = format!("port={},state=online", self.server.outer_addr().port());
        eventually(SYNCED_WITHIN, || {
            self.server.info("replication", "master_link_status") == "up"
                && master.cmd(&["INFO", "replication"]).text().contains(&entry)
        });
    }

    /// Waits until the replica has applied all data that the master had at the time of the call.
    #[track_caller]
    pub fn wait_until_equal(&self, master: &RedisServer) {
        let offset = |server: &RedisServer, field| server.info("replication", field).parse::<u64>().unwrap_or(0);
        let target = offset(master, "master_repl_offset");
        eventually(SYNCED_WITHIN, || offset(&self.server, "slave_repl_offset") >= target);
    }
}

impl Deref for Replica {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.server
    }
}
