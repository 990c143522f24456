//! The backend itself, and its session, which is opened again after it has expired.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bandog_core::{Error, Result};
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use crate::{fault, keeper, key_locks::KeyLocks, options::ZooKeeperOptions, session::Session, table::Table};

/// A backend whose locks are in ZooKeeper, with the layout of Curator. Clones share one session.
///
/// The backend opens its session with the first call. A call that finds the session expired opens a new one.
#[derive(Clone)]
pub struct ZooKeeper(pub(crate) Arc<Shared>);

/// What all clones share.
pub(crate) struct Shared {
    pub(crate) options: ZooKeeperOptions,
    /// The address, for messages.
    pub(crate) store: String,
    pub(crate) table: Arc<Table>,
    pub(crate) key_locks: KeyLocks,
    pub(crate) record_locks: KeyLocks,
    pub(crate) weak: Weak<Self>,
    session: Mutex<Option<Arc<Session>>>,
    /// Held while a session is opened. The value is the number of the last session.
    opening: tokio::sync::Mutex<u64>,
    pub(crate) epoch: watch::Sender<u64>,
}

impl ZooKeeper {
    /// Creates a backend. It does no I/O.
    pub fn new(options: ZooKeeperOptions) -> Self {
        Self(Arc::new_cyclic(|weak| Shared {
            store: options.store(),
            options,
            table: Arc::default(),
            key_locks: KeyLocks::default(),
            record_locks: KeyLocks::default(),
            weak: weak.clone(),
            session: Mutex::new(None),
            opening: tokio::sync::Mutex::new(0),
            epoch: watch::Sender::new(0),
        }))
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
    /// The session, with a connection. Opens a new one if the last one has expired.
    ///
    /// # Errors
    /// The request was not sent, so no error is ambiguous.
    pub(crate) async fn session(&self, deadline: Instant) -> Result<Arc<Session>> {
        let opened = timeout_at(deadline, self.usable_session()).await;
        opened.map_err(|_| Error::unavailable(format!("{}: no connection", self.store)))?
    }

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

    async fn usable_session(&self) -> Result<Arc<Session>> {
        let session = match self.present() {
            Some(session) => session,
            None => self.open().await?,
        };
        session.connected().await.map_err(|error| fault::of_connection(&self.store, error))?;
        Ok(session)
    }

    fn present(&self) -> Option<Arc<Session>> {
        self.slot().clone().filter(|session| session.is_usable())
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session in a task of its own, so that a call with a short timeout does not end the attempt.
    async fn open(&self) -> Result<Arc<Session>> {
        let Some(shared) = self.weak.upgrade() else { return Err(Error::closed()) };
        let opened = tokio::spawn(async move { shared.open_now().await }).await;
        opened.map_err(|error| Error::unavailable("the Tokio runtime is shutting down").caused_by(error))?
    }

    async fn open_now(&self) -> Result<Arc<Session>> {
        let mut number = self.opening.lock().await;
        if let Some(session) = self.present() {
            return Ok(session); // Another call has opened it.
        }
        let before = self.slot().clone();
        if let Some(before) = before {
            self.session_ended(&before);
        }
        *number += 1;
        // A session that takes longer than this to open could expire before its first use.
        let limit = self.options.session.max(self.options.timeout);
        let session = timeout(limit, Session::open(&self.options, *number)).await;
        let session = session.map_err(|_| Error::unavailable(format!("{}: no connection", self.store)))??;
        let session = Arc::new(session);
        *self.slot() = Some(Arc::clone(&session));
        tokio::spawn(keeper::keep(Arc::clone(&session), self.weak.clone()));
        self.connected_again();
        Ok(session)
    }

    /// Reports a new connection: the client asks for its holds.
    pub(crate) fn connected_again(&self) {
        self.epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Forgets the nodes of a session that has ended. Its holds are gone, and so are its places in queues.
    pub(crate) fn session_ended(&self, ended: &Session) {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(|session| session.number == ended.number) {
            *slot = None;
            drop(slot);
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
