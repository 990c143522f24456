//! The data that a handle shares with its threads.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{
    SqliteOptions, host::Host, notification_file::NotificationFile, sightings::Sightings, subscribers::Subscribers,
};

/// The data that a handle shares with its writer thread and its watch thread.
#[derive(Debug)]
pub(crate) struct HandleContext {
    pub(crate) options: SqliteOptions,
    pub(crate) host: Host,
    pub(crate) lock_subscribers: Arc<Subscribers>,
    pub(crate) record_subscribers: Arc<Subscribers>,
    pub(crate) notification_file: Arc<NotificationFile>,
    /// The number of times that the database was opened.
    pub(crate) epoch: watch::Sender<u64>,
    /// The times at which read-only requests first observed holds that were written under another boot id.
    pub(crate) sightings: Sightings,
}
