//! The caches of a grid whose counts are reported.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bandog_core::Key;

use super::stats::{CacheStats, Counters};

/// The caches of a grid, and whether the task runs.
#[derive(Default)]
pub(crate) struct CacheReports {
    caches: Mutex<HashMap<Key, Weak<Counters>>>,
    runs: AtomicBool,
}

impl CacheReports {
    fn caches(&self) -> MutexGuard<'_, HashMap<Key, Weak<Counters>>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a cache.
    pub(super) fn add(&self, key: &Key, counters: &Arc<Counters>) {
        let mut caches = self.caches();
        caches.retain(|_, counters| counters.strong_count() > 0);
        caches.insert(key.clone(), Arc::downgrade(counters));
    }

    pub(super) fn stats(&self) -> HashMap<Key, CacheStats> {
        let stats = |(key, counters): (&Key, &Weak<Counters>)| Some((key.clone(), counters.upgrade()?.stats()));
        self.caches().iter().filter_map(stats).collect()
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
