//! The backend itself, and what its clones share.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bandog_core::{Error, Key, Result};
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, timeout_at},
};
use zookeeper_client::SessionState;

use crate::{
    fault,
    folders::Folders,
    key_locks::KeyLocks,
    options::ZooKeeperOptions,
    session::Session,
    table::{Line, Table},
};

/// A backend whose locks are in ZooKeeper, with the layout of Curator. Clones share one session.
///
/// The backend opens its session with the first call. A call that finds the session expired opens a new one.
#[derive(Clone)]
pub struct ZooKeeper(pub(crate) Arc<Shared>, Clones);

/// A value that all clones of a backend share, and nothing else: its count of owners is the number of clones.
type Clones = Arc<()>;

/// The state that all clones share.
pub(crate) struct Shared {
    pub(crate) options: ZooKeeperOptions,
    /// The address, for messages.
    pub(crate) store: String,
    pub(crate) table: Arc<Table>,
    /// Orders the steps of each lock.
    pub(crate) key_locks: KeyLocks<Key>,
    /// Orders the calls of each line that has one claim.
    pub(crate) line_locks: KeyLocks<Line>,
    /// Orders the swaps of each record.
    pub(crate) record_locks: KeyLocks<Key>,
    /// The folders of locks that existed a short time ago.
    pub(crate) folders: Folders,
    pub(crate) weak: Weak<Self>,
    session: Mutex<Opened>,
    /// Why the last attempt to connect failed, if the servers say it.
    why: Mutex<Option<String>>,
    /// The error of the last attempt to open a session.
    failed: Mutex<Option<Error>>,
    /// Held by the call that asks the servers why there is no connection.
    pub(crate) asking: tokio::sync::Mutex<()>,
    pub(crate) epoch: watch::Sender<u64>,
}

/// The session of a backend.
#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) session: Option<Arc<Session>>,
    /// The number of the last session.
    pub(crate) number: u64,
    /// The attempt to open a session, and the handle of its task.
    pub(crate) attempt: Option<(SharedFuture<BoxFuture<'static, Result<()>>>, AbortHandle)>,
}

impl ZooKeeper {
    /// Creates a backend. It does no I/O.
    pub fn new(options: ZooKeeperOptions) -> Self {
        let shared = Arc::new_cyclic(|weak| Shared {
            store: options.store(),
            options,
            table: Arc::default(),
            key_locks: KeyLocks::default(),
            line_locks: KeyLocks::default(),
            record_locks: KeyLocks::default(),
            folders: Folders::default(),
            weak: weak.clone(),
            session: Mutex::default(),
            why: Mutex::default(),
            failed: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            epoch: watch::Sender::new(0),
        });
        Self(shared, Arc::default())
    }

    /// Whether no other clone of this backend exists.
    pub(crate) fn is_the_last(&self) -> bool {
        Arc::strong_count(&self.1) == 1
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZooKeeper").field(&self.0.store).finish()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.table.wake.notify_one(); // The keeper ends, and then the client closes the session.
    }
}

impl Shared {
    /// Awaits the answer to a request until the deadline.
    pub(crate) async fn answered<T>(&self, deadline: Instant, request: impl Future<Output = Result<T>>) -> Result<T> {
        let answer = timeout_at(deadline, request).await;
        answer.map_err(|_| fault::no_answer(&self.store, self.options.timeout))?
    }

    /// When a call that begins now must have its answer.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    /// Time after which a node without an answer is deleted, if its client does not ask again.
    pub(crate) fn unsure_until(&self) -> Instant {
        Instant::now() + self.options.timeout * 4
    }

    pub(crate) fn no_connection(&self) -> Error {
        match &*self.why() {
            Some(why) => Error::unavailable(format!("{}: no connection: {why}", self.store)),
            None => {
                self.failed().clone().unwrap_or_else(|| Error::unavailable(format!("{}: no connection", self.store)))
            }
        }
    }

    pub(crate) fn failed(&self) -> MutexGuard<'_, Option<Error>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn why(&self) -> MutexGuard<'_, Option<String>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn present(&self) -> Option<Arc<Session>> {
        self.opened().session.clone().filter(|session| session.is_usable())
    }

    /// Whether this is the session that the backend uses.
    pub(crate) fn uses(&self, session: &Session) -> bool {
        self.opened().session.as_ref().is_some_and(|present| present.number == session.number)
    }

    pub(crate) fn opened(&self) -> MutexGuard<'_, Opened> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the session, and with it deletes all its nodes. Waits for the answer of the server. Without a connection, it
    /// does not wait: the session then expires.
    pub(crate) async fn close(&self) {
        let Some(session) = self.opened().session.take() else { return };
        let mut states = session.client.state_watcher();
        let mut state = session.client.state();
        // The client library closes the session when the last handle of its client is dropped. The keeper has one, and each
        // watch of a predecessor.
        drop(session);
        self.table.end_watches();
        self.table.wake.notify_one();
        while state == SessionState::SyncConnected {
            state = states.changed().await;
        }
    }

    /// Waits until the keeper has deleted the nodes of lines without subscribers.
    pub(crate) async fn tidied(&self) {
        let mut is_tidying = self.table.is_tidying.subscribe();
        // A line leaves the list when its deletion begins.
        while self.present().is_some() && (*is_tidying.borrow_and_update() || !self.table.left().is_empty()) {
            if is_tidying.changed().await.is_err() {
                return;
            }
        }
    }

    /// Reports a new connection: the client asks for its holds.
    pub(crate) fn connected_again(&self) {
        *self.why() = None;
        self.table.connected_again();
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Forgets the nodes of a session that has ended. Its holds are gone, and so are its places in queues.
    pub(crate) fn session_ended(&self, ended: &Session) {
        let mut opened = self.opened();
        if opened.session.as_ref().is_some_and(|session| session.number == ended.number) {
            opened.session = None;
            drop(opened);
            tracing::warn!(target: "bandog", store = %self.store, "the session with ZooKeeper has ended; its locks are lost");
            self.table.session_ended(ended.number);
            self.connected_again();
        }
    }

    /// Duration of the whole request.
    pub(crate) fn timeout(&self) -> Duration {
        self.options.timeout
    }
}
