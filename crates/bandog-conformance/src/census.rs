//! Checks mutual exclusion without using the state of the clients.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Fence, Key};
use bandog_sync::{Guard, Lost};
use futures_util::FutureExt;

/// Asserts two properties of each lock: at most one task at a time believes that it holds the lock, and each fence is
/// greater than the earlier fences.
///
/// Each task enters the census when it has a guard, and leaves the census before it releases the guard. A task whose
/// guard has reported a loss no longer believes that it holds the lock.
#[derive(Debug, Clone, Default)]
pub struct Census(Arc<Mutex<CensusState>>);

#[derive(Debug, Default)]
struct CensusState {
    /// The number of the last entry.
    number: u64,
    /// How often a task has entered the census with a guard that was not lost at this time.
    entered: u64,
    /// The tasks that have entered and not left, for each key. Each task has the number of its entry and the fence of
    /// its guard. `Lost` completes when this guard is lost.
    present: HashMap<Key, BTreeMap<u64, (Fence, Lost)>>,
    /// For each key, the fence of the last entry.
    last: HashMap<Key, Fence>,
}

/// The presence of a task in the census. When this value is dropped, the task leaves the census.
#[derive(Debug)]
#[must_use = "a stay ends when it is dropped"]
pub struct Stay {
    census: Census,
    key: Key,
    number: u64,
}

impl Census {
    /// Records that the calling task enters the census with this guard.
    ///
    /// # Panics
    /// If another task in the census believes that it holds the same lock, or if the fence of this guard is not greater
    /// than the fence of the previous entry for this lock.
    pub fn enter(&self, guard: &Guard) -> Stay {
        let key = guard.holding().key;
        let mut state = self.state();
        state.number += 1;
        let number = state.number;
        if !guard.is_lost() {
            state.enter(number, guard);
        }
        Stay { census: self.clone(), key, number }
    }

    /// How often a task has entered the census with a guard that was not lost at this time.
    pub fn entered(&self) -> u64 {
        self.state().entered
    }

    fn state(&self) -> MutexGuard<'_, CensusState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CensusState {
    fn enter(&mut self, number: u64, guard: &Guard) {
        let (key, fence) = (guard.holding().key, guard.fence());
        let present = self.present.entry(key.clone()).or_default();
        for (other, lost) in present.values() {
            let believes = lost.clone().now_or_never().is_none();
            assert!(!believes, "two tasks hold {key:?}, with the fences {other} and {fence}");
        }
        let last = self.last.insert(key.clone(), fence);
        assert!(
            last.is_none_or(|last| last < fence),
            "the fence {fence} of {key:?} is not greater than the previous fence {last:?}"
        );
        present.insert(number, (fence, guard.lost()));
        self.entered += 1;
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if let Some(present) = self.census.state().present.get_mut(&self.key) {
            present.remove(&self.number);
        }
    }
}
