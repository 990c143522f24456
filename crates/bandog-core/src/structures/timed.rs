//! Maps whose entries expire.

use std::{fmt, sync::Arc, time::Duration};

use super::{map::MapOp, terms::Bytes};

/// How long an entry of a timed map lives. The entry expires when the first of these times is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Life {
    /// The time since the entry was written. None: without an end.
    pub ttl: Option<Duration>,
    /// The time since the entry was read or written. None: without an end.
    pub idle: Option<Duration>,
}

impl Life {
    /// A life that ends this time after the write.
    pub fn ttl(ttl: Duration) -> Self {
        Self { ttl: Some(ttl), idle: None }
    }

    /// A life that ends when the entry was neither read nor written for this time.
    pub fn idle(idle: Duration) -> Self {
        Self { ttl: None, idle: Some(idle) }
    }
}

impl From<Duration> for Life {
    fn from(ttl: Duration) -> Self {
        Self::ttl(ttl)
    }
}

/// Which part of a store lets the entries of a timed map expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// The operations do: an entry that has expired is not read any more, and stays in the store until a program removes it
    /// ([`TimedOp::Evict`]).
    Operations,
    /// The server does. Entries have no idle time, the map has no bound, and there are no events.
    Server,
}

/// Which entry a full timed map loses first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Victim {
    /// The one that was not used for the longest time.
    LeastRecentlyUsed,
    /// The one that was used least often.
    LeastFrequentlyUsed,
}

/// Operations on a timed map.
#[derive(Debug, Clone, PartialEq)]
pub enum TimedOp {
    /// An operation on the entries that have not expired. Entries that it writes get this life; [`MapOp::Swap`],
    /// [`MapOp::Add`] and [`MapOp::AddFloat`] keep that of an entry that exists. A read begins the idle time again.
    Entries(MapOp, Life),
    /// Gives an entry another life, which begins now. Answer: whether the entry exists.
    SetLife(Bytes, Life),
    /// The remaining time of an entry. A question does not count as a read. Answer:
    /// [`Reply::Ttl`](super::Reply::Ttl).
    Left(Bytes),
    /// Limits the number of entries: a write to a full map removes others. At most 1,000 entries are removed at once.
    /// Answer: nothing.
    Bound {
        /// The maximum number of entries. 0: no limit.
        entries: u32,
        /// Which entry is removed.
        victim: Victim,
    },
    /// Removes entries that have expired, at most this number. Answer: the number of those that were removed; if less than
    /// this number were removed within the last `pause`, nothing is done, and the answer is -1.
    Evict {
        /// The maximum number of entries.
        at_most: u32,
        /// The time for which all clients leave the map alone, unless there are more.
        pause: Duration,
    },
}

/// A change of a timed map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryEvent {
    /// An entry was written that did not exist.
    Created {
        /// The field.
        field: Bytes,
        /// The value.
        value: Bytes,
    },
    /// An entry has another value.
    Updated {
        /// The field.
        field: Bytes,
        /// The value.
        value: Bytes,
        /// The former value.
        old: Bytes,
    },
    /// An entry was removed, by a caller or because the map was full.
    Removed {
        /// The field.
        field: Bytes,
        /// The former value.
        value: Bytes,
    },
    /// An entry has expired, and was removed.
    Expired {
        /// The field.
        field: Bytes,
        /// The former value.
        value: Bytes,
    },
    /// Events may be missing here.
    Gap,
    /// A message that is no event.
    Corrupt,
    /// No event follows, because the store refuses the subscription.
    End,
}

/// Takes the events of a timed map. Copies take the same events. It must not block.
#[derive(Clone)]
pub struct EntryEvents(Arc<dyn Fn(EntryEvent) + Send + Sync>);

impl EntryEvents {
    /// Calls `take` with each event.
    pub fn new(take: impl Fn(EntryEvent) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Gives an event.
    pub fn report(&self, event: EntryEvent) {
        (self.0)(event);
    }
}

impl fmt::Debug for EntryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryEvents").finish_non_exhaustive()
    }
}
