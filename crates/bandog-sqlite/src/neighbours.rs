//! The other connections of this process to the same database.
//!
//! SQLite maps the index of a log once for all connections of a process. A connection that is opened while another still
//! has a deleted index open gets the deleted index together with the new log, and reads nonsense. So no connection is
//! opened while another one of this process has files open that do not lie at their names any more. The owner of that
//! one is asked to check its files, and closes them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    fault::Fault,
    place::{FileId, Files, Found},
};

/// Makes the owner of a connection check its files.
pub(crate) type Poke = Arc<dyn Fn() + Send + Sync>;

/// A connection that is being opened, or is open until this is dropped.
#[derive(Debug)]
pub(crate) struct Neighbour(u64);

struct Entry {
    number: u64,
    database: FileId,
    /// None while it is being opened.
    files: Option<Files>,
    poke: Option<Poke>,
}

#[derive(Default)]
struct Street {
    entries: Vec<Entry>,
    number: u64,
}

static STREET: Mutex<Street> = Mutex::new(Street { entries: Vec::new(), number: 0 });

impl Neighbour {
    /// Begins to open this database; `found` lies at the names of its files. A fault that is busy says that it cannot be
    /// opened yet.
    pub(crate) fn open(database: FileId, found: Found, poke: Option<Poke>) -> Result<Self, Fault> {
        let mut street = street();
        let in_the_way =
            |entry: &&Entry| entry.database == database && (entry.files.is_none() || entry.files != found.files());
        let pokes: Vec<Option<Poke>> =
            street.entries.iter().filter(in_the_way).map(|entry| entry.poke.clone()).collect();
        if !pokes.is_empty() {
            drop(street);
            pokes.into_iter().flatten().for_each(|poke| poke());
            return Err(Fault::Moved(None));
        }
        street.number += 1;
        let number = street.number;
        street.entries.push(Entry { number, database, files: None, poke });
        Ok(Self(number))
    }

    /// Writes down which files it has open. False if another connection of this process has other files open: then this
    /// one must be closed.
    pub(crate) fn opened(&self, files: Files) -> bool {
        let mut street = street();
        let is_other = |entry: &Entry| entry.number != self.0 && entry.database == files.database;
        if street.entries.iter().any(|entry| is_other(entry) && entry.files != Some(files)) {
            return false;
        }
        if let Some(ours) = street.entries.iter_mut().find(|entry| entry.number == self.0) {
            ours.files = Some(files);
        }
        true
    }

    /// Whether no other connection of this process has this database open.
    pub(crate) fn is_alone(&self, database: FileId) -> bool {
        !street().entries.iter().any(|entry| entry.number != self.0 && entry.database == database)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        street().entries.retain(|entry| entry.number != self.0);
    }
}

fn street() -> MutexGuard<'static, Street> {
    STREET.lock().unwrap_or_else(PoisonError::into_inner)
}
