//! The handle, and how it asks its writer.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bandog_core::{Clock, Error, Result};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::coop::unconstrained,
    time::timeout,
};

use crate::{
    SqliteOptions,
    bell::NotificationFile,
    ears::Ears,
    host::Host,
    lanes::DURABLE,
    open::Purpose,
    queue::Order,
    seen::Seen,
    work::{Way, Work},
    writer,
};

/// Leases in a SQLite file. Clones share one connection and one thread, which ends with the last of them.
///
/// Its calls need a tokio runtime with time enabled.
///
/// ```
/// use bandog_sqlite::{Sqlite, SqliteOptions};
/// let store = Sqlite::new(SqliteOptions::at("/var/lib/me/locks.db"))?; // No I/O yet.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Sqlite(Arc<Inner>);

/// What a handle, its writer and its listener share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: SqliteOptions,
    pub(crate) host: Host,
    /// Who waits for locks.
    pub(crate) ears: Arc<Ears>,
    /// Who hears records.
    pub(crate) record_subscribers: Arc<Ears>,
    pub(crate) bell: Arc<NotificationFile>,
    pub(crate) epoch: watch::Sender<u64>,
    pub(crate) seen: Seen,
}

struct Inner {
    shared: Arc<Shared>,
    /// The way to the writer, once there is one.
    queue: Mutex<Option<mpsc::Sender<Order>>>,
    /// Where those wait for whom the queue has no room: first come, first served.
    line: tokio::sync::Mutex<()>,
    /// The places of those who wait for the disk, so that they do not take all the room.
    places: Arc<Semaphore>,
}

impl Sqlite {
    /// A handle that opens the database when it is first used.
    ///
    /// # Errors
    /// `Misused` for a path that names no file, or a timeout below 10 ms; `Unsupported` on systems other than Linux.
    pub fn new(options: SqliteOptions) -> Result<Self> {
        Self::on(Host::this(), options)
    }

    /// The same, on another machine.
    pub(crate) fn on(host: Host, options: SqliteOptions) -> Result<Self> {
        let options = options.checked()?;
        let bell = Arc::new(NotificationFile::new(options.beside("-bell"), options.path.clone()));
        let epoch = watch::Sender::new(0);
        let (ears, record_subscribers) = Default::default();
        let shared = Shared { options, host, ears, record_subscribers, bell, epoch, seen: Seen::default() };
        Ok(Self(Arc::new(Inner {
            shared: Arc::new(shared),
            queue: Mutex::new(None),
            line: Default::default(),
            places: Arc::new(Semaphore::new(DURABLE)),
        })))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    pub(crate) fn share(&self) -> Arc<Shared> {
        Arc::clone(&self.0.shared)
    }

    /// What the database is opened for by whoever only reads, but is here to do more than that.
    pub(crate) fn purpose(&self) -> Purpose {
        if self.shared().options.may_create { Purpose::Use } else { Purpose::Look }
    }

    /// Lets the writer do this, in the order in which these calls were first polled.
    pub(crate) async fn ask<W: Work>(&self, work: W) -> Result<W::Answer> {
        let patience = self.shared().options.timeout;
        let (mut order, answer) = Order::new(work, Clock::system().now() + writers_part(patience));
        let queue = self.queue()?;
        let asked = async {
            if order.way() == Way::Durable {
                order = order.at(unconstrained(Arc::clone(&self.0.places).acquire_owned()).await.map_err(ended)?);
            }
            // The first poll takes a place in the line, for without a line somebody who came later may get the room
            // that was made for another. Unconstrained, since tokio might put that poll off.
            let turn = unconstrained(self.0.line.lock()).await;
            unconstrained(queue.send(order)).await.map_err(ended)?;
            drop(turn);
            answer.await.map_err(ended)?
        };
        // The writer itself keeps the time, and can say that nothing was done. This is for a disk that stands still.
        match timeout(patience, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::unavailable(format!("the disk did not answer within {patience:?}")).ambiguous()),
        }
    }

    fn queue(&self) -> Result<mpsc::Sender<Order>> {
        let mut queue = self.0.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match &*queue {
            Some(open) if !open.is_closed() => Ok(open.clone()),
            Some(_) | None => Ok(queue.insert(writer::start(Arc::clone(&self.0.shared))?).clone()),
        }
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sqlite").field(&self.shared().options.path).finish()
    }
}

/// How much of a request's time the writer may use, so that its answer comes before the asker's own timer.
fn writers_part(patience: Duration) -> Duration {
    patience - (patience / 10).min(Duration::from_millis(100))
}

fn ended(_: impl fmt::Debug) -> Error {
    Error::unavailable("the thread for SQLite ended unexpectedly").ambiguous()
}
