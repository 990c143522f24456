//! Copies of entries of a cache or a map in this process.
//!
//! A copy is kept only if no change of its entry was reported between the beginning of the read and its answer, which may
//! overtake each other on two connections. While changes are not reported, there are no copies.

mod doubts;

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

use bandog_core::{Moment, structures::Bytes};
use quick_cache::sync::Cache;

pub(crate) use self::doubts::Doubts;

/// Copies of entries.
pub(crate) struct Copies<V> {
    offline: Offline,
    copies: Cache<Bytes, Copy<V>>,
    /// Writes to any entry. A cache has none.
    pub(crate) doubts: Doubts,
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
    /// See [`Doubts::number`].
    number: u64,
}

impl<V> Clone for Copy<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), read: self.read, until: self.until, number: self.number }
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
pub(crate) struct Read<'a, V> {
    copies: &'a Copies<V>,
    key: &'a Bytes,
    number: u64,
    doubt: u64,
    /// When the read began.
    now: Moment,
}

impl<V> Read<'_, V> {
    /// Keeps the answer as a copy for this time, unless a change was reported meanwhile.
    pub(crate) fn keep(self, value: Option<Arc<V>>, time: Duration) {
        let reads = self.copies.reads();
        if reads.get(self.key) == Some(&self.number) {
            let copy = Copy { value, read: self.now, until: self.now + time, number: self.doubt };
            self.copies.copies.insert(self.key.clone(), copy);
        }
    }
}

impl<V> Drop for Read<'_, V> {
    fn drop(&mut self) {
        let mut reads = self.copies.reads();
        if reads.get(self.key) == Some(&self.number) {
            reads.remove(self.key);
        }
    }
}

impl<V> Copies<V> {
    pub(crate) fn new(entries: usize, offline: Offline) -> Self {
        Self {
            offline,
            copies: Cache::new(entries),
            doubts: Doubts::default(),
            reads: Mutex::default(),
            last_read: AtomicU64::new(0),
            is_reported: AtomicBool::new(false),
        }
    }

    fn reads(&self) -> MutexGuard<'_, HashMap<Bytes, u64>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy of an entry that is fresh, or of a known absence.
    pub(crate) fn get(&self, key: &[u8], now: Moment) -> Option<Option<Arc<V>>> {
        let copy = match (self.is_reported.load(Acquire), self.offline) {
            (false, Offline::Refuse) => return None,
            (true, _) => self.copies.get(key)?,
            (false, Offline::Serve(time)) => self.copies.get(key).filter(|copy| now.since(copy.read) < time)?,
        };
        (now < copy.until && self.doubts.allow(copy.number, now)).then_some(copy.value)
    }

    /// Begins a read. None while changes are not reported.
    pub(crate) fn begin<'a>(&'a self, key: &'a Bytes, now: Moment) -> Option<Read<'a, V>> {
        let mut reads = self.reads();
        if !self.is_reported.load(Acquire) {
            return None;
        }
        let number = self.last_read.fetch_add(1, Relaxed) + 1;
        reads.insert(key.clone(), number);
        Some(Read { copies: self, key, number, doubt: self.doubts.number(now), now })
    }

    /// Removes a copy, because its entry has changed.
    pub(crate) fn remove(&self, key: &[u8]) {
        let mut reads = self.reads();
        reads.remove(key);
        self.copies.remove(key);
    }

    /// Removes all copies.
    pub(crate) fn clear(&self) {
        let mut reads = self.reads();
        reads.clear();
        self.copies.clear();
    }

    /// Changes are reported from now on. Any entry may have changed before.
    pub(crate) fn begin_reports(&self) {
        self.clear();
        self.is_reported.store(true, Release);
    }

    /// Changes are not reported any more.
    pub(crate) fn end_reports(&self) {
        self.is_reported.store(false, Release);
        // The answers of the reads that have begun may be old.
        self.reads().clear();
        if self.offline == Offline::Refuse {
            self.copies.clear();
        }
    }
}
