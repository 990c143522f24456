//! Numbers that order grants.

use std::{fmt, num::NonZeroU32};

/// A fencing token: it rises with every grant of a key.
///
/// Send it along with every write that the lock protects, and let the resource refuse a fence smaller than the
/// greatest that it has seen: then a holder that was stopped past its ttl cannot spoil the work of the next one.
/// It rises across owners, crashes, expiry and a restart of the store that forgot everything.
///
/// Only fences of one lock can be compared with each other. Those of two names, or of a job and a lock, are drawn
/// separately, and a later grant of one name may have a smaller fence than an earlier grant of another. So a resource
/// that several locks or jobs write to keeps the greatest fence of each of them.
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

    /// The number as databases bind it. Fences are counted in microseconds of the Unix epoch or less, so it fits.
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The largest block of fences that a client reserves with one grant. A query knows only the end of a block, so it takes
/// every block to be of this size.
pub const MAX_BLOCK: NonZeroU32 = NonZeroU32::MIN.saturating_add(63);

/// The block of fences that one grant reserved, used up from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fences {
    next: u64,
    last: u64,
}

impl Fences {
    /// The block of `count` fences that ends with `last`, which is what the store keeps.
    pub fn ending(last: Fence, count: NonZeroU32) -> Self {
        Self { next: (last.0 + 1).saturating_sub(u64::from(count.get())), last: last.0 }
    }

    /// The next unused fence of the block, or the greatest one if it is used up.
    pub(crate) fn first(&self) -> Fence {
        Fence(self.next.min(self.last).max(1))
    }

    /// The greatest fence of the block.
    pub fn last(&self) -> Fence {
        Fence(self.last)
    }

    /// Takes the next unused fence; none when the block is used up.
    pub fn take(&mut self) -> Option<Fence> {
        if self.next > self.last {
            return None;
        }
        self.next += 1;
        Some(Fence(self.next - 1))
    }
}
