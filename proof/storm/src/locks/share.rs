//! The share that a call asks for: the kind of the lock, and the part of it.

use bandog_judge::Part;
use serde::{Deserialize, Serialize};

/// The share of a lock that a call holds after its grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Share {
    /// A mutex.
    Mutex,
    /// A fair mutex.
    Fair,
    /// A read-write lock, as a reader.
    Read,
    /// A read-write lock, as a writer.
    Write,
    /// This number of permits of a semaphore.
    Permits(u32),
    /// The leadership of an election.
    Leader,
}

impl Share {
    /// The part of the lock that the call holds.
    pub(crate) fn part(self) -> Part {
        match self {
            Self::Mutex | Self::Fair | Self::Write | Self::Leader => Part::Alone,
            Self::Read => Part::Shared,
            Self::Permits(number) => Part::Permits(number),
        }
    }

    /// Whether no other call can hold the lock at the same time.
    pub(crate) fn is_exclusive(self) -> bool {
        self.part() == Part::Alone
    }

    /// Number of permits. 0 if the lock is not a semaphore.
    pub(crate) fn permits(self) -> u32 {
        self.part().permits()
    }

    /// Whether two calls can never hold the lock at the same time. `limit` is the greatest limit of the semaphore.
    pub(crate) fn conflicts(self, other: Self, limit: u32) -> bool {
        self.part().conflicts(other.part(), limit)
    }
}
