//! Fences: numbers by which a resource recognizes an old holder of a lock.

use std::{fmt, num::NonZeroU32};

/// A fencing token: a number that is greater with every grant of a key. The next grant has a greater fence even if the
/// holder has crashed, the lease has expired, or the store has restarted without its data.
///
/// Send the fence with every write that the lock protects. Let the resource refuse each write whose fence is smaller
/// than the greatest fence that the resource has seen. Then a holder that was paused for longer than its ttl cannot
/// overwrite the work of the next holder.
///
/// Only fences of the same lock can be compared. Each lock and each job has its own fences: a later grant of one lock
/// can have a smaller fence than an earlier grant of another lock. So a resource that is written under several locks or
/// jobs must keep the greatest fence of each lock and of each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(u64);

impl Fence {
    /// Creates a fence from its number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as a signed integer, for databases. The number is never negative: a fence is at most the microseconds
    /// since 1970 plus the number of fences that were reserved, or 64 times the number of a transaction of ZooKeeper. Both are
    /// far below the maximum of `i64`.
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Maximum number of fences in a block. A block contains the fences that one grant reserves. The store keeps only the
/// last fence of a block, so [`crate::Holder::fence`] is computed as if every block had this size.
pub const MAX_BLOCK: NonZeroU32 = NonZeroU32::MIN.saturating_add(63);

/// The block of consecutive fences that one grant reserved. The client uses the smallest fence first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fences {
    /// The smallest unused fence.
    next: u64,
    /// The greatest fence of the block.
    last: u64,
}

impl Fences {
    /// The block of `count` fences whose greatest fence is `last`. The store keeps `last`.
    pub fn ending(last: Fence, count: NonZeroU32) -> Self {
        Self { next: (last.0 + 1).saturating_sub(u64::from(count.get())), last: last.0 }
    }

    /// The smallest unused fence of the block. If all fences are used, the result is the greatest fence of the block.
    pub(crate) fn first(&self) -> Fence {
        Fence(self.next.min(self.last).max(1))
    }

    /// The greatest fence of the block.
    pub fn last(&self) -> Fence {
        Fence(self.last)
    }

    /// Takes the smallest unused fence. None if all fences are used.
    pub fn take(&mut self) -> Option<Fence> {
        if self.next > self.last {
            return None;
        }
        self.next += 1;
        Some(Fence(self.next - 1))
    }
}
