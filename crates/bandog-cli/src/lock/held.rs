//! The locks that this process already runs under: to wait for one of them would be to wait for ever.

use std::{env, ffi::OsString};

use serde::{Deserialize, Serialize};

use super::tree::{self, Process};

/// The variable in which each `bandog lock` tells the next what its command holds.
pub(crate) const VARIABLE: &str = "BANDOG_HELD";

/// A lock, the store that it is in, and the command that runs under it: the lock is held as long as that lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    name: String,
    store: String,
    pid: i32,
    started: u64,
}

/// The process that runs under this lock, if one of our ancestors does. A process that was only left in the
/// background by such a command is no descendant of it: it may wait.
pub(super) fn by_ancestor(name: &str, store: &str) -> Option<i32> {
    let ancestors = tree::ancestors();
    let is_same = |held: &&Held| held.name == name && held.store == store;
    all().iter().filter(is_same).find(|held| held.is_among(&ancestors)).map(|held| held.pid)
}

/// The variable for a command under this lock. It does not know its number yet; [`with_own_number`] fills it in.
pub(super) fn with(name: &str, store: &str) -> String {
    let ancestors = tree::ancestors();
    let mut held: Vec<Held> = all().into_iter().filter(|held| held.is_among(&ancestors)).collect();
    held.push(Held { name: name.into(), store: store.into(), pid: 0, started: 0 });
    text(&held)
}

/// The variable, now that this process is about to become the command.
pub(crate) fn with_own_number() -> String {
    let mut held = all();
    if let (Some(last), Some(process)) = (held.last_mut(), tree::ourselves()) {
        (last.pid, last.started) = process.number();
    }
    text(&held)
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
