//! Operations on caches.
//!
//! A cache has one entry for each key. An entry is fresh, then stale, then it is gone. A *fill* is the right to write an
//! entry whose value is being loaded: of several programs that miss an entry, one has it. It ends when the entry is written or
//! removed, when the cache is cleared, and when its lease expires. So a value that was loaded before a removal is never
//! written after it.

use std::{fmt, sync::Arc, time::Duration};

use super::terms::Bytes;
use crate::Error;

/// An entry of a cache. The parts of a cache are on different servers of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// The part of the cache in which the entry is. Each caller must find the same part for the same key.
    pub part: u8,
    /// The key.
    pub key: Bytes,
}

/// The id of a fill: a random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FillId(pub u128);

/// An entry that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry {
    /// The value. None: it is known that there is no value.
    pub value: Option<Bytes>,
    /// The time for which the entry is fresh.
    pub fresh: Duration,
    /// The time for which it is stale after that.
    pub stale: Duration,
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The value. None: it is known that there is no value.
    pub value: Option<Bytes>,
    /// When it was written, by the clock of the store, in ms since 1970.
    pub written: u64,
    /// Whether it is fresh.
    pub is_fresh: bool,
}

/// Operations on a cache. Caches have names of their own: one may have the name of another object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheOp {
    /// Reads an entry. Answer: [`Reply::CacheEntry`](super::Reply::CacheEntry).
    Get(EntryKey),
    /// Reads an entry, and the time for which it is fresh. Answer: [`Reply::Look`](super::Reply::Look).
    Look(EntryKey),
    /// Reads an entry, and begins a fill if it is allowed. A repeated request with the same id has the same answer, and
    /// extends the lease. Answer: [`Reply::Fill`](super::Reply::Fill).
    Begin {
        /// The entry.
        at: EntryKey,
        /// The id of the fill.
        fill: FillId,
        /// When the fill begins.
        when: BeginWhen,
        /// The time after which the fill ends if it is not extended.
        lease: Duration,
    },
    /// Extends the lease of a fill. Answer: whether it still runs.
    Extend {
        /// The entry.
        at: EntryKey,
        /// The id of the fill.
        fill: FillId,
        /// The new remaining time.
        lease: Duration,
    },
    /// Writes the entry and ends the fill, if it still runs. Answer: whether it did.
    Fill {
        /// The entry.
        at: EntryKey,
        /// The id of the fill.
        fill: FillId,
        /// The new entry.
        entry: NewEntry,
    },
    /// Ends a fill without an entry. Answer: whether it still ran.
    End {
        /// The entry.
        at: EntryKey,
        /// The id of the fill.
        fill: FillId,
    },
    /// Writes an entry, and ends a fill. Answer: nothing.
    Put(EntryKey, NewEntry),
    /// Removes an entry, and ends a fill. Answer: nothing.
    Remove(EntryKey),
    /// Removes all entries of a part of the cache, and ends its fills. The time does not depend on their number. Answer:
    /// nothing.
    Clear {
        /// The part.
        part: u8,
    },
}

/// A change of a tracked cache.
#[derive(Debug, Clone)]
pub enum CacheChange {
    /// This entry was written or removed, or has expired.
    Entry(EntryKey),
    /// Any entry may have changed. From now on, each change is reported.
    Any,
    /// Changes are not reported any more.
    Lost,
    /// Changes are not reported, because this user has no right to it, or the store does not have it.
    Denied(Error),
}

/// Gets the changes of a tracked cache.
#[derive(Clone)]
pub struct CacheChanges(Arc<dyn Fn(CacheChange) + Send + Sync>);

impl CacheChanges {
    /// Calls this function with each change. It must not block, and must not call the backend.
    pub fn new(call: impl Fn(CacheChange) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    /// Reports a change.
    pub fn report(&self, change: CacheChange) {
        (self.0)(change);
    }
}

impl fmt::Debug for CacheChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheChanges")
    }
}

/// When a fill begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginWhen {
    /// If the entry is not fresh and no other fill runs.
    Needed,
    /// As [`Needed`](Self::Needed), or if the fresh entry is the one that was written at this time
    /// ([`CacheEntry::written`]): the caller cannot use it.
    Instead(u64),
    /// In any case. Another fill ends.
    Always,
}

/// What an operation that may begin a fill found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillState {
    /// The entry is fresh for this time.
    Fresh(Duration),
    /// The caller has the fill.
    Granted,
    /// This fill runs.
    Runs {
        /// The id of the fill.
        fill: FillId,
        /// The time until its lease expires.
        lease: Duration,
    },
}

impl CacheOp {
    /// The part of the cache.
    pub fn part(&self) -> u8 {
        match self {
            Self::Get(at)
            | Self::Look(at)
            | Self::Begin { at, .. }
            | Self::Extend { at, .. }
            | Self::Fill { at, .. }
            | Self::End { at, .. }
            | Self::Put(at, _)
            | Self::Remove(at) => at.part,
            Self::Clear { part } => *part,
        }
    }
}
