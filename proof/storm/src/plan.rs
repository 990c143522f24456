//! The constants of a run.

use std::{ops::Range, time::Duration};

use clap::ValueEnum;

/// Number of lock names.
pub(crate) const NAMES: usize = 16;
/// The numbers of the elections. Each name has a number, also the names that follow here, and no two names have the same.
pub(crate) const ELECTIONS: Range<usize> = NAMES..NAMES + 2;
/// Number of the names that protect a resource: the locks and the elections.
pub(crate) const RESOURCES: usize = ELECTIONS.end;
/// The numbers of the latches.
pub(crate) const LATCHES: Range<usize> = RESOURCES..RESOURCES + 6;
/// The numbers of the barriers.
pub(crate) const BARRIERS: Range<usize> = LATCHES.end..LATCHES.end + 2;
/// Number of tasks of each client for each of the kinds latch, barrier and election. An election has one more task for
/// each client, which observes the elections.
pub(crate) const TASKS_OF_KIND: u32 = 2;
/// Maximum count of a latch.
pub(crate) const MAX_COUNT: u64 = 5;
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
/// The watchdog's ttl on servers with replicas. It is longer than most failovers: then a holder still believes that it has
/// the lock when the new master serves, so a grant that the new master does not have is noticed.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(4);
/// The session of clients of ZooKeeper, and the watchdog's ttl on ZooKeeper, which is not longer. Processes are stopped for
/// up to 1.3 s, so some sessions expire.
pub(crate) const SESSION: Duration = Duration::from_millis(800);
/// The request timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);
/// Tolerance for delays on a loaded machine.
pub(crate) const SLACK: Duration = Duration::from_secs(1);
/// A process that wrote no heartbeat for this time did not run.
pub(crate) const STALL: Duration = Duration::from_millis(200);
/// Maximum time until a waiter gets a free lock if the notification of the waiter was lost. docs/GUARANTEES.md promises
/// this bound.
pub(crate) const RECHECK: Duration = Duration::from_secs(1);

/// Time for which the store keeps the place of a killed waiter.
pub(crate) const PLACE: Duration = Duration::from_secs(5);
/// Maximum time after a grant in which a client hands the hold over to further calls. The client itself stops after
/// 20 ms, or after 16 round trips.
pub(crate) const HANDED_OVER: Duration = Duration::from_millis(500);
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
    /// Count-down latches: set, count down, wait, delete
    Latch,
    /// Parties that wait for each other
    Barrier,
    /// Candidates and observers
    Election,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Mutex,
        Self::Fair,
        Self::ReadWrite,
        Self::Semaphore,
        Self::All,
        Self::Latch,
        Self::Barrier,
        Self::Election,
    ];

    /// Whether this is a kind of lock.
    pub(crate) fn is_lock(self) -> bool {
        match self {
            Self::Mutex | Self::Fair | Self::ReadWrite | Self::Semaphore => true,
            Self::All | Self::Latch | Self::Barrier | Self::Election => false,
        }
    }

    /// The kind of the lock with this number. Each name has one kind for the whole run.
    pub(crate) fn of_name(number: usize, kinds: &[Self]) -> Self {
        let locks: Vec<_> = kinds.iter().copied().filter(|kind| kind.is_lock()).collect();
        locks.get(number % locks.len().max(1)).copied().unwrap_or(Self::Mutex)
    }
}

/// The name with this number, without the word that the store adds for its kind.
pub(crate) fn name(number: usize) -> String {
    format!("storm-{number}")
}

/// The key of the mutex with this number. An election has a mutex, which its leader holds.
pub(crate) fn mutex(number: usize) -> String {
    if ELECTIONS.contains(&number) { format!("election/{}", name(number)) } else { name(number) }
}

/// The number of parties of a barrier. Each client has one task for each barrier, and the store has four clients. So at
/// the first barrier all tasks must arrive, and at the others one of them is not necessary.
pub(crate) fn parties(barrier: usize) -> u32 {
    if barrier == BARRIERS.start { 4 } else { 3 }
}
