//! The locks that this process runs under. Waiting for one of them would never end.

use std::{env, ffi::OsString};

use serde::{Deserialize, Serialize};

use crate::process_tree::process::{self, Process};

/// The variable in which each `bandog lock` passes the held locks to its command.
pub(crate) const VARIABLE: &str = "BANDOG_HELD";

/// A lock, its store, and the command that runs under it. The lock is held while that command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    name: String,
    store: String,
    /// The client id: the part of the owner in the store before the colon.
    client: String,
    /// The pid of the command, or 0 if it is not known yet.
    pid: i32,
    /// The start time of the command, as in `Process::number`.
    started: u64,
}

/// The pid of the ancestor that runs under this lock, if there is one. A background process of the command has no such
/// ancestor after the command has ended, so the background process is then allowed to wait for the lock.
pub(super) fn by_ancestor(name: &str, store: &str) -> Option<i32> {
    above().iter().find(|held| held.name == name && held.store == store).map(|held| held.pid)
}

/// The pid of the ancestor whose lock has this owner in the store, if there is one. This finds the ancestor even if
/// store and name are written differently.
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

/// The value of the variable for a command under this lock. The pid of the command is not known yet; [`with_own_pid`]
/// adds it.
pub(super) fn with(name: &str, store: &str, client: &str) -> String {
    let mut held = above();
    held.push(Held { name: name.into(), store: store.into(), client: client.into(), pid: 0, started: 0 });
    text(&held)
}

/// The value of the variable with the pid of this process, which is about to become the command. None if it runs under
/// no lock.
pub(crate) fn with_own_pid() -> Option<String> {
    let mut held = all();
    let last = held.last_mut()?;
    // A pid of 0 means that this process is the command. Otherwise the last lock is that of an ancestor.
    if let (0, Some(process)) = (last.pid, process::ourselves()) {
        (last.pid, last.started) = process.number();
    }
    Some(text(&held))
}

impl Held {
    fn is_among(&self, processes: &[Process]) -> bool {
        processes.iter().any(|process| process.number() == (self.pid, self.started))
    }
}

/// The locks in the variable; none if it cannot be parsed.
fn all() -> Vec<Held> {
    let text = env::var_os(VARIABLE).map(OsString::into_encoded_bytes).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn text(held: &[Held]) -> String {
    // Texts and numbers can always be serialized.
    serde_json::to_string(held).unwrap_or_default()
}
