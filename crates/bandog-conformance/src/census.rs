//! Checks mutual exclusion without using the state of the clients.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Fence, Key};
use bandog_sync::{Guard, Lost};
use futures_util::FutureExt;

/// Asserts that at most one task at a time believes that it holds a key, and that fences rise.
///
/// Each task enters the census when it has a guard, and leaves the census before it releases the guard. A task whose
/// guard has reported a loss no longer believes that it holds the key.
#[derive(Debug, Clone, Default)]
pub struct Census(Arc<Mutex<CensusState>>);

#[derive(Debug, Default)]
struct CensusState {
    /// The number of the last entry.
    number: u64,
    /// The number of entries with a guard that was not lost.
    entered: u64,
    /// The tasks that have entered and not left. They are sorted by key and by the number of the entry. `Lost`
    /// completes when the task's guard is lost.
    present: HashMap<Key, BTreeMap<u64, (Fence, Lost)>>,
    /// For each key, the fence of the last entry.
    last: HashMap<Key, Fence>,
}

/// The presence of a task in the census, while the task believes that it holds a key. When this value is dropped, the
/// task leaves the census.
#[derive(Debug)]
#[must_use = "a stay ends when it is dropped"]
pub struct Stay {
    census: Census,
    key: Key,
    number: u64,
}

impl Census {
    /// Enters the census with this guard.
    ///
    /// # Panics
    /// If another task believes that it holds the key, or if the fence of an earlier entry is not lower.
    pub fn enter(&self, guard: &Guard) -> Stay {
        let key = guard.key().clone();
        let mut state = self.state();
        state.number += 1;
        let number = state.number;
        if !guard.is_lost() {
            state.enter(number, guard);
        }
        Stay { census: self.clone(), key, number }
    }

    /// The number of entries with a guard that was not lost.
    pub fn entered(&self) -> u64 {
        self.state().entered
    }

    fn state(&self) -> MutexGuard<'_, CensusState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CensusState {
    fn enter(&mut self, number: u64, guard: &Guard) {
        let (key, fence) = (guard.key(), guard.fence());
        let present = self.present.entry(key.clone()).or_default();
        for (other, lost) in present.values() {
            let believes = lost.clone().now_or_never().is_none();
            assert!(!believes, "{key:?} is held twice: with the fences {other} and {fence}");
        }
        let last = self.last.insert(key.clone(), fence);
        assert!(last.is_none_or(|last| last < fence), "the fence {fence} of {key:?} is not greater than {last:?}");
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
