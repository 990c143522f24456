//! Operations on journals.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use super::terms::{Bytes, Once};
use crate::{Error, Result};

/// The id of an entry of a journal: the time of the store at which it was appended, in ms since 1970, and a number that
/// distinguishes entries of the same ms. Later entries have greater ids. The text is that of Redis: `1764320000000-0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId {
    /// Milliseconds since 1970.
    pub millis: u64,
    /// The number of the entry within this ms.
    pub number: u64,
}

impl EntryId {
    /// Before all entries.
    pub const MIN: Self = Self { millis: 0, number: 0 };
    /// After all entries.
    pub const MAX: Self = Self { millis: u64::MAX, number: u64::MAX };

    /// The smallest id that is greater than this.
    #[must_use]
    pub fn next(self) -> Self {
        match self.number.checked_add(1) {
            Some(number) => Self { number, ..self },
            None => Self { millis: self.millis.saturating_add(1), number: 0 },
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.number)
    }
}

impl FromStr for EntryId {
    type Err = Error;

    /// # Errors
    /// `Misused`: the text is not two numbers with a hyphen between them.
    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (millis, number) = text.trim().split_once('-')?;
            Some(Self { millis: millis.parse().ok()?, number: number.parse().ok()? })
        };
        parse().ok_or_else(|| Error::misused(format!("{text:?} is not the id of an entry, such as 1764320000000-0")))
    }
}

/// The name of a group of a journal: not empty, without blanks.
pub type GroupName = Arc<str>;

/// The entries that stay in a journal when others are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All.
    All,
    /// At least this number of the newest ones. The store may keep some more.
    Newest(u64),
    /// At least those that are not older. The store may keep some more.
    For(Duration),
}

/// Where a new group begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Before the oldest entry.
    Oldest,
    /// After the newest entry.
    Newest,
    /// After this entry.
    After(EntryId),
}

/// Operations on a journal. It exists from its first entry or its first group until it is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalOp {
    /// Appends entries. Answer: [`Reply::EntryIds`](super::Reply::EntryIds).
    Append {
        /// The entries.
        entries: Vec<Bytes>,
        /// The entries that stay.
        keep: Keep,
        /// Makes the append exact.
        once: Option<Once>,
    },
    /// The entries from one id to another. Answer: [`Reply::Entries`](super::Reply::Entries).
    Range {
        /// The first id, which is included.
        from: EntryId,
        /// The last id, which is included.
        to: EntryId,
        /// The maximum number of entries.
        at_most: u32,
        /// The maximum number of their bytes beside the first entry.
        bytes: u32,
    },
    /// Removes exactly the entries that do not stay. Answer: their number.
    Trim(Keep),
    /// Answer: the number of entries.
    Len,
    /// Creates a group if there is none with this name. Answer: whether it was created.
    OpenGroup(GroupName, Start),
    /// Removes a group. Answer: whether it existed.
    RemoveGroup(GroupName),
    /// Answer: [`Reply::Groups`](super::Reply::Groups).
    Groups,
}

/// A group of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRow {
    /// The name.
    pub name: GroupName,
    /// The number of entries that can be taken. It is exact below 100. A store may count at most 10,000, and may include
    /// entries that were removed before the group had taken them.
    pub ready: u64,
    /// The number of entries that are taken and not done.
    pub taken: u64,
}
