//! The share that a call asks for: the kind of the lock, and the part of it.

use std::{fmt, str::FromStr};

use bandog_judge::Part;

/// The share of a lock that a call holds after its grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mutex => f.write_str("mutex"),
            Self::Fair => f.write_str("fair"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Permits(number) => write!(f, "permits-{number}"),
            Self::Leader => f.write_str("leader"),
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "mutex" => Self::Mutex,
            "fair" => Self::Fair,
            "read" => Self::Read,
            "write" => Self::Write,
            "leader" => Self::Leader,
            _ => {
                let number = text.strip_prefix("permits-").and_then(|number| number.parse().ok());
                Self::Permits(number.ok_or_else(|| format!("not the part of a lock: {text:?}"))?)
            }
        })
    }
}
