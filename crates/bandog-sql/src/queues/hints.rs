//! What a client remembers of its queues, so that its takes need not read old entries of indexes.
//!
//! An index keeps the entries of elements that are gone until the server cleans it. While an old transaction is open, the
//! server cannot do this, and each scan from the beginning of an index would read all of these entries. So a client whose
//! scans are slow begins them at the place where it has found the last elements. Elements can come before this place: they
//! are committed late, or are handed back by another client. So a scan that finds nothing is repeated from the beginning, and
//! the others begin there once in a while.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bandog_core::{
    Key,
    queues::{ElementId, MAX_PRIORITY, Take},
};

/// The number of ranks of ready elements.
const RANKS: usize = MAX_PRIORITY as usize + 1;
/// A full scan that needs at least this time is slow.
const SLOW: Duration = Duration::from_millis(5);
/// A full scan that needs at least this time is very slow: if a scan has found nothing, it is not repeated at once.
const VERY_SLOW: Duration = Duration::from_millis(20);
/// Then an interval of this number of full scans must have passed since the last one.
const SCANS: u32 = 3;
/// Slow full scans need one of this number of parts of the time, unless [`FULL_INTERVAL`] is shorter.
const SHARE: u32 = 20;
/// Maximum interval between two full scans.
const FULL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum interval between two checks of leases.
const INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between two checks of leases.
const MIN_CHECK: Duration = Duration::from_millis(10);
/// A client that uses more queues forgets what it knows of all.
const MAX_QUEUES: usize = 10_000;
/// The number of rows that a queue may keep for a time, after which a client removes those that are over.
const KEPT: u32 = 150;
/// How many of them one statement removes: more than were added, because transactions of programs add rows, too.
const REMOVED: std::ops::RangeInclusive<u32> = 100..=5000;
/// A scan begins this number of µs earlier: pushes of the same time commit in any order.
const EARLIER: i64 = 50_000;
/// The position before all elements.
const START: (i64, ElementId) = (-1, ElementId { client: 0, number: 0 });

/// What a client knows of its queues.
#[derive(Debug, Default)]
pub(crate) struct AllHints(Mutex<HashMap<Key, Hints>>);

impl AllHints {
    /// What is known of a queue.
    pub(crate) fn get(&self, queue: &Key) -> Hints {
        self.all().get(queue).cloned().unwrap_or_default()
    }

    /// Changes what is known of a queue.
    pub(crate) fn change<T>(&self, queue: &Key, change: impl FnOnce(&mut Hints) -> T) -> T {
        let mut all = self.all();
        if all.len() >= MAX_QUEUES && !all.contains_key(queue) {
            all.clear();
        }
        change(all.entry(queue.clone()).or_default())
    }

    /// A call makes elements ready, which can be before the known places. They are unknown when it has ended.
    pub(crate) fn reset_after<'a>(&'a self, queue: &'a Key) -> Resets<'a> {
        Resets(self, queue)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Hints>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the known places when it is dropped.
pub(crate) struct Resets<'a>(&'a AllHints, &'a Key);

impl Drop for Resets<'_> {
    fn drop(&mut self) {
        self.0.change(self.1, Hints::reset);
    }
}

/// What a client knows of a queue. Times of the server are in µs.
#[derive(Debug, Clone)]
pub(crate) struct Hints {
    /// Whether takes must lock the row of the queue.
    pub(crate) is_limited: bool,
    /// Whether settlements must lock keys of order.
    pub(crate) has_keys: bool,
    /// For each rank, the last ready element that was found.
    floors: [(i64, ElementId); RANKS],
    /// The number of times that they were forgotten.
    resets: u64,
    /// The last full scan of ready elements.
    full: Option<FullScan>,
    /// The last full scan of delayed elements and leases.
    full_wake: Option<FullScan>,
    /// The time of the server in the last answer, and when it came.
    now: (i64, Instant),
    /// All delayed elements that were due before this time are woken.
    delayed: i64,
    /// The same for leases.
    leases: i64,
    /// The last check of leases.
    checked: Option<Instant>,
    /// When the next lease ends, as far as it is known.
    next_lease: Option<i64>,
    /// The rows that may have been added since rows were last removed, and when this was.
    added: u32,
    forgotten: Option<Instant>,
    kept: i64,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            is_limited: false,
            has_keys: false,
            floors: [START; RANKS],
            resets: 0,
            full: None,
            full_wake: None,
            now: (0, Instant::now()),
            delayed: 0,
            leases: 0,
            checked: None,
            next_lease: None,
            added: 0,
            forgotten: None,
            kept: 0,
        }
    }
}

/// A scan from the beginning.
#[derive(Debug, Clone, Copy)]
struct FullScan {
    ended: Instant,
    /// The time that the server has needed.
    took: Duration,
}

impl FullScan {
    fn now(took: Duration) -> Self {
        Self { ended: Instant::now(), took }
    }

    fn is_slow(self) -> bool {
        self.took >= SLOW
    }

    /// Whether it is time for the next one.
    fn is_old(self) -> bool {
        !self.is_slow() || self.ended.elapsed() >= (self.took * SHARE).min(FULL_INTERVAL)
    }
}

/// Where the scans of a take begin.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    /// Whether that of ready elements begins at the beginning.
    pub(crate) is_full: bool,
    /// Whether those of delayed elements and of leases begin there.
    is_full_wake: bool,
    resets: u64,
    /// The beginning for each rank.
    pub(crate) ready: [(i64, ElementId); RANKS],
    /// The beginning for delayed elements.
    pub(crate) delayed: i64,
    /// The beginning for leases that have ended, and for the next one that ends. None: they are not checked.
    pub(crate) leases: Option<[i64; 2]>,
}

/// What the server has found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Its time.
    pub(crate) now: i64,
    /// Whether it has woken all elements that were due, and all whose lease had ended.
    pub(crate) woke_all: bool,
    /// When the next lease ends.
    pub(crate) next_lease: Option<i64>,
    /// The time that it has needed for ready elements.
    pub(crate) took: Duration,
    /// The time that it has needed for delayed elements and leases.
    pub(crate) woke_in: Duration,
}

impl Hints {
    /// The next scan. `is_full`: it must begin at the beginning.
    pub(crate) fn scan(&self, is_full: bool) -> Scan {
        let is_full_wake = is_full || self.full_wake.is_none_or(FullScan::is_old);
        let is_full = is_full || self.full.is_none_or(FullScan::is_old);
        let ready = if is_full { [START; RANKS] } else { self.floors };
        let (delayed, leases) = match is_full_wake {
            true => (0, [0; 2]),
            false => (self.delayed, [self.leases, self.next_lease.unwrap_or(0)]),
        };
        // A slow scan of delayed elements is not repeated only because it was none of leases.
        let checks = self.checks_leases() || is_full_wake && self.full_wake.is_some_and(FullScan::is_slow);
        Scan { is_full, is_full_wake, resets: self.resets, ready, delayed, leases: checks.then_some(leases) }
    }

    /// The time after which a scan that has found nothing may be repeated from the beginning. None: at once.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let last = self.full.filter(|last| last.took >= VERY_SLOW)?;
        (last.took * SCANS).checked_sub(last.ended.elapsed())
    }

    fn checks_leases(&self) -> bool {
        let Some(checked) = self.checked else { return true };
        let is_over = self.next_lease.is_some_and(|next| next <= self.server_time());
        checked.elapsed() >= if is_over { MIN_CHECK } else { INTERVAL }
    }

    fn server_time(&self) -> i64 {
        self.now.0 + i64::try_from(self.now.1.elapsed().as_micros()).unwrap_or(0)
    }

    /// Records what a scan has found.
    pub(crate) fn scanned(&mut self, scan: &Scan, found: &Found) {
        if scan.is_full {
            self.full = Some(FullScan::now(found.took));
        }
        self.now = (found.now, Instant::now());
        if found.woke_all {
            self.delayed = found.now;
        }
        if scan.leases.is_some() {
            if scan.is_full_wake {
                self.full_wake = Some(FullScan::now(found.woke_in));
            }
            // If more leases have ended, the next take checks again.
            self.checked = found.woke_all.then(Instant::now);
            self.next_lease = found.next_lease;
            if found.woke_all {
                self.leases = found.now;
            }
        }
    }

    /// Records the ready elements that were found: the rank and the position of each, and the end of the new leases.
    pub(crate) fn took(&mut self, scan: &Scan, ready: impl IntoIterator<Item = (usize, i64, ElementId)>, take: &Take) {
        let end = self.now.0.saturating_add(super::time::micros(take.lease));
        let latest = (self.now.0 - EARLIER, START.1);
        for (rank, at, id) in ready {
            if let Some(floor) = self.floors.get_mut(rank).filter(|_| scan.resets == self.resets) {
                *floor = (at, id).min(latest);
            }
            self.next_lease = Some(self.next_lease.map_or(end, |next| next.min(end)));
        }
    }

    /// The end of the next lease, as far as it is known.
    pub(crate) fn next_lease(&self) -> Option<i64> {
        self.next_lease
    }

    /// This client has made elements ready, which can be before the known places.
    pub(crate) fn reset(&mut self) {
        (self.floors, self.delayed) = ([START; RANKS], 0);
        self.resets += 1;
    }

    /// Whether it is time to remove what the queue need not keep any more: where to begin, and how many rows at most. Counts
    /// the rows that may be added.
    pub(crate) fn forgets(&mut self, added: usize) -> Option<(i64, i64)> {
        self.added = self.added.saturating_add(u32::try_from(added).unwrap_or(u32::MAX));
        let is_due = self.forgotten.is_none_or(|last| last.elapsed() >= INTERVAL);
        if !is_due && self.added < KEPT {
            return None;
        }
        let most = self.added.saturating_mul(4).clamp(*REMOVED.start(), *REMOVED.end());
        (self.added, self.forgotten) = (0, Some(Instant::now()));
        Some((if is_due { 0 } else { self.kept }, i64::from(most)))
    }

    /// Records that no row until this time is left.
    pub(crate) fn forgot(&mut self, until: i64) {
        self.kept = until;
    }
}

#[cfg(test)]
mod tests;
