//! The backend itself, and its session, which is opened again after it has expired.

use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bandog_core::{Error, ErrorKind, Key, Result};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared as SharedFuture},
};
use tokio::{
    select,
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep, timeout, timeout_at},
};
use zookeeper_client::SessionState;

use crate::{
    check, fault,
    folders::Folders,
    keeper,
    key_locks::KeyLocks,
    options::ZooKeeperOptions,
    session::Session,
    table::{Line, Table},
};

/// The first pause between two attempts to open a session. The pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause between two attempts to open a session.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// A backend whose locks are in ZooKeeper, with the layout of Curator. Clones share one session.
///
/// The backend opens its session with the first call. A call that finds the session expired opens a new one.
#[derive(Clone)]
pub struct ZooKeeper(pub(crate) Arc<Shared>, Clones);

/// A value that all clones of a backend share, and nothing else: its count of owners is the number of clones.
type Clones = Arc<()>;

/// What all clones share.
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
    asking: tokio::sync::Mutex<()>,
    pub(crate) epoch: watch::Sender<u64>,
}

/// The session of a backend.
#[derive(Default)]
struct Opened {
    session: Option<Arc<Session>>,
    /// The number of the last session.
    number: u64,
    /// The attempt to open a session, and the handle of its task.
    attempt: Option<(SharedFuture<BoxFuture<'static, Result<()>>>, AbortHandle)>,
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
    /// The session, with a connection. Opens a new one if the last one has expired.
    ///
    /// # Errors
    /// The request was not sent, so no error is ambiguous.
    pub(crate) async fn session(&self, deadline: Instant) -> Result<Arc<Session>> {
        let usable = async {
            select! {
                biased;
                session = self.usable_session() => session,
                never = self.learn_why() => match never {},
            }
        };
        match timeout_at(deadline, usable).await {
            Ok(Err(error)) if error.kind() == ErrorKind::Unavailable && self.why().is_some() => {
                Err(self.no_connection())
            }
            Ok(answer) => answer,
            Err(_) => Err(self.no_connection()),
        }
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
        let session = loop {
            match self.present() {
                Some(session) => break session,
                None => self.open().await?,
            }
        };
        session.connected().await.map_err(|error| fault::of_connection(&self.store, error))?;
        Ok(session)
    }

    /// Asks the servers after a while why there is no connection, unless another call does so. Does not return.
    async fn learn_why(&self) -> Infallible {
        sleep(self.timeout() / 4).await;
        if let Ok(_asking) = self.asking.try_lock() {
            let why = check::why_not(&self.options, self.timeout() / 2).await;
            *self.why() = why;
        }
        std::future::pending().await
    }

    fn no_connection(&self) -> Error {
        match &*self.why() {
            Some(why) => Error::unavailable(format!("{}: no connection: {why}", self.store)),
            None => {
                self.failed().clone().unwrap_or_else(|| Error::unavailable(format!("{}: no connection", self.store)))
            }
        }
    }

    fn failed(&self) -> MutexGuard<'_, Option<Error>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn why(&self) -> MutexGuard<'_, Option<String>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> Option<Arc<Session>> {
        self.opened().session.clone().filter(|session| session.is_usable())
    }

    /// Whether this is the session that the backend uses.
    pub(crate) fn uses(&self, session: &Session) -> bool {
        self.opened().session.as_ref().is_some_and(|present| present.number == session.number)
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session in a task of its own, so that a call with a short timeout does not end the attempt. All calls await
    /// the same attempt.
    async fn open(&self) -> Result<()> {
        let attempt = {
            let mut opened = self.opened();
            match opened.attempt.as_ref().filter(|(_, task)| !task.is_finished()) {
                Some((attempt, _)) => attempt.clone(),
                None => {
                    let task = tokio::spawn(open(self.weak.clone()));
                    let handle = task.abort_handle();
                    let attempt = task.map(|result| {
                        result.unwrap_or_else(|error| {
                            Err(Error::unavailable("the Tokio runtime is shutting down").caused_by(error))
                        })
                    });
                    let attempt = attempt.boxed().shared();
                    opened.attempt = Some((attempt.clone(), handle));
                    attempt
                }
            }
        };
        attempt.await
    }

    /// Prepares the opening of a session: forgets the last one if it has ended. Returns the number of the new one. None if
    /// there is a session.
    fn next_number(&self) -> Option<u64> {
        let before = self.opened().session.clone();
        match before {
            Some(session) if session.is_usable() => return None,
            Some(session) => self.session_ended(&session),
            None => {}
        }
        let mut opened = self.opened();
        opened.number += 1;
        Some(opened.number)
    }

    fn install(&self, session: Session) {
        let session = Arc::new(session);
        self.opened().session = Some(Arc::clone(&session));
        *self.why() = None;
        *self.failed() = None;
        tokio::spawn(keeper::keep(session, self.weak.clone()));
        self.connected_again();
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

/// Attempts to open a session, for as long as a session lasts. A session that takes longer could expire before its first
/// use. The backend can be dropped meanwhile.
async fn open(backend: Weak<Shared>) -> Result<()> {
    let Some((number, options, store)) = backend.upgrade().map(|shared| {
        let number = shared.next_number();
        (number, shared.options.clone(), shared.store.clone())
    }) else {
        return Err(Error::closed());
    };
    let Some(number) = number else { return Ok(()) };
    let mut last = Error::unavailable(format!("{store}: no connection"));
    let limit = options.session.max(options.timeout);
    let opened = timeout(limit, async {
        let mut pause = FIRST_PAUSE;
        loop {
            match Session::open(&options, number).await {
                Ok(session) => return Ok(session),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    if let Some(shared) = backend.upgrade() {
                        *shared.failed() = Some(error.clone());
                    }
                    last = error;
                }
                Err(error) => return Err(error),
            }
            if let Some(refusal) = check::tls_refusal(&options).await {
                return Err(refusal);
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    });
    let session = opened.await.unwrap_or_else(|_| Err(last))?;
    let shared = backend.upgrade().ok_or_else(Error::closed)?;
    shared.install(session);
    Ok(())
}
