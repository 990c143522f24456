//! Acknowledgements of replicas. With `replicas=K`, a write is answered after K replicas have acknowledged it.
//!
//! The command WAIT blocks its connection until the replicas have acknowledged the writes up to the last command of this
//! connection. So the acknowledgements have connections of their own. A *round* writes the key [`round::ACK`], and then
//! waits. A replica applies the writes in the order of the master. So a replica that has acknowledged this write has
//! also acknowledged all writes that the master had answered before the round began.
//!
//! All calls that wait when a round begins share the round. A task for each connection makes the rounds. If the replicas
//! are far away, rounds begin at regular intervals and overlap. So a call does not wait for the end of an earlier round.
//! A Redis Cluster has other rounds ([`crate::cluster`]), which are made in the same way.
//!
//! The acknowledgements must come from the server that has applied the write. After a failover, the address can lead to
//! another server, which has its own replicas and not the write. Or the server was a replica in between, and has replaced its data
//! by those of another master. So each round compares the run ids of the two connections, and the ids of the replication
//! history. (A server has a new run id after each start, and a new history when it becomes a master.)

mod round;
mod tasks;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use bandog_core::{Error, ErrorKind::NotReplicated, Result, rounded};
use redis::Cmd;
use tokio::time::timeout_at;

pub use self::round::ACK;
pub(crate) use self::tasks::{Request, RoundTasks, Rounds, wait_limit};
use self::{round::ServerRounds, tasks::ServerId};
use crate::{dialler::Dialler, link::Link, script::ScriptForm};

/// Makes the script that repeats the write at this position of a call.
pub(crate) type Repeat = Arc<dyn Fn(usize, ScriptForm) -> Cmd + Send + Sync>;

/// The connections for acknowledgements. They are opened when they are first needed.
pub(crate) struct Replicas {
    dialler: Dialler,
    /// The number of the last known connection for commands, and the id of its server.
    server: Mutex<Option<(u64, ServerId)>>,
    tasks: RoundTasks<ServerRounds>,
}

impl Replicas {
    /// This does no I/O.
    pub(crate) fn new(dialler: Dialler) -> Self {
        Self { dialler, server: Mutex::default(), tasks: RoundTasks::default() }
    }

    /// Waits until enough replicas have acknowledged the writes that the server has answered on `link` so far.
    /// `connection` is the number of the connection that has answered. None if the answers may come from different
    /// connections.
    ///
    /// # Errors
    /// All errors are ambiguous, because the writes have been applied.
    /// - `NotReplicated`: too few replicas are connected, or have acknowledged the writes in time.
    /// - `Denied`: the user lacks a right that acknowledgements need, or the server does not have the commands.
    /// - `Unavailable`: no connection could be opened, or it leads to another server.
    pub(crate) async fn acknowledge(&self, link: &Link, connection: Option<u64>, deadline: Instant) -> Result<()> {
        let acknowledged = async {
            let server = self.server(link, connection.ok_or_else(round::reconnected)?).await?;
            self.tasks.ask(server, || ServerRounds::new(self.dialler.clone())).await
        };
        let result = timeout_at(deadline.into(), acknowledged).await.unwrap_or_else(|_| {
            let (number, timeout) = (self.dialler.options.replicas, self.dialler.options.timeout);
            let message = format!(
                "it is unknown whether {number} replicas have acknowledged the write within {}",
                rounded(timeout)
            );
            Err(Error::new(NotReplicated, message))
        });
        result.map_err(|error| {
            // The server may have another history now.
            *lock(&self.server) = None;
            error.ambiguous()
        })
    }

    /// The id of the server to which this connection of the link leads.
    async fn server(&self, link: &Link, connection: u64) -> Result<ServerId> {
        let known = || lock(&self.server).clone().filter(|(number, _)| *number == connection);
        if let Some((_, server)) = known() {
            return Ok(server);
        }
        let (number, server) = round::server_id(link).await?;
        *lock(&self.server) = Some((number, server));
        known().map(|(_, server)| server).ok_or_else(round::reconnected)
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
