//! One session with the ensemble, and the proof that it is alive.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bandog_core::Result;
use tokio::time::Instant;
use uuid::Uuid;
use zookeeper_client::{Client, CreateMode, Error as ZkError, SessionState, Stat};

use crate::{
    batches::{Batches, Server},
    encoding::OWN,
    fault,
    options::{NodeAcl, ZooKeeperOptions},
    servers::with_addresses,
    tls::Certificates,
};

/// A session. ZooKeeper deletes the nodes of the session when it expires.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The number of the session among the sessions of this backend.
    pub(crate) number: u64,
    /// Duration for which a write proves that the session is alive. See [`validity`].
    pub(crate) valid_for: Duration,
    /// Creations and deletions of nodes.
    pub(crate) batches: Batches,
    /// The certificates of further connections of this session. None: without TLS.
    pub(crate) certificates: Option<Certificates>,
    /// The node of this session that [`Session::prove`] writes.
    proof: String,
    acl: NodeAcl,
    /// When the last proof began, as far as it was answered.
    proven: Mutex<Option<Instant>>,
    /// Held during a proof that several renewals share.
    proving: tokio::sync::Mutex<()>,
}

/// A proof counts for further renewals and grants for this part of the time for which it is valid.
const RECENT: u32 = 12;

impl Session {
    /// Connects, and waits until the servers have made a session.
    pub(crate) async fn open(options: &ZooKeeperOptions, number: u64) -> Result<Self> {
        let store = options.store();
        // With TLS, the certificate names the host.
        let servers = match options.tls {
            None => with_addresses(&options.servers).await,
            Some(_) => options.servers.clone(),
        };
        let (client, certificates) = connect(options, &attempts(&servers, options.session)).await?;
        let valid_for = validity(client.session_timeout());
        let proof = format!("{}/{OWN}/sessions/{}", options.chroot, Uuid::new_v4());
        let (proven, proving) = (Mutex::default(), tokio::sync::Mutex::default());
        let (acl, server) = (
            options.acl,
            Server { client: client.clone(), acl: options.acl, proof: proof.clone(), sending: Arc::default() },
        );
        let batches = Batches::new(server);
        let session = Self { client, number, valid_for, batches, certificates, proof, acl, proven, proving };
        session.prove().await.map_err(|error| fault::of_request(&store, error))?;
        Ok(session)
    }

    /// Writes a node of this session. If the ensemble commits the write, the session was alive when the call began.
    /// Returns the time of the write, by the clock of the leader.
    ///
    /// A read would prove less: a server that the ensemble has lost answers reads, and the ensemble can let the session
    /// expire meanwhile.
    pub(crate) async fn prove(&self) -> Result<SystemTime, ZkError> {
        let began = Instant::now();
        let time = self.write_proof().await?;
        self.has_written(began);
        Ok(time)
    }

    /// Records that the ensemble has committed a write of this session that began at this moment. Each write proves the same
    /// as [`Session::prove`].
    pub(crate) fn has_written(&self, began: Instant) {
        let mut proven = self.proven();
        *proven = proven.max(Some(began));
    }

    /// Duration for which the session is proven to be alive, counted from now. None if the last proof did not begin a short
    /// time ago.
    pub(crate) fn recently_proven(&self) -> Option<Duration> {
        let age = self.proven().map(|began| began.elapsed());
        age.filter(|age| *age < self.valid_for / RECENT).map(|age| self.valid_for - age)
    }

    /// Duration for which the session is proven to be alive, counted from the begin of this call. A proof that began a
    /// short time ago at most is used again. Otherwise this function makes a new one, which simultaneous calls share.
    pub(crate) async fn recent_proof(&self) -> Result<Duration, ZkError> {
        if let Some(valid_for) = self.recently_proven() {
            return Ok(valid_for);
        }
        let _proving = self.proving.lock().await;
        if let Some(valid_for) = self.recently_proven() {
            return Ok(valid_for);
        }
        self.prove().await?;
        Ok(self.valid_for)
    }

    fn proven(&self) -> MutexGuard<'_, Option<Instant>> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_proof(&self) -> Result<SystemTime, ZkError> {
        match self.client.set_data(&self.proof, b"", None).await {
            Ok(stat) => return Ok(time_of(&stat)),
            Err(ZkError::NoNode) => {}
            Err(error) => return Err(error),
        }
        let (folder, _) = self.proof.rsplit_once('/').unwrap_or_default();
        let options = CreateMode::Ephemeral.with_acls(self.acl.acls());
        loop {
            match self.client.create(&self.proof, b"", &options).await {
                Ok((stat, _)) => return Ok(time_of(&stat)),
                Err(ZkError::NoNode) => self.make_folder(folder).await?,
                // Another call has created it.
                Err(ZkError::NodeExists) => {
                    return self.client.set_data(&self.proof, b"", None).await.map(|stat| time_of(&stat));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates a folder and its parents, as far as they are missing. ZooKeeper deletes such a folder some time after its
    /// last node.
    pub(crate) async fn make_folder(&self, folder: &str) -> Result<(), ZkError> {
        self.make_folder_as(CreateMode::Container, folder).await
    }

    /// Creates a folder that is kept when it is empty, and its parents, as far as they are missing.
    pub(crate) async fn make_lasting_folder(&self, folder: &str) -> Result<(), ZkError> {
        self.make_folder_as(CreateMode::Persistent, folder).await
    }

    async fn make_folder_as(&self, mode: CreateMode, folder: &str) -> Result<(), ZkError> {
        let options = mode.with_acls(self.acl.acls());
        let ends = folder.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([folder.len()]);
        // Most of the parents exist, so the first attempt creates the folder only.
        match self.client.create(folder, b"", &options).await {
            Ok(_) | Err(ZkError::NodeExists) => return Ok(()),
            Err(ZkError::NoNode) => {}
            Err(error) => return Err(error),
        }
        // All requests are sent at once. For a parent that exists, the server can also answer that it may not be created.
        let creations: Vec<_> = ends.map(|end| self.client.create(&folder[..end], b"", &options)).collect();
        let mut first = None;
        let mut last = Ok(());
        for creation in creations {
            last = match creation.await {
                Ok(_) | Err(ZkError::NodeExists) => Ok(()),
                Err(error) => {
                    first.get_or_insert(error.clone());
                    Err(error)
                }
            };
        }
        // Without a parent, the reason is the error of the parent.
        last.map_err(|error| if error == ZkError::NoNode { first.unwrap_or(error) } else { error })
    }

    /// Whether the session can still be used.
    pub(crate) fn is_usable(&self) -> bool {
        !self.client.state().is_terminated()
    }

    /// Waits until the client has a connection. Without this wait, requests would collect in the client.
    pub(crate) async fn connected(&self) -> Result<(), ZkError> {
        let mut states = self.client.state_watcher();
        let mut state = self.client.state();
        loop {
            match state {
                SessionState::SyncConnected => return Ok(()),
                SessionState::Disconnected | SessionState::ConnectedReadOnly => state = states.changed().await,
                SessionState::AuthFailed => return Err(ZkError::AuthFailed),
                SessionState::Expired | SessionState::Closed => return Err(ZkError::SessionExpired),
            }
        }
    }

    /// The end of a hold that the servers have confirmed just now.
    pub(crate) fn end_of(&self, ttl: Duration) -> Instant {
        Instant::now() + ttl.min(self.valid_for)
    }
}

/// Opens a session with one of these servers. Returns also the certificates of its further connections.
pub(crate) async fn connect(options: &ZooKeeperOptions, servers: &str) -> Result<(Client, Option<Certificates>)> {
    let mut connector = Client::connector().with_session_timeout(options.session).with_fail_eagerly();
    if let Some(login) = &options.login {
        let credentials = login.credentials(options.timeout).await?;
        let (user, password) = (credentials.user.unwrap_or_default(), credentials.password.unwrap_or_default());
        connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
    }
    let certificates = match &options.tls {
        Some(tls) => Some(tls.read().await?),
        None => None,
    };
    let connected = match &certificates {
        Some(certificates) => certificates.connect(connector, servers).await,
        None => connector.connect(servers).await,
    };
    let client = connected.map_err(|error| fault::of_connection(&options.store(), error))?;
    Ok((client, certificates))
}

/// The time of a write, in milliseconds since 1970.
pub(crate) fn time_of(stat: &Stat) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(stat.mtime).unwrap_or_default())
}

/// Duration for which a write proves that a session is alive, counted from before the write.
///
/// The server to which the client is connected reports to the leader each half tick which sessions had requests. If the
/// server is lost after the write and before the next report, the leader counts from the last report that named the
/// session. An idle client sends a ping at least once in a fifth of the session. If a half tick is at most a fifth, too,
/// this report is at most two fifths older than the write. If a half tick is longer, each report names the session; and
/// a session lasts for at least two ticks, so the report is at most a quarter older.
fn validity(session: Duration) -> Duration {
    session * 3 / 5
}

/// The list of servers for the client library. The library attempts each server of the list, pauses, and begins again; its
/// pauses double with each round, and are short within a round. So the list repeats the servers: one round then lasts for
/// about as long as a write proves that the session is alive. Without this, a pause could last for most of the session.
fn attempts(servers: &str, session: Duration) -> String {
    /// Below this duration of a session, the first pauses of the library are short enough.
    const BRIEF: Duration = Duration::from_secs(2);
    /// Maximum number of servers in the list, if not more are there.
    const MAX: u32 = 100;
    if session <= BRIEF {
        return servers.to_owned();
    }
    // Within a round, the pause before attempt number k is k times 50 ms, so n attempts last for about n² times 25 ms.
    let wanted = (1..MAX).find(|n| Duration::from_millis(25) * (n * n) >= validity(session)).unwrap_or(MAX);
    let there = servers.split(',').count();
    vec![servers; (wanted as usize).div_ceil(there)].join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_leaves_two_fifths_of_the_session_for_late_pings_and_reports() {
        assert_eq!(validity(Duration::from_secs(10)), Duration::from_secs(6));
    }

    #[test]
    fn the_servers_are_repeated_until_a_round_lasts_for_the_validity() {
        let count = |servers, seconds| attempts(servers, Duration::from_secs(seconds)).split(',').count();
        assert_eq!(attempts("a:1", Duration::from_secs(2)), "a:1");
        assert_eq!(attempts("a:1,b:1,c:1", Duration::from_secs(3)), ["a:1,b:1,c:1"; 3].join(","));
        assert_eq!([count("a:1", 10), count("a:1,b:1,c:1", 10), count("a:1", 3600)], [16, 18, 100]);
    }
}
