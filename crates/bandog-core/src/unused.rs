//! Names that are not used any more.

use std::time::Duration;

use crate::{Fence, Key, LockState, Moment};

/// A part of the names for which a store keeps a fence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamesPage {
    /// The names of this part that match the pattern, and whose last grant can be old enough. A name can be in several
    /// parts.
    pub keys: Vec<Key>,
    /// The number of names of this part that were read, also those that do not match.
    pub seen: u64,
    /// The beginning of the next part, in a text of the backend. None after the last part.
    pub next: Option<String>,
}

/// Whether a name is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// The store keeps nothing for this name that [`crate::Inspect::usage`] can delete.
    Absent,
    /// A claim holds the name or has a place, the last grant is not old enough, or the name is that of a semaphore.
    Used,
    /// The name is free, and its last grant is old enough.
    Unused,
}

/// The action of [`crate::Inspect::usage`] on an unused name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfUnused {
    /// The name stays.
    Keep,
    /// The store deletes what it keeps for the name.
    Forget,
}

impl Usage {
    /// The usage of a free name with this last fence, in a store whose fences begin at its clock, in microseconds.
    /// `now_micros`: the time of this clock.
    ///
    /// The fence is the time of the last grant or later. So if it is old enough, the next fence, which begins at the
    /// clock, is greater than each fence that the store has granted for the name.
    pub fn of_fence(fence: Fence, now_micros: u64, unused_for: Duration) -> Self {
        let unused_for = u64::try_from(unused_for.as_micros()).unwrap_or(u64::MAX);
        if fence.get().saturating_add(unused_for) < now_micros { Self::Unused } else { Self::Used }
    }

    /// The usage of a name with this state, in a store as in [`Usage::of_fence`].
    pub fn of_state(state: &LockState, now: Moment, now_micros: u64, unused_for: Duration) -> Self {
        if state.is_in_use(now) { Self::Used } else { Self::of_fence(state.fence(), now_micros, unused_for) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_old_after_the_whole_time() {
        let day = Duration::from_secs(86_400);
        let of = |fence, now| Usage::of_fence(Fence::new(fence), now, day);
        assert_eq!(of(1, 86_400_000_001), Usage::Used);
        assert_eq!(of(1, 86_400_000_002), Usage::Unused);
        // A clock that was set back, and a fence that is not a time.
        assert_eq!(of(86_400_000_002, 1), Usage::Used);
        assert_eq!(Usage::of_fence(Fence::new(1), u64::MAX, Duration::MAX), Usage::Used);
    }
}
