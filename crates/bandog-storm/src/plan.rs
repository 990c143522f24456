//! The constants of a run.

use std::time::Duration;

use clap::ValueEnum;

/// Number of lock names.
pub(crate) const NAMES: usize = 16;
/// Number of hot names. A hot name is a name for which many callers wait: about half of all calls use one of them.
pub(crate) const HOT: usize = 4;
/// Number of names whose locks are held for a long time. These are the last of all names. Some tasks of each client lock
/// only these names. The other tasks rarely lock these names.
pub(crate) const LONG: usize = 4;
/// Number of tasks of each client that lock only the names whose locks are held for a long time.
pub(crate) const LONG_TASKS: u32 = 2;
/// The limit that calls for permits name. The first call for a semaphore sets this limit.
pub(crate) const LIMIT: u32 = 3;
/// The other limit of semaphores, which clients set from time to time.
pub(crate) const GREATER_LIMIT: u32 = 4;
/// The watchdog's ttl. It is short, so that many locks are renewed, or lost, while they are held.
pub(crate) const TTL: Duration = Duration::from_millis(600);
/// The request timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);
/// Tolerance for delays on a loaded machine.
pub(crate) const SLACK: Duration = Duration::from_secs(1);
/// Maximum time until a waiter gets a free lock if the notification of the waiter was lost. docs/GUARANTEES.md promises
/// this bound.
pub(crate) const RECHECK: Duration = Duration::from_secs(1);

/// Time for which the store keeps the place of a killed waiter.
pub(crate) const PLACE: Duration = Duration::from_secs(5);
/// Maximum time after a grant in which a client passes the hold on to further calls. The client itself stops after
/// 20 ms, or after 16 round trips.
pub(crate) const PASSED_ON: Duration = Duration::from_millis(500);
/// A client that has waited for this time has priority over clients that have waited for a shorter time.
pub(crate) const STARVING: Duration = Duration::from_secs(1);

/// A kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Mutex,
    Fair,
    /// Readers, writers, and writers that become readers
    ReadWrite,
    /// Calls for one, two or three permits, and changes of the limit
    Semaphore,
    /// Calls for several locks at once
    All,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Mutex, Self::Fair, Self::ReadWrite, Self::Semaphore, Self::All];

    /// The kind of the lock with this number. Each name has one kind for the whole run.
    pub(crate) fn of_name(number: usize, kinds: &[Self]) -> Self {
        let locks: Vec<_> = kinds.iter().copied().filter(|kind| *kind != Self::All).collect();
        locks.get(number % locks.len().max(1)).copied().unwrap_or(Self::Mutex)
    }

    /// The word for the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The name of the lock with this number.
pub(crate) fn name(number: usize) -> String {
    format!("storm-{number}")
}
