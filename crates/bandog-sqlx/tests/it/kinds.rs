//! The kinds of locks, the names of tests, and a timeout, which do not depend on the database.

use std::{process::Command, time::Duration};

use bandog::{Client, Guard};

/// Timeout for expected events. A test reaches it only if it fails.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A kind of lock that a transaction can check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checked {
    Mutex,
    Fair,
    Write,
}

impl Checked {
    pub(crate) const ALL: [Self; 3] = [Self::Mutex, Self::Fair, Self::Write];

    /// Takes the lock with the watchdog's lease.
    pub(crate) async fn lock(self, client: &Client, name: &str) -> Guard {
        match self {
            Self::Mutex => client.mutex(name).lock().await.unwrap(),
            Self::Fair => client.mutex(name).fair().lock().await.unwrap(),
            Self::Write => client.rwlock(name).write().await.unwrap().into(),
        }
    }

    /// Takes the lock for a fixed time.
    pub(crate) async fn lease(self, client: &Client, name: &str, time: Duration) -> Guard {
        match self {
            Self::Mutex => client.mutex(name).lease(time).lock().await.unwrap(),
            Self::Fair => client.mutex(name).fair().lease(time).lock().await.unwrap(),
            Self::Write => client.rwlock(name).lease(time).write().await.unwrap().into(),
        }
    }

    pub(crate) async fn try_lock(self, client: &Client, name: &str) -> Option<Guard> {
        match self {
            Self::Mutex => client.mutex(name).try_lock().await.unwrap(),
            Self::Fair => client.mutex(name).fair().try_lock().await.unwrap(),
            Self::Write => client.rwlock(name).try_write().await.unwrap().map(Into::into),
        }
    }
}

/// This program as a child process, which runs one test only: that of the function of this name in a module
/// (`module_path!()`).
pub(crate) fn child(module: &str, function: &str) -> Command {
    let (_, module) = module.split_once("::").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("{module}::{function}"), "--nocapture", "--test-threads=1"]);
    command
}
