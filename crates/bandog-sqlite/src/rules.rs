//! The rules that decide whether a lease is held at a moment. Each boot of a machine has its own clock. The times in a
//! row might be of this boot's clock, or of the clock of another boot. This module executes no SQL and reads no clock.
//!
//! Times are nanoseconds of a boot's clock.

use std::time::Duration;

/// One row of the table `lease`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lease {
    /// The claim that holds the lock. None if the lock was released.
    pub(crate) owner: Option<String>,
    /// The last fence that was granted.
    pub(crate) fence: i64,
    /// The time at which the hold expires.
    pub(crate) expires_ns: i64,
    pub(crate) ttl_ns: i64,
    /// A number that rises with each grant and each renewal.
    pub(crate) stamp: i64,
    /// Whether the times in the row are of this boot's clock.
    pub(crate) is_of_this_boot: bool,
    /// The waiters' mark.
    pub(crate) wanted: Wanted,
}

/// The waiters' mark of a row: the column `wanted`. A process that frees a lock with a mark notifies the waiters. A
/// waiter that only polls sets no mark until it starves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    /// No waiter needs a notification.
    #[default]
    No,
    /// A subscriber waits.
    Waiting,
    /// A client starves: it has waited for the lock for a second or more. The next release makes an offer: it reserves
    /// the lock for starving clients for a short time.
    Starving,
}

impl Wanted {
    /// The value in the table.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::No => 0,
            Self::Waiting => 1,
            Self::Starving => 2,
        }
    }

    /// Reads the value in the table.
    pub(crate) fn read(number: i64) -> Self {
        match number {
            0 => Self::No,
            2 => Self::Starving,
            _ => Self::Waiting,
        }
    }
}

/// One row of the table `sighting`. It belongs to a hold of another boot, and has the time at which this boot first
/// observed the hold with this stamp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    pub(crate) since_ns: i64,
    pub(crate) stamp: i64,
}

/// The state of a row's hold at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldState<'r> {
    /// There is no hold, or it has expired.
    Free,
    /// A claim holds the lock.
    Held {
        owner: &'r str,
        /// Time until the hold expires, if it is not renewed.
        left: Duration,
        /// Whether a sighting of the hold must be stored. This is the case if the hold is of another boot, and this
        /// boot has not yet observed the hold with its present stamp.
        is_unseen: bool,
    },
}

impl Lease {
    /// Whether the hold is foreign: its times cannot be compared with this boot's clock. There are two cases. In the
    /// first case, the hold has another boot id. In the second case, the hold has this boot id, but was written at a
    /// time that is still in the future, because the machine was restored to an earlier state.
    pub(crate) fn is_foreign(&self, now_ns: i64) -> bool {
        !self.is_of_this_boot || self.expires_ns.saturating_sub(self.ttl_ns) > now_ns
    }

    /// The state of the hold at the moment `now_ns`. The sighting matters only for a foreign hold.
    pub(crate) fn state(&self, now_ns: i64, sighting: Option<Sighting>) -> HoldState<'_> {
        let Some(owner) = self.owner.as_deref() else {
            return HoldState::Free;
        };
        let (left_ns, is_unseen) = match sighting {
            _ if !self.is_foreign(now_ns) => (self.expires_ns.saturating_sub(now_ns), false),
            // A foreign hold expires when this boot has observed the hold with the same stamp for the hold's ttl.
            Some(seen) if seen.stamp == self.stamp && seen.since_ns <= now_ns => {
                (self.ttl_ns.saturating_sub(now_ns - seen.since_ns), false)
            }
            Some(_) | None => (self.ttl_ns, true),
        };
        match u64::try_from(left_ns) {
            Ok(1..) => HoldState::Held { owner, left: Duration::from_nanos(left_ns.unsigned_abs()), is_unseen },
            Ok(0) | Err(_) => HoldState::Free,
        }
    }
}

/// A duration in nanoseconds, the unit of the tables. The ttl of a lease is a year at most, so the number does not
/// overflow.
pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
