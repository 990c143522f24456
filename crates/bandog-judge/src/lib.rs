//! Judges the grants of one lock: whether holders overlap that exclude each other, and whether fences increase.
//!
//! The rules know no clock and no store. The caller reports each grant, in the order of the grants, and answers whether
//! an earlier holder still believes that it holds the lock.
//!
//! ```
//! use bandog_judge::{Breach, Grant, Ledger, Part};
//! let mut ledger = Ledger::new(0);
//! let grant = |fence, of| Grant { part: Part::Alone, fence, of };
//! assert!(ledger.enter(grant(1, "a"), |_| true, |_| 0).is_empty());
//! // The first holder does not hold the lock any more.
//! assert!(ledger.enter(grant(2, "b"), |_| false, |_| 0).is_empty());
//! // The second holder still believes that it holds the lock.
//! let breaches = ledger.enter(grant(3, "c"), |_| true, |_| 0);
//! assert_eq!(breaches, [Breach::Overlap { older: grant(2, "b") }]);
//! ```

use std::collections::BTreeMap;

/// The part of a lock that one holder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The whole lock, as the holder of a mutex and a writer have it.
    Alone,
    /// A share that does not exclude other shares, as a reader has it.
    Shared,
    /// This number of permits of a semaphore.
    Permits(u32),
}

impl Part {
    /// Number of permits. 0 if the lock is not a semaphore.
    pub fn permits(self) -> u32 {
        match self {
            Self::Permits(number) => number,
            Self::Alone | Self::Shared => 0,
        }
    }

    /// Whether two holders of these parts can never hold the lock at the same time. `limit` is the number of permits
    /// that the semaphore has.
    pub fn conflicts(self, other: Self, limit: u32) -> bool {
        self == Self::Alone || other == Self::Alone || self.permits() + other.permits() > limit
    }
}

/// A grant of the lock. `of` is the caller's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant<T> {
    /// The part of the lock that was granted.
    pub part: Part,
    /// The fence of the grant.
    pub fence: u64,
    /// The caller's name for the grant.
    pub of: T,
}

/// A rule that a new grant breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breach<T> {
    /// An earlier holder still believes that it holds the lock, and one of the two has the whole lock.
    Overlap {
        /// The grant of the earlier holder.
        older: Grant<T>,
    },
    /// More permits are held than the semaphore has.
    TooMany {
        /// Number of permits that are held, with the new ones.
        held: u32,
        /// Number of permits that the semaphore has.
        limit: u32,
        /// The other grants that are held, in their order.
        older: Vec<Grant<T>>,
    },
    /// The fence of the new grant is not greater than that of an earlier grant that it conflicts with.
    Fence {
        /// The earlier grant with the greatest fence.
        before: Grant<T>,
    },
}

/// The grants of one lock.
#[derive(Debug, Clone)]
pub struct Ledger<T> {
    /// The greatest limit that the semaphore ever has.
    greatest_limit: u32,
    /// The grants that were held at the last entry, in their order.
    open: Vec<Grant<T>>,
    /// For each part, the grant with the greatest fence so far.
    greatest: BTreeMap<Part, Grant<T>>,
}

impl<T: Copy> Ledger<T> {
    /// Creates the ledger of one lock. `greatest_limit` is the greatest number of permits that the lock ever has, and
    /// has no effect if the lock is not a semaphore. The fences of two grants have an order if not even a semaphore
    /// with this limit can give both at the same time.
    pub fn new(greatest_limit: u32) -> Self {
        Self { greatest_limit, open: Vec::new(), greatest: BTreeMap::new() }
    }

    /// Enters a grant, and returns the rules that it breaks. The grants must be entered in the order in which their
    /// holders began to use the lock.
    ///
    /// `is_held` says whether the holder of an earlier grant still believes that it holds the lock. If it once says no
    /// for a grant, it is not asked again. `limit` returns the number of permits of the semaphore, for the grants that
    /// are held now; the new grant is the last one.
    pub fn enter(
        &mut self,
        newer: Grant<T>,
        is_held: impl Fn(&T) -> bool,
        limit: impl FnOnce(&[Grant<T>]) -> u32,
    ) -> Vec<Breach<T>> {
        self.open.retain(|older| is_held(&older.of));
        let is_alone = |older: &&Grant<T>| older.part == Part::Alone || newer.part == Part::Alone;
        let mut breaches: Vec<_> =
            self.open.iter().filter(is_alone).map(|older| Breach::Overlap { older: *older }).collect();
        self.open.push(newer);
        if newer.part.permits() > 0 {
            let limit = limit(&self.open);
            let held = self.open.iter().map(|grant| grant.part.permits()).sum();
            if held > limit {
                let older = self.open[..self.open.len() - 1].iter().filter(|grant| grant.part.permits() > 0);
                breaches.push(Breach::TooMany { held, limit, older: older.copied().collect() });
            }
        }
        breaches.extend(self.fence(newer).map(|before| Breach::Fence { before }));
        breaches
    }

    /// Keeps the greatest fences. Returns the grant whose fence should be smaller than the fence of the new grant, but
    /// is not.
    fn fence(&mut self, newer: Grant<T>) -> Option<Grant<T>> {
        let others = self.greatest.iter().filter(|(part, _)| newer.part.conflicts(**part, self.greatest_limit));
        let before = others.map(|(_, before)| *before).max_by_key(|before| before.fence);
        let same = self.greatest.entry(newer.part).or_insert(newer);
        if same.fence < newer.fence {
            *same = newer;
        }
        before.filter(|before| before.fence >= newer.fence)
    }
}

#[cfg(test)]
mod tests;
