//! Copies of entries in this process.
//!
//! A copy is kept only if no change of its entry was reported between the beginning of the read and its answer, which may
//! overtake each other on two connections. While changes are not reported, there are no copies.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use bandog_core::{
    Moment,
    structures::{Bytes, CacheChange},
};
use quick_cache::sync::Cache as Copies;

/// Copies of entries.
pub(super) struct Near<V> {
    offline: Offline,
    copies: Copies<Bytes, Copy<V>>,
    /// The reads whose answer may become a copy, by key: the number of the latest one.
    reads: Mutex<HashMap<Bytes, u64>>,
    last_read: AtomicU64,
    /// Whether each change is reported.
    is_reported: AtomicBool,
}

/// A copy of a fresh entry.
struct Copy<V> {
    value: Option<Arc<V>>,
    read: Moment,
    until: Moment,
}

impl<V> Clone for Copy<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), read: self.read, until: self.until }
    }
}

/// What happens to copies while changes are not reported, because the connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offline {
    /// They are not used.
    Refuse,
    /// They are used if they were read within this time.
    Serve(Duration),
}

/// A read whose answer may become a copy.
pub(super) struct Read<'a, V> {
    near: &'a Near<V>,
    key: &'a Bytes,
    number: u64,
    /// When the read began.
    now: Moment,
}

impl<V> Read<'_, V> {
    /// Keeps the answer as a copy for this time, unless a change was reported meanwhile.
    pub(super) fn keep(self, value: Option<Arc<V>>, time: Duration) {
        let reads = self.near.reads();
        if reads.get(self.key) == Some(&self.number) {
            let copy = Copy { value, read: self.now, until: self.now + time };
            self.near.copies.insert(self.key.clone(), copy);
        }
    }
}

impl<V> Drop for Read<'_, V> {
    fn drop(&mut self) {
        let mut reads = self.near.reads();
        if reads.get(self.key) == Some(&self.number) {
            reads.remove(self.key);
        }
    }
}

impl<V> Near<V> {
    pub(super) fn new(entries: usize, offline: Offline) -> Self {
        Self {
            offline,
            copies: Copies::new(entries),
            reads: Mutex::default(),
            last_read: AtomicU64::new(0),
            is_reported: AtomicBool::new(false),
        }
    }

    fn reads(&self) -> MutexGuard<'_, HashMap<Bytes, u64>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy of an entry that is fresh, or of a known absence.
    pub(super) fn get(&self, key: &[u8], now: Moment) -> Option<Option<Arc<V>>> {
        let copy = match (self.is_reported.load(Acquire), self.offline) {
            (false, Offline::Refuse) => return None,
            (true, _) => self.copies.get(key)?,
            (false, Offline::Serve(time)) => self.copies.get(key).filter(|copy| now.since(copy.read) < time)?,
        };
        (now < copy.until).then_some(copy.value)
    }

    /// Begins a read. None while changes are not reported.
    pub(super) fn begin<'a>(&'a self, key: &'a Bytes, now: Moment) -> Option<Read<'a, V>> {
        let mut reads = self.reads();
        if !self.is_reported.load(Acquire) {
            return None;
        }
        let number = self.last_read.fetch_add(1, Relaxed) + 1;
        reads.insert(key.clone(), number);
        Some(Read { near: self, key, number, now })
    }

    /// Removes a copy, because its entry has changed.
    pub(super) fn remove(&self, key: &[u8]) {
        let mut reads = self.reads();
        reads.remove(key);
        self.copies.remove(key);
    }

    /// Removes all copies.
    pub(super) fn clear(&self) {
        let mut reads = self.reads();
        reads.clear();
        self.copies.clear();
    }

    pub(super) fn changed(&self, change: &CacheChange) {
        match change {
            CacheChange::Entry(at) => self.remove(&at.key),
            CacheChange::Any => {
                self.clear();
                self.is_reported.store(true, Release);
            }
            CacheChange::Lost | CacheChange::Denied(_) => {
                self.is_reported.store(false, Release);
                // The answers of the reads that have begun may be old.
                self.reads().clear();
                if self.offline == Offline::Refuse {
                    self.copies.clear();
                }
            }
        }
    }
}
