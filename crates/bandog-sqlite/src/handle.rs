//! The handle, which sends requests to its writer thread.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bandog_core::{Clock, Error, Result, rounded};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::coop::unconstrained,
};

use crate::{
    SqliteOptions,
    batches::MAX_DURABLE,
    context::HandleContext,
    host::Host,
    notification_file::NotificationFile,
    open::Purpose,
    request::Request,
    sightings::Sightings,
    work::{AccessMode, Work},
    writer,
};

/// Leases in a SQLite file. Clones share one connection and one thread. The thread ends when the last clone is dropped.
///
/// The calls of a handle need a Tokio runtime with time enabled.
///
/// ```
/// use bandog_sqlite::{Sqlite, SqliteOptions};
/// let store = Sqlite::new(SqliteOptions::at("/var/lib/me/locks.db"))?; // No I/O yet.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Sqlite(Arc<HandleInner>);

struct HandleInner {
    context: Arc<HandleContext>,
    /// The queue of the writer thread. None until the thread is started.
    queue: Mutex<Option<mpsc::Sender<Request>>>,
    /// Held while a request waits for room in the queue. So the requests enter the queue in the order of their arrival.
    send_order: tokio::sync::Mutex<()>,
    /// Limits the number of queued requests that wait for the disk, so that the queue has room for other requests.
    durable_permits: Arc<Semaphore>,
}

impl Sqlite {
    /// Creates a handle. The handle opens the database at its first request.
    ///
    /// # Errors
    /// As [`SqliteOptions::check`].
    pub fn new(options: SqliteOptions) -> Result<Self> {
        Self::on(Host::this(), options)
    }

    /// Does the same as [`Self::new`], with this host as the machine. Tests pass an invented host.
    pub(crate) fn on(host: Host, options: SqliteOptions) -> Result<Self> {
        let options = options.checked()?;
        let notification_file = Arc::new(NotificationFile::new(options.beside("-bell"), options.path.clone()));
        let (lock_subscribers, record_subscribers) = Default::default();
        let context = HandleContext {
            options,
            host,
            lock_subscribers,
            record_subscribers,
            notification_file,
            epoch: watch::Sender::new(0),
            sightings: Sightings::default(),
        };
        Ok(Self(Arc::new(HandleInner {
            context: Arc::new(context),
            queue: Mutex::new(None),
            send_order: Default::default(),
            durable_permits: Arc::new(Semaphore::new(MAX_DURABLE)),
        })))
    }

    pub(crate) fn context(&self) -> &HandleContext {
        &self.0.context
    }

    pub(crate) fn clone_context(&self) -> Arc<HandleContext> {
        Arc::clone(&self.0.context)
    }

    /// The purpose for which a ping or a read of records opens the database. Such a request creates a missing database,
    /// unless the options forbid it. (The queries `list` and `show` never create the database.)
    pub(crate) fn purpose(&self) -> Purpose {
        if self.context().options.may_create { Purpose::Use } else { Purpose::Inspect }
    }

    /// Sends a request to the writer thread and waits for the answer. Calls send their requests in the order in which
    /// they were first polled.
    ///
    /// If the future is dropped before the request is in the queue, the request is not executed. If it is dropped
    /// later, the request may be executed.
    pub(crate) async fn request<W: Work>(&self, work: W) -> Result<W::Answer> {
        let timeout = self.context().options.timeout;
        let (mut request, answer) = Request::new(work, Clock::system().now() + writer_timeout(timeout));
        let queue = self.queue()?;
        let answered = async {
            if request.access_mode() == AccessMode::DurableWrite {
                let permits = Arc::clone(&self.0.durable_permits);
                request = request.with_permit(unconstrained(permits.acquire_owned()).await.map_err(writer_ended)?);
            }
            // Calls enter the queue of the `send_order` lock in their first poll. Without this lock, a later call could
            // take the room in the channel for which an earlier call waits. Without `unconstrained`, a call of a task
            // that has used up the poll budget of Tokio would not enter this queue in its first poll.
            let order = unconstrained(self.0.send_order.lock()).await;
            unconstrained(queue.send(request)).await.map_err(writer_ended)?;
            drop(order);
            answer.await.map_err(writer_ended)?
        };
        // The timeout of the writer is shorter than this timeout. When the timeout of the writer passes, the writer
        // reports that the request was not executed. So this timeout passes only if the disk does not respond.
        match tokio::time::timeout(timeout, answered).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(Error::unavailable(format!("the disk did not answer within {}", rounded(timeout))).ambiguous())
            }
        }
    }

    /// The queue of the writer thread. Starts the thread if it does not run.
    fn queue(&self) -> Result<mpsc::Sender<Request>> {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match &*queue {
            Some(open) if !open.is_closed() => Ok(open.clone()),
            Some(_) | None => Ok(queue.insert(writer::start(Arc::clone(&self.0.context))?).clone()),
        }
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sqlite").field(&self.context().options.path).finish()
    }
}

/// The time that the writer has for a request. This is less than the caller's timeout, so that the answer arrives
/// before that timeout.
fn writer_timeout(timeout: Duration) -> Duration {
    timeout - (timeout / 10).min(Duration::from_millis(100))
}

/// The error if the writer thread ended before it answered the request.
fn writer_ended(_: impl fmt::Debug) -> Error {
    Error::unavailable("the writer thread of SQLite ended unexpectedly").ambiguous()
}
