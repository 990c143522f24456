//! The calls on locks, latches, barriers and elections, and what their callers record besides.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::{
    calls::{Words, word},
    history::{CallId, Nanos},
    locks::share::Share,
};

/// The words of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::locks) struct Locks;

impl Words for Locks {
    type Object = Name;
    type Op = Op;
    type Other = Note;

    fn label(_: Name, op: Op) -> String {
        match op {
            Op::Lock { share, verb, .. } => format!("{} {}", word(&share), word(&verb)),
            op => word(&op),
        }
    }

    fn place(note: &Note) -> Option<(Name, Nanos)> {
        match note {
            Note::Left { name, at, .. } | Note::Queued { name, at, .. } => Some((*name, *at)),
            Note::Held { .. } | Note::Again { .. } => None,
        }
    }
}

/// The number of a name: see [`crate::plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::locks) struct Name(pub(in crate::locks) usize);

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::locks) enum Op {
    /// Asks for a share of the lock. `watched` says whether a watchdog will renew the lock. If not, the lock has a fixed
    /// lease.
    Lock { share: Share, verb: Verb, ttl: Nanos, watched: bool },
    /// Releases what this call holds.
    Release { of: CallId },
    /// Takes the lock from its holder by force.
    Evict,
    /// Changes the limit of a semaphore.
    Limit(u32),
    /// Asks for the leader of an election. `follows` says whether an observer waits for a change.
    Leader { follows: bool },
    /// Sets a latch to this count, if it is open.
    Set(u64),
    /// Subtracts this number from the count of a latch.
    CountDown(u64),
    /// Deletes a latch, which opens it.
    Delete,
    /// Asks for the count of a latch.
    Count,
    /// Waits until a latch is open.
    Wait,
    /// Waits at a barrier until as many parties wait as the barrier has.
    Meet,
}

/// The method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::locks) enum Verb {
    Lock,
    TryLock,
    TryLockFor,
    /// A `lock` whose future is dropped after a random time.
    Dropped,
    /// One of several locks that one call takes together.
    All,
    /// A writer becomes a reader. The call begins while the writer holds the lock.
    Downgrade,
}

impl Verb {
    /// Whether the call only waits for its own lock, until this lock is free.
    pub(in crate::locks) fn waits(self) -> bool {
        matches!(self, Self::Lock | Self::TryLockFor)
    }
}

/// What a client records besides its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::locks) enum Note {
    /// The holder checked its guard at the time `at`, and still held the lock, until `until` if it is not renewed. Before
    /// this check, the holder had made `writes` writes.
    Held { call: CallId, at: Nanos, until: Nanos, writes: u32 },
    /// The last check of the guard, directly before the guard is released or dropped. `held` is the result of the check.
    Left { call: CallId, name: Name, at: Nanos, held: bool, writes: u32 },
    /// The owner locked the same lock again while it held the lock, and got this fence.
    Again { call: CallId, fence: u64 },
    /// The store was asked for the queue of a fair mutex, from the time `from` to the time `at`. The claim `claim` was at
    /// this position. Each claim of the queue has a line of its own, with the same `task` and the same times.
    Queued { task: u32, from: Nanos, at: Nanos, name: Name, position: u32, claim: u64 },
}

/// One write to the resource that a lock protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::locks) struct ResourceWrite {
    pub(in crate::locks) fence: u64,
    pub(in crate::locks) client: u32,
    pub(in crate::locks) call: CallId,
}

/// A number that stands for the id of a claim. The text of an id is long, and only its equality matters.
pub(in crate::locks) fn claim_number(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
