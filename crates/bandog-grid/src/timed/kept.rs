//! The timed maps that have handles.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bandog_core::Key;

/// The timed maps of a grid that have handles, and whether the task runs that removes their expired entries.
#[derive(Debug, Default)]
pub(crate) struct TimedMaps {
    maps: Mutex<HashMap<Key, Weak<Kept>>>,
    runs: AtomicBool,
}

/// A timed map that has a handle.
#[derive(Debug)]
pub(crate) struct Kept;

impl TimedMaps {
    fn maps(&self) -> MutexGuard<'_, HashMap<Key, Weak<Kept>>> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a map, until the last copy of the result is dropped.
    pub(crate) fn keep(&self, key: &Key) -> Arc<Kept> {
        let mut maps = self.maps();
        if let Some(kept) = maps.get(key).and_then(Weak::upgrade) {
            return kept;
        }
        maps.retain(|_, kept| kept.strong_count() > 0);
        let kept = Arc::new(Kept);
        maps.insert(key.clone(), Arc::downgrade(&kept));
        kept
    }

    /// The maps that have handles.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut maps = self.maps();
        maps.retain(|_, kept| kept.strong_count() > 0);
        maps.keys().cloned().collect()
    }

    pub(super) fn runs(&self) -> bool {
        self.runs.load(Relaxed)
    }

    /// Records that the task runs. Returns whether it did not before.
    pub(super) fn begin(&self) -> bool {
        !self.runs.swap(true, Relaxed)
    }

    pub(super) fn end(&self) {
        self.runs.store(false, Relaxed);
    }
}
