//! The state that the tasks of a backend share.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bandog_core::{Error, Result};
use tokio::{sync::watch, time::timeout};

use crate::{
    known_names::KnownNames,
    options::{Address, SqlOptions},
    queues::work::Work,
    statements::Statements,
    subscriptions::Subscriptions,
};

/// Maximum time for which the notifications leave a free connection to the lanes.
const YIELD_TIME: Duration = Duration::from_secs(1);

/// The state that the tasks of a backend share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: SqlOptions,
    pub(crate) statements: Arc<Statements>,
    pub(crate) work: Work,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) known_names: KnownNames,
    /// The id of the tables, and the host of the last session. None before the first connection.
    id: Mutex<Option<(String, Address)>>,
    /// Whether [`Context::is_first_use`] was called.
    was_used: AtomicBool,
    /// The number of lanes that have a session.
    lanes: watch::Sender<usize>,
    pub(crate) epoch: watch::Sender<u64>,
}

/// Counts a lane while it has a session.
#[derive(Debug)]
pub(crate) struct CountedLane(Arc<Context>);

impl CountedLane {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        context.lanes.send_modify(|lanes| *lanes += 1);
        Self(context.clone())
    }
}

impl Drop for CountedLane {
    fn drop(&mut self) {
        self.0.lanes.send_modify(|lanes| *lanes -= 1);
    }
}

impl Context {
    pub(crate) fn new(options: SqlOptions, statements: Statements) -> Self {
        Self {
            work: Work::new(&options),
            options,
            statements: Arc::new(statements),
            subscriptions: Subscriptions::default(),
            known_names: KnownNames::default(),
            id: Mutex::default(),
            was_used: AtomicBool::new(false),
            lanes: watch::Sender::new(0),
            epoch: watch::Sender::new(0),
        }
    }

    /// The id of the tables, which distinguishes them from those of other databases. None before the first connection.
    pub(crate) fn id(&self) -> Option<String> {
        self.used().as_ref().map(|(id, _)| id.clone())
    }

    /// Records the id of the tables at this host.
    ///
    /// # Errors
    /// As [`Context::check_id`].
    pub(crate) fn set_id(&self, id: String, host: &Address) -> Result<()> {
        let mut used = self.used();
        self.compare(used.as_ref(), Some(&id), host)?;
        *used = Some((id, host.clone()));
        Ok(())
    }

    /// Whether this client can use the tables with this id at this host. None if the host has no tables.
    ///
    /// # Errors
    /// `Unavailable`: the client has used another host of its URL, whose tables have another id. So the hosts are not
    /// servers of one cluster, and other clients can hold the same locks there.
    pub(crate) fn check_id(&self, id: Option<&str>, host: &Address) -> Result<()> {
        self.compare(self.used().as_ref(), id, host)
    }

    fn compare(&self, used: Option<&(String, Address)>, id: Option<&str>, host: &Address) -> Result<()> {
        match used {
            Some((first, other)) if other != host && id != Some(first) => {
                let at = |address: &Address| self.options.at(address.clone()).store();
                Err(Error::unavailable(format!(
                    "{} does not have the tables that this client has used at {}: the hosts of a URL must be servers of \
                     one cluster, else two clients hold a lock at once; name one of the two (a client that starts anew \
                     accepts either)",
                    at(host),
                    at(other)
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn used(&self) -> MutexGuard<'_, Option<(String, Address)>> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no session has made this call before.
    pub(crate) fn is_first_use(&self) -> bool {
        !self.was_used.swap(true, Ordering::Relaxed)
    }

    /// The server has no free connection for a lane. If no lane has one, the notifications give theirs up: waiters can poll,
    /// but a hold that is not renewed is lost.
    pub(crate) fn yield_to_lanes(&self) {
        if *self.lanes.borrow() == 0 {
            self.subscriptions.yield_connection();
        }
    }

    /// Waits until a lane has a session, for at most [`YIELD_TIME`].
    pub(crate) async fn lane_connected(&self) {
        // Without a lane that needs a session, the time passes.
        let _ = timeout(YIELD_TIME, self.lanes.subscribe().wait_for(|lanes| *lanes > 0)).await;
    }

    /// Records a new connection. If another one of the same lane has ended before, the server may have lost data.
    pub(crate) fn connected(&self, again: bool) {
        self.epoch.send_if_modified(|epoch| {
            let counts = again || *epoch == 0;
            *epoch += u64::from(counts);
            counts
        });
    }
}
