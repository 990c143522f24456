//! What all handles of a queue share.

use std::{fmt, sync::Arc, time::Duration};

use bandog_core::{
    Clock, Error, ErrorKind, Key, Result,
    queues::{ElementId, ElementRow, Queues, envelope::MAX_ENVELOPE},
};
use bandog_sync::Client;

use crate::waiting::{Results, Sender};

/// Maximum number of bytes of the payload of an element.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

/// A queue of a client.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) queues: Arc<dyn Queues>,
    pub(crate) key: Key,
    /// The length of the client's prefix.
    prefix: usize,
    pub(crate) sender: Sender,
    /// The calls that wait for results.
    pub(crate) results: Results,
}

impl Shared {
    /// # Errors
    /// - `Unsupported`: the store has no work queues.
    /// - `Misused`: the name is not allowed.
    pub(crate) fn new(client: &Client, name: &str) -> Result<Arc<Self>> {
        let queues = queues(client)?;
        let key = client.key(name)?;
        let prefix = key.as_str().len() - name.len();
        Ok(Arc::new(Self {
            client: client.clone(),
            queues,
            key,
            prefix,
            sender: Sender::default(),
            results: Results::default(),
        }))
    }

    /// The name without the prefix of the client.
    pub(crate) fn name(&self) -> &str {
        &self.key.as_str()[self.prefix..]
    }

    pub(crate) fn clock(&self) -> Clock {
        self.client.clock()
    }

    /// The maximum duration of one request.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.profile().request_timeout
    }

    /// The element with this id, or its result.
    pub(crate) async fn find(&self, id: ElementId) -> Result<Option<ElementRow>> {
        let found = self.queues.find(&self.key, &[id], MAX_PAYLOAD + MAX_ENVELOPE).await;
        let row = found.map_err(|error| error.at(&self.key))?.into_iter().next().flatten();
        Ok(row.map(|row| row.opened(MAX_PAYLOAD)))
    }
}

/// The work queues of a store.
///
/// # Errors
/// `Unsupported`: it has none.
pub(crate) fn queues(client: &Client) -> Result<Arc<dyn Queues>> {
    client.queues().cloned().ok_or_else(|| {
        let message = format!(
            "{} has no work queues; Redis, PostgreSQL, MySQL, MariaDB, SQLite and memory have them",
            client.profile().store
        );
        Error::new(ErrorKind::Unsupported, message)
    })
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("key", &self.key).field("queues", &self.queues).finish_non_exhaustive()
    }
}

/// Reads the payload of an element.
pub(crate) fn decode<T, C: bandog_codec::Decode<T>>(codec: &C, payload: &[u8]) -> Result<T> {
    codec.decode(payload).map_err(|error| Error::new(ErrorKind::Corrupt, error.to_string()))
}
