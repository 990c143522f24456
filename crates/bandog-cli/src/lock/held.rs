//! The locks that this process runs under. Each lock is held by an ancestor of this process, until the command of this
//! ancestor has ended. If this process waited for such a lock, the wait would never end.

use std::{env, ffi::OsString};

use bandog::backend::{ClaimId, Kind};
use serde::{Deserialize, Serialize};

use crate::process_tree::process::{self, Process};

/// The variable in which each `bandog lock` passes the held locks to its command.
pub(crate) const VARIABLE: &str = "BANDOG_HELD";

/// A lock, its store, and the command that runs under the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    name: String,
    store: String,
    /// The kind of the hold, as text. An earlier version of bandog had only mutexes, and did not write this field.
    #[serde(default = "mutex")]
    kind: String,
    /// The id of the client that holds the lock. In the store, the owner of the lock begins with this id and a colon.
    client: String,
    /// The id of the claim that holds the lock. None if the lock has a fixed lease, so that it ends by itself. An earlier
    /// version of bandog did not write this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    /// The pid of the command, or 0 if the pid is not known yet.
    pid: i32,
    /// The start time of the command, as in `Process::number`.
    started: u64,
}

/// The holds of ancestors on the lock with this name. After the command of a hold has ended, its background processes
/// have no such ancestor any more. So a background process is allowed to wait for the lock.
pub(super) fn by_ancestors(name: &str, store: &str) -> Vec<Held> {
    above().into_iter().filter(|held| held.name == name && held.store == store).collect()
}

/// The holds of ancestors whose locks have these owners in the store. This function finds the ancestors even if
/// BANDOG_HELD contains another spelling of the store or of the name.
pub(super) fn by_owners<'a>(owners: impl Iterator<Item = &'a str>) -> Vec<Held> {
    let clients: Vec<_> = owners.filter_map(|owner| owner.split(':').next()).collect();
    above().into_iter().filter(|held| clients.contains(&held.client.as_str())).collect()
}

/// The claims of ancestors that hold locks without a fixed lease, in any store. While this process waits, its ancestors
/// keep these locks.
pub(super) fn lasting_claims() -> Vec<ClaimId> {
    above().into_iter().filter_map(|held| held.claim?.parse().ok()).collect()
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

/// The value of BANDOG_HELD for a command that is about to run under these locks. The pid of the command is not known
/// yet; [`with_own_pid`] adds it. `claims`: the claims that hold the locks. `has_lease`: whether the leases are fixed.
pub(super) fn with<'a>(
    claims: impl Iterator<Item = (&'a str, ClaimId)>,
    store: &str,
    kind: Kind,
    has_lease: bool,
) -> String {
    let new = claims.map(|(name, claim)| {
        let (name, store, kind, client) = (name.into(), store.into(), kind.to_string(), claim.client.to_string());
        let claim = (!has_lease).then(|| claim.to_string());
        Held { name, store, kind, client, claim, pid: 0, started: 0 }
    });
    text(&above().into_iter().chain(new).collect::<Vec<_>>())
}

/// Adds the pid of this process to the value of BANDOG_HELD, and returns the new value. This process is about to become
/// the command of the last locks. None if this process runs under no lock.
pub(crate) fn with_own_pid() -> Option<String> {
    let mut held = all();
    if held.is_empty() {
        return None;
    }
    // A pid of 0 means that `with` added the lock for this process. The other locks belong to ancestors.
    if let Some(process) = process::ourselves() {
        held.iter_mut().filter(|held| held.pid == 0).for_each(|held| (held.pid, held.started) = process.number());
    }
    Some(text(&held))
}

impl Held {
    /// The kind of the hold. A kind of a later version of bandog counts as a mutex.
    pub(super) fn kind(&self) -> Kind {
        self.kind.parse().unwrap_or(Kind::Mutex)
    }

    /// The pid of the command that runs under the lock.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether the command that runs under this lock is one of these processes.
    fn is_among(&self, processes: &[Process]) -> bool {
        processes.iter().any(|process| process.number() == (self.pid, self.started))
    }
}

/// The default of [`Held::kind`].
fn mutex() -> String {
    Kind::Mutex.to_string()
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
