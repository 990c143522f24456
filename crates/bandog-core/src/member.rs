//! Who a client is, as operators see it.

use std::{path::Path, time::SystemTime};

use crate::{ClientId, Key};

/// How many of the names that a client waits for it tells of.
pub const MAX_WAITS: usize = 32;

/// A client that a store knows of: one row of its registry, renewed with the client's holds.
///
/// It says who holds or waits, in words; nothing is decided by it. A row ends with its ttl, so a client that was
/// killed is listed for that long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The client: the first half of its owners' names.
    pub id: ClientId,
    /// The name of the machine.
    pub host: String,
    /// The process there.
    pub pid: u32,
    /// The program, as it calls itself.
    pub program: String,
    /// Since when the client lives, by its own wall clock.
    pub since: SystemTime,
    /// What its names begin with in the store; empty for a client without a prefix.
    pub prefix: String,
    /// The names that it waits for: at most [`MAX_WAITS`] of them.
    pub waits: Vec<Key>,
}

impl Member {
    /// A client in this process that waits for nothing, under the name of the running program.
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
