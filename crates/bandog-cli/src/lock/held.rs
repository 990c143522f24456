//! The locks that this process runs under. Each lock is held by an ancestor of this process, until the command of this
//! ancestor has ended. If this process waited for such a lock, the wait would never end.

use std::{env, ffi::OsString};

use serde::{Deserialize, Serialize};

use crate::process_tree::process::{self, Process};

/// The variable in which each `bandog lock` passes the held locks to its command.
pub(crate) const VARIABLE: &str = "BANDOG_HELD";

/// A lock, its store, and the command that runs under the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    name: String,
    store: String,
    /// The id of the client that holds the lock. In the store, the owner of the lock begins with this id and a colon.
    client: String,
    /// The pid of the command, or 0 if the pid is not known yet.
    pid: i32,
    /// The start time of the command, as in `Process::number`.
    started: u64,
}

/// The pid of the ancestor that runs under this lock, if there is such an ancestor. After the command of the lock has
/// ended, its background processes have no such ancestor any more. So a background process is allowed to wait for the
/// lock.
pub(super) fn by_ancestor(name: &str, store: &str) -> Option<i32> {
    above().iter().find(|held| held.name == name && held.store == store).map(|held| held.pid)
}

/// The pid of the ancestor whose lock has this owner in the store, if there is such an ancestor. This function finds
/// the ancestor even if BANDOG_HELD contains another spelling of the store or of the name.
pub(super) fn by_owner(owner: &str) -> Option<i32> {
    let client = owner.split(':').next()?;
    above().iter().find(|held| held.client == client).map(|held| held.pid)
}

/// Whether this process runs under any lock.
pub(super) fn is_under_any() -> bool {
    !above().is_empty()
}

/// The locks whose command is this process or one of its ancestors.
fn above() -> Vec<Held> {
    let ancestors = process::ancestors();
    all().into_iter().filter(|held| held.is_among(&ancestors)).collect()
}

/// The value of BANDOG_HELD for a command that is about to run under this lock. The pid of the command is not known
/// yet; [`with_own_pid`] adds it.
pub(super) fn with(name: &str, store: &str, client: &str) -> String {
    let mut held = above();
    held.push(Held { name: name.into(), store: store.into(), client: client.into(), pid: 0, started: 0 });
    text(&held)
}

/// Adds the pid of this process to the value of BANDOG_HELD, and returns the new value. This process is about to become
/// the command of the last lock. None if this process runs under no lock.
pub(crate) fn with_own_pid() -> Option<String> {
    let mut held = all();
    let last = held.last_mut()?;
    // A pid of 0 means that `with` added the last lock for this process. Otherwise the last lock belongs to an
    // ancestor.
    if let (0, Some(process)) = (last.pid, process::ourselves()) {
        (last.pid, last.started) = process.number();
    }
    Some(text(&held))
}

impl Held {
    /// Whether the command that runs under this lock is one of these processes.
    fn is_among(&self, processes: &[Process]) -> bool {
        processes.iter().any(|process| process.number() == (self.pid, self.started))
    }
}

/// The locks in BANDOG_HELD. The result is empty if the variable is not set or cannot be parsed.
fn all() -> Vec<Held> {
    let text = env::var_os(VARIABLE).map(OsString::into_encoded_bytes).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The value of BANDOG_HELD for these locks.
fn text(held: &[Held]) -> String {
    // The locks consist of texts and numbers, which can always be serialized.
    serde_json::to_string(held).unwrap_or_default()
}
