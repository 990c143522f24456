//! A client as operators see it.

use std::{path::Path, time::SystemTime};

use crate::{ClientId, Key};

/// Maximum number of names in [`Member::waits`].
pub const MAX_WAITS: usize = 32;

/// A registered client: one row of the store's registry. The client renews the row together with its holds.
///
/// The row is for operators only; no decision depends on it. It expires after its ttl, so a client that was killed
/// stays listed until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The id of the client: the part before the colon in the owner of its locks.
    pub id: ClientId,
    /// The name of the machine.
    pub host: String,
    /// The process id on that machine.
    pub pid: u32,
    /// The name of the program.
    pub program: String,
    /// The time at which the client was created, by its own wall clock.
    pub since: SystemTime,
    /// The prefix of all its names in the store. Empty for a client without a prefix.
    pub prefix: String,
    /// The names that it waits for: at most [`MAX_WAITS`] of them.
    pub waits: Vec<Key>,
}

impl Member {
    /// A client of this process, under the name of the running program, that waits for no lock.
    pub fn here(id: ClientId) -> Self {
        let path = std::env::current_exe().ok();
        let program = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        Self {
            id,
            host: host(),
            pid: std::process::id(),
            program: program.unwrap_or_else(|| "unknown".into()),
            since: SystemTime::now(),
            prefix: String::new(),
            waits: Vec::new(),
        }
    }
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".into())
}
