//! The locks that this process already runs under: to wait for one of them would be to wait for ever.

use std::{env, ffi::OsString};

use serde::{Deserialize, Serialize};

use crate::family::tree::{self, Process};

/// The variable in which each `bandog lock` tells the next what its command holds.
pub(crate) const VARIABLE: &str = "BANDOG_HELD";

/// A lock, the store that it is in, and the command that runs under it: the lock is held as long as that lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    name: String,
    store: String,
    /// Who holds it: the first half of the owner's name in the store.
    client: String,
    pid: i32,
    started: u64,
}

/// The process that runs under this lock, if one of our ancestors does. A process that was only left in the
/// background by such a command is no descendant of it: it may wait.
pub(super) fn by_ancestor(name: &str, store: &str) -> Option<i32> {
    above().iter().find(|held| held.name == name && held.store == store).map(|held| held.pid)
}

/// The process that runs under the hold of this owner, if one of our ancestors does: however differently its store and
/// its name were written.
pub(super) fn by_owner(owner: &str) -> Option<i32> {
    let client = owner.split(':').next()?;
    above().iter().find(|held| held.client == client).map(|held| held.pid)
}

/// Whether we run under any lock.
pub(super) fn is_under_any() -> bool {
    !above().is_empty()
}

fn above() -> Vec<Held> {
    let ancestors = tree::ancestors();
    all().into_iter().filter(|held| held.is_among(&ancestors)).collect()
}

/// The variable for a command under this lock. It does not know its number yet; [`with_own_number`] fills it in.
pub(super) fn with(name: &str, store: &str, client: &str) -> String {
    let mut held = above();
    held.push(Held { name: name.into(), store: store.into(), client: client.into(), pid: 0, started: 0 });
    text(&held)
}

/// The variable, now that this process is about to become the command; none if it runs under no lock.
pub(crate) fn with_own_number() -> Option<String> {
    let mut held = all();
    let last = held.last_mut()?;
    // Otherwise it is the lock of a command further up.
    if let (0, Some(process)) = (last.pid, tree::ourselves()) {
        (last.pid, last.started) = process.number();
    }
    Some(text(&held))
}

impl Held {
    fn is_among(&self, processes: &[Process]) -> bool {
        processes.iter().any(|process| process.number() == (self.pid, self.started))
    }
}

/// What the variable says; a text that is not ours says nothing.
fn all() -> Vec<Held> {
    let text = env::var_os(VARIABLE).map(OsString::into_encoded_bytes).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn text(held: &[Held]) -> String {
    // Texts and numbers can always be written.
    serde_json::to_string(held).unwrap_or_default()
}
