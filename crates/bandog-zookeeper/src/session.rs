//! One session with the ensemble, and the proof that it is alive.

use std::time::{Duration, SystemTime};

use bandog_core::Result;
use tokio::time::Instant;
use uuid::Uuid;
use zookeeper_client::{Acls, Client, CreateMode, Error as ZkError, SessionState, Stat};

use crate::{encoding::OWN, fault, options::ZooKeeperOptions};

/// A session. ZooKeeper deletes the nodes of the session when it expires.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The number of the session among the sessions of this backend.
    pub(crate) number: u64,
    /// Duration for which a write proves that the session is alive. See [`validity`].
    pub(crate) valid_for: Duration,
    /// The node of this session that [`Session::prove`] writes.
    proof: String,
}

impl Session {
    /// Connects, and waits until the servers have made a session.
    pub(crate) async fn open(options: &ZooKeeperOptions, number: u64) -> Result<Self> {
        let store = options.store();
        let mut connector = Client::connector().with_session_timeout(options.session);
        if let Some(login) = &options.login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        let client = connector.connect(&options.servers).await.map_err(|error| fault::of_connection(&store, error))?;
        let valid_for = validity(client.session_timeout());
        let proof = format!("{}/{OWN}/sessions/{}", options.chroot, Uuid::new_v4());
        let session = Self { client, number, valid_for, proof };
        session.prove().await.map_err(|error| fault::of_request(&store, error))?;
        Ok(session)
    }

    /// Writes a node of this session. If the ensemble commits the write, the session was alive when the call began.
    /// Returns the time of the write, by the clock of the leader.
    ///
    /// A read would prove less: a server that the ensemble has lost answers reads, and the ensemble can let the session
    /// expire meanwhile.
    pub(crate) async fn prove(&self) -> Result<SystemTime, ZkError> {
        match self.client.set_data(&self.proof, b"", None).await {
            Ok(stat) => return Ok(time_of(&stat)),
            Err(ZkError::NoNode) => {}
            Err(error) => return Err(error),
        }
        let (folder, _) = self.proof.rsplit_once('/').unwrap_or_default();
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
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
        let options = CreateMode::Container.with_acls(Acls::anyone_all());
        let ends = folder.char_indices().skip(1).filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([folder.len()]);
        let paths: Vec<_> = ends.map(|end| &folder[..end]).collect();
        // Most of the parents exist, so the search begins at the folder itself.
        let mut missing = paths.len();
        while missing > 0 {
            missing -= 1;
            match self.client.create(paths[missing], b"", &options).await {
                Ok(_) | Err(ZkError::NodeExists) => break,
                Err(ZkError::NoNode) if missing > 0 => {}
                Err(error) => return Err(error),
            }
        }
        for path in &paths[missing + 1..] {
            match self.client.create(path, b"", &options).await {
                Ok(_) | Err(ZkError::NodeExists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
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

/// The time of a write, in milliseconds since 1970.
pub(crate) fn time_of(stat: &Stat) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(stat.mtime).unwrap_or_default())
}

/// Duration for which a write proves that a session is alive, counted from before the write.
///
/// The server to which the client is connected reports its living sessions to the leader each half tick. If this server
/// is lost after the write and before the report, the leader counts from the report before. A session lasts for at least
/// two ticks, so a quarter of its duration is a sufficient margin.
fn validity(session: Duration) -> Duration {
    session * 3 / 4
}
