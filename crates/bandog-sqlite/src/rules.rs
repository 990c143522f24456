//! Who holds a row at a moment, and which fence comes next: no SQL, no clock.
//!
//! Moments are nanoseconds of the boot's clock.

use std::{num::NonZeroU32, time::Duration};

/// One row of `lease`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lease {
    pub(crate) owner: Option<String>,
    pub(crate) fence: i64,
    pub(crate) expires: i64,
    pub(crate) ttl: i64,
    pub(crate) stamp: i64,
    /// Whether this boot's clock counted.
    pub(crate) ours: bool,
    pub(crate) wanted: Wanted,
}

/// Who waits for a row, besides those who poll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// Nobody.
    #[default]
    No,
    /// Somebody who listens.
    Waiting,
    /// A client that starves: the release offers the lock to such clients.
    Starving,
}

impl Wanted {
    /// As the table has it.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::No => 0,
            Self::Waiting => 1,
            Self::Starving => 2,
        }
    }

    pub(crate) fn read(number: i64) -> Self {
        match number {
            0 => Self::No,
            2 => Self::Starving,
            _ => Self::Waiting,
        }
    }
}

/// One row of `sighting`: what this boot saw of a hold of another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    pub(crate) since: i64,
    pub(crate) stamp: i64,
}

/// What a row says at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State<'r> {
    /// Nobody holds it, or not any more.
    Free,
    /// Somebody holds it.
    Held {
        owner: &'r str,
        /// For how long, if nobody renews it.
        left: Duration,
        /// Whether this boot must write down that it watches, since it cannot read the hold's clock.
        unseen: bool,
    },
}

impl Lease {
    /// Whether the hold's times mean nothing here: another boot id, or the same one and a time that has not come yet
    /// (a machine that was put back to an earlier state).
    pub(crate) fn is_foreign(&self, now: i64) -> bool {
        !self.ours || self.expires.saturating_sub(self.ttl) > now
    }

    /// Who holds it now. `sighting` is needed for foreign holds only.
    pub(crate) fn state(&self, now: i64, sighting: Option<Sighting>) -> State<'_> {
        let Some(owner) = self.owner.as_deref() else {
            return State::Free;
        };
        let (left, unseen) = match sighting {
            _ if !self.is_foreign(now) => (self.expires.saturating_sub(now), false),
            // Another boot's hold ends when its ttl has passed here without a renewal since it was first seen.
            Some(seen) if seen.stamp == self.stamp && seen.since <= now => {
                (self.ttl.saturating_sub(now - seen.since), false)
            }
            Some(_) | None => (self.ttl, true),
        };
        match u64::try_from(left) {
            Ok(1..) => State::Held { owner, left: Duration::from_nanos(left.unsigned_abs()), unseen },
            Ok(0) | Err(_) => State::Free,
        }
    }
}

/// The end of the next block of fences: above the last one, and not below the wall clock, so that it rises although
/// the file was lost.
pub(crate) fn next_fence(last: i64, wall_micros: i64, count: NonZeroU32) -> i64 {
    last.saturating_add(1).max(wall_micros) + i64::from(count.get()) - 1
}

/// A duration in the unit of the table. Leases are never longer than a year.
pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
