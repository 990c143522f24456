//! An outside counter of those who believe that they hold a lock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Fence, Key};
use bandog_sync::{Guard, Lost};
use futures_util::FutureExt;

/// Asserts that no two believe at the same time that they hold the same key, and that fences rise.
///
/// It knows nothing of any client's state: everyone who has a guard enters, and leaves before giving it back. Whoever
/// has been told of a loss does not believe any more.
#[derive(Debug, Clone, Default)]
pub struct Census(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    number: u64,
    entered: u64,
    present: HashMap<Key, BTreeMap<u64, (Fence, Lost)>>,
    last: HashMap<Key, Fence>,
}

/// A believer's stay, until it is dropped.
#[derive(Debug)]
#[must_use = "a stay ends when it is dropped"]
pub struct Stay {
    census: Census,
    key: Key,
    number: u64,
}

impl Census {
    /// Notes who holds this guard.
    ///
    /// # Panics
    /// When somebody else believes that they hold the key, or held it with a greater fence.
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

    /// How many have entered believing.
    pub fn entered(&self) -> u64 {
        self.state().entered
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enter(&mut self, number: u64, guard: &Guard) {
        let (key, fence) = (guard.key(), guard.fence());
        let present = self.present.entry(key.clone()).or_default();
        for (other, lost) in present.values() {
            let believes = lost.clone().now_or_never().is_none();
            assert!(!believes, "{key:?} is held twice: with the fences {other} and {fence}");
        }
        let last = self.last.insert(key.clone(), fence);
        assert!(last.is_none_or(|last| last < fence), "{key:?} had the fence {last:?}, and now {fence}");
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
