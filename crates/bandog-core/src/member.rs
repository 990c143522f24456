//! The row of one client in the store's registry, which operators can read.

mod blocked;

use std::{path::Path, time::SystemTime};

pub use self::blocked::{BlockedCall, BlockedCalls, MAX_BLOCKED, MAX_BLOCKED_HOLDS};
use crate::{ClientId, Key};

/// Maximum length of a pod's name, in bytes.
#[cfg(unix)]
const MAX_POD: usize = 253;
/// Maximum number of names in [`Member::waits`].
pub const MAX_WAITS: usize = 32;

/// A registered client: one row of the store's registry. The registry lists the clients that hold locks or wait for
/// locks.
///
/// A client renews its row together with its locks. A row that is not renewed expires after the ttl of the row. So a
/// killed client stays listed until its row expires. The row is for operators, and for the search for deadlocks: no
/// grant of a lock depends on the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The id of the client. For each lock that the client holds, the store keeps an owner: a text that begins with
    /// this id and a colon.
    pub id: ClientId,
    /// The name of the client's machine.
    pub host: String,
    /// The client's process id on that machine.
    pub pid: u32,
    /// The name of the client's program.
    pub program: String,
    /// The time at which the client was created, by the wall clock of its machine.
    pub since: SystemTime,
    /// The prefix that the client puts before each name in the store. Empty for a client without a prefix.
    pub prefix: String,
    /// The locks that the client waits for. If there are more than [`MAX_WAITS`], the list has only [`MAX_WAITS`] of
    /// them.
    pub waits: Vec<Key>,
    /// The blocked calls of the client, for the search for deadlocks.
    pub blocked: BlockedCalls,
}

impl Member {
    /// Creates the row of a client of this process, with the name of the running program. The list of locks that the
    /// client waits for is empty.
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
            blocked: BlockedCalls::default(),
        }
    }
}

/// The name of this machine. In Kubernetes, the name of the pod.
#[cfg(unix)]
fn host() -> String {
    let pod = pod(|name| std::env::var(name).ok());
    pod.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// The name of the pod, if this process runs in Kubernetes, which sets these variables.
#[cfg(unix)]
fn pod(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    variable("KUBERNETES_SERVICE_HOST")?;
    variable("HOSTNAME").filter(|name| !name.is_empty() && name.len() <= MAX_POD && !name.contains(char::is_control))
}

/// The name of this machine.
#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".into())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn in_kubernetes_the_host_is_the_pod() {
        let with = |variables: &'static [(&'static str, &'static str)]| {
            pod(move |name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        const POD: (&str, &str) = ("HOSTNAME", "shop-6f7c-x2x");
        assert_eq!(with(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), POD]), Some("shop-6f7c-x2x".into()));
        assert_eq!((with(&[POD]), with(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")])), (None, None));
        assert_eq!(with(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("HOSTNAME", "")]), None);
    }
}
