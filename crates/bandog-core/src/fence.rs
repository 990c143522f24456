//! Numbers that order grants.

use std::{fmt, num::NonZeroU32};

/// A fencing token: a number that rises with every grant of a key.
///
/// Send it with every write that the lock protects, and let the resource refuse a fence smaller than the greatest that
/// it has seen. Then a holder that was stopped for longer than its ttl cannot overwrite the work of the next holder.
/// The fence rises across owners, crashes, expiry, and a restart of a store that lost its data.
///
/// Only fences of the same lock can be compared. Two locks, or a job and a lock, have separate fences: a later grant of
/// one may have a smaller fence than an earlier grant of the other. So a resource that is written under several locks
/// or jobs keeps the greatest fence of each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(u64);

impl Fence {
    /// The fence with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as a signed integer, for databases. A fence is at most the microseconds since 1970 plus the number of
    /// grants, so it fits.
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Maximum number of fences that a client reserves with one grant. The store keeps only the end of a block, so
/// [`crate::Holder::fence`] assumes that every block has this size.
pub const MAX_BLOCK: NonZeroU32 = NonZeroU32::MIN.saturating_add(63);

/// The block of fences that one grant reserved. They are taken from the smallest to the greatest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fences {
    next: u64,
    last: u64,
}

impl Fences {
    /// The block of `count` fences that ends with `last`, the fence that the store keeps.
    pub fn ending(last: Fence, count: NonZeroU32) -> Self {
        Self { next: (last.0 + 1).saturating_sub(u64::from(count.get())), last: last.0 }
    }

    /// The next unused fence of the block, or the greatest one if all are used.
    pub(crate) fn first(&self) -> Fence {
        Fence(self.next.min(self.last).max(1))
    }

    /// The greatest fence of the block.
    pub fn last(&self) -> Fence {
        Fence(self.last)
    }

    /// Takes the next unused fence. None when all are used.
    pub fn take(&mut self) -> Option<Fence> {
        if self.next > self.last {
            return None;
        }
        self.next += 1;
        Some(Fence(self.next - 1))
    }
}
