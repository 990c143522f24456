//! The other connections of this process to the same database.
//!
//! SQLite maps the index of a log once for all connections of a process. If a connection is opened while another
//! connection of the process still has a deleted index open, the new connection gets the deleted index together with
//! the new log, and reads garbage. So while a connection of this process has files open that are no longer at their
//! paths, no other connection is opened. An attempt to open another connection fails, and asks the owner of the old
//! connection to check its files. The owner then detects that files were deleted, and closes the old connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    fault::Fault,
    open_files::{FileId, FileIds, FoundFiles},
};

/// A function that asks the owner of a connection to check the connection's files.
pub(crate) type RequestFileCheck = Arc<dyn Fn() + Send + Sync>;

/// The registration of a connection that is being opened or is open. The registration ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct RegisteredConnection(u64);

struct ConnectionEntry {
    number: u64,
    database: FileId,
    /// The files that the connection has open. None while it is being opened.
    files: Option<FileIds>,
    request_check: Option<RequestFileCheck>,
}

#[derive(Default)]
struct ConnectionRegistry {
    entries: Vec<ConnectionEntry>,
    /// The number of the connection that was registered last.
    last_number: u64,
}

static REGISTRY: Mutex<ConnectionRegistry> = Mutex::new(ConnectionRegistry { entries: Vec::new(), last_number: 0 });

impl RegisteredConnection {
    /// Registers a connection that is being opened. `found` contains the files that are at the paths of this database
    /// now. If another connection must be closed or checked first, this returns a fault for which [`Fault::is_busy`] is
    /// true.
    pub(crate) fn open(
        database: FileId,
        found: FoundFiles,
        request_check: Option<RequestFileCheck>,
    ) -> Result<Self, Fault> {
        let mut registry = registry();
        // A connection blocks others while it is being opened, and while it has other files open than those at the
        // paths.
        let is_blocking = |entry: &&ConnectionEntry| {
            entry.database == database && (entry.files.is_none() || entry.files != found.all())
        };
        let blocking: Vec<Option<RequestFileCheck>> =
            registry.entries.iter().filter(is_blocking).map(|entry| entry.request_check.clone()).collect();
        if !blocking.is_empty() {
            drop(registry);
            blocking.into_iter().flatten().for_each(|request_check| request_check());
            return Err(Fault::FilesReplaced(None));
        }
        registry.last_number += 1;
        let number = registry.last_number;
        registry.entries.push(ConnectionEntry { number, database, files: None, request_check });
        Ok(Self(number))
    }

    /// Registers the files that this connection has open. Returns false if another connection of this process has
    /// different files of the same database open. Then this connection must be closed.
    pub(crate) fn opened(&self, files: FileIds) -> bool {
        let mut registry = registry();
        let is_other = |entry: &ConnectionEntry| entry.number != self.0 && entry.database == files.database;
        if registry.entries.iter().any(|entry| is_other(entry) && entry.files != Some(files)) {
            return false;
        }
        if let Some(ours) = registry.entries.iter_mut().find(|entry| entry.number == self.0) {
            ours.files = Some(files);
        }
        true
    }

    /// Whether no other connection of this process has this database open.
    pub(crate) fn is_alone(&self, database: FileId) -> bool {
        !registry().entries.iter().any(|entry| entry.number != self.0 && entry.database == database)
    }
}

impl Drop for RegisteredConnection {
    fn drop(&mut self) {
        registry().entries.retain(|entry| entry.number != self.0);
    }
}

fn registry() -> MutexGuard<'static, ConnectionRegistry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
