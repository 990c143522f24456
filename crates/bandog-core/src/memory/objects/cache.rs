//! Caches.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Moment,
    structures::{BeginWhen, Bytes, CacheEntry, CacheOp, EntryKey, FillId, FillState, NewEntry, Reply},
};

/// A cache.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: BTreeMap<EntryKey, Entry>,
    fills: BTreeMap<EntryKey, (FillId, Moment)>,
    /// The times at which entries and fills end.
    ends: BTreeSet<(Moment, EntryKey)>,
}

#[derive(Debug)]
struct Entry {
    value: Option<Bytes>,
    written: u64,
    fresh_until: Moment,
    until: Moment,
}

impl Cache {
    /// Whether there is an entry or a fill.
    pub(super) fn has_entries(&mut self, now: Moment) -> bool {
        self.expire(now);
        !(self.entries.is_empty() && self.fills.is_empty())
    }

    /// The number of entries.
    pub(super) fn len(&self, now: Moment) -> usize {
        self.entries.values().filter(|entry| now < entry.until).count()
    }

    /// Applies an operation. Returns the answer, and whether a fill may have ended.
    pub(super) fn apply(&mut self, op: &CacheOp, now: Moment, wall: u64) -> (Reply, bool) {
        self.expire(now);
        match op {
            CacheOp::Get(at) => (Reply::CacheEntry(self.read(at, now)), false),
            CacheOp::Look(at) => {
                let left = self.entries.get(at).map(|entry| entry.fresh_until.since(now));
                (Reply::Look(self.read(at, now).zip(left)), false)
            }
            CacheOp::Begin { at, fill, when, lease } => {
                let ends_another =
                    *when == BeginWhen::Always && self.fills.get(at).is_some_and(|(runs, _)| runs != fill);
                (self.begin(at, *fill, *when, now, now + *lease), ends_another)
            }
            CacheOp::Extend { at, fill, lease } => {
                let runs = self.runs(at, *fill);
                if runs {
                    self.begin_fill(at, *fill, now + *lease);
                }
                (Reply::Flag(runs), false)
            }
            CacheOp::Fill { at, fill, entry } => {
                let runs = self.runs(at, *fill);
                if runs {
                    self.write(at, entry, now, wall);
                }
                (Reply::Flag(runs), runs)
            }
            CacheOp::End { at, fill } => {
                let runs = self.runs(at, *fill);
                if runs {
                    self.fills.remove(at);
                }
                (Reply::Flag(runs), runs)
            }
            CacheOp::Put(at, entry) => {
                self.write(at, entry, now, wall);
                (Reply::Done, true)
            }
            CacheOp::Remove(at) => {
                self.entries.remove(at);
                self.fills.remove(at);
                (Reply::Done, true)
            }
            CacheOp::Clear { part } => {
                self.entries.retain(|at, _| at.part != *part);
                self.fills.retain(|at, _| at.part != *part);
                (Reply::Done, true)
            }
        }
    }

    /// Removes what has ended.
    fn expire(&mut self, now: Moment) {
        while let Some((end, _)) = self.ends.first()
            && *end <= now
            && let Some((_, at)) = self.ends.pop_first()
        {
            if self.entries.get(&at).is_some_and(|entry| entry.until <= now) {
                self.entries.remove(&at);
            }
            if self.fills.get(&at).is_some_and(|(_, until)| *until <= now) {
                self.fills.remove(&at);
            }
        }
    }

    fn runs(&self, at: &EntryKey, fill: FillId) -> bool {
        self.fills.get(at).is_some_and(|(runs, _)| *runs == fill)
    }

    fn read(&self, at: &EntryKey, now: Moment) -> Option<CacheEntry> {
        let Entry { value, written, fresh_until, .. } = self.entries.get(at)?;
        Some(CacheEntry { value: value.clone(), written: *written, is_fresh: now < *fresh_until })
    }

    fn begin(&mut self, at: &EntryKey, fill: FillId, when: BeginWhen, now: Moment, until: Moment) -> Reply {
        let usable = |entry: &&Entry| when != BeginWhen::Instead(entry.written);
        let fresh = self.entries.get(at).filter(usable).map(|entry| entry.fresh_until).filter(|until| now < *until);
        let found = if when == BeginWhen::Always { (None, None) } else { (fresh, self.fills.get(at)) };
        let state = match found {
            (Some(until), _) => FillState::Fresh(until.since(now)),
            (None, Some((runs, until))) if *runs != fill => FillState::Runs { fill: *runs, lease: until.since(now) },
            (None, _) => {
                self.begin_fill(at, fill, until);
                FillState::Granted
            }
        };
        Reply::Fill(self.read(at, now), state)
    }

    fn begin_fill(&mut self, at: &EntryKey, fill: FillId, until: Moment) {
        if let Some((_, before)) = self.fills.insert(at.clone(), (fill, until)) {
            self.ends.remove(&(before, at.clone()));
        }
        self.ends.insert((until, at.clone()));
    }

    fn write(&mut self, at: &EntryKey, NewEntry { value, fresh, stale }: &NewEntry, now: Moment, wall: u64) {
        let fresh_until = now + *fresh;
        let until = fresh_until + *stale;
        let entry = Entry { value: value.clone(), written: wall, fresh_until, until };
        if let Some(before) = self.entries.insert(at.clone(), entry) {
            self.ends.remove(&(before.until, at.clone()));
        }
        self.ends.insert((until, at.clone()));
        self.fills.remove(at);
    }
}
