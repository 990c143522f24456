//! Journals and their groups.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
    time::SystemTime,
};

use super::taken::{Delivered, Taken};
use crate::{
    Clock, Portion,
    structures::{Bytes, EntryId, GroupName, GroupRow, JournalOp, Keep, Reply, Source, Start, millis},
};

/// The wall clock in ms since 1970, for the ids and the ages of entries.
pub(in super::super) fn wall_millis(clock: Clock) -> u64 {
    millis(clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// A journal. It may exist without entries.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: BTreeMap<EntryId, Bytes>,
    last: EntryId,
    /// The number of entries that were ever appended.
    appended: usize,
    groups: BTreeMap<GroupName, Group>,
}

/// A group of a journal.
#[derive(Debug, Default)]
struct Group {
    /// The last entry that was delivered for the first time.
    last: EntryId,
    /// Entries that were delivered before, and can be taken again.
    again: BTreeMap<EntryId, Delivered>,
}

impl Group {
    /// The entries that were never delivered.
    fn new_entries<'a>(&self, entries: &'a BTreeMap<EntryId, Bytes>) -> impl Iterator<Item = (&'a EntryId, &'a Bytes)> {
        entries.range((Excluded(self.last), Unbounded))
    }
}

impl Journal {
    /// A number that rises whenever entries have become available.
    pub(super) fn elements(&self) -> usize {
        self.appended + self.groups.values().map(|group| group.again.len()).sum::<usize>()
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes the next entry of a group out. A group that does not exist begins before the oldest entry.
    pub(super) fn pop(&mut self, group: &GroupName) -> Option<Delivered> {
        let group = self.groups.entry(group.clone()).or_default();
        if let Some((_, element)) = group.again.pop_first() {
            return Some(element);
        }
        let (id, bytes) = group.new_entries(&self.entries).next()?;
        let element = Delivered { bytes: bytes.clone(), deliveries: 0, score: None, entry: Some(*id) };
        group.last = *id;
        Some(element)
    }

    /// Makes an entry available to its group again, if the group exists.
    pub(super) fn give_back(&mut self, group: &GroupName, element: Delivered) {
        if let (Some(group), Some(id)) = (self.groups.get_mut(group), element.entry) {
            group.again.insert(id, element);
        }
    }

    /// The number of entries that a group can take.
    pub(super) fn ready(&self, group: &GroupName) -> u64 {
        let ready = |group: &Group| group.again.len() + group.new_entries(&self.entries).count();
        self.groups.get(group).map_or(self.entries.len(), ready) as u64
    }

    /// The next entries of a group, which stay where they are.
    pub(super) fn peek(&self, group: &GroupName, at_most: usize) -> Vec<Bytes> {
        let new = Group::default();
        let group = self.groups.get(group).unwrap_or(&new);
        let again = group.again.values().map(|element| &element.bytes);
        again.chain(group.new_entries(&self.entries).map(|(_, bytes)| bytes)).take(at_most).cloned().collect()
    }

    fn trim(&mut self, keep: Keep, now_millis: u64) -> i64 {
        let before = self.entries.len();
        match keep {
            Keep::All => {}
            Keep::Newest(number) => {
                while self.entries.len() as u64 > number {
                    self.entries.pop_first();
                }
            }
            Keep::For(age) => {
                let oldest = now_millis.saturating_sub(millis(age));
                self.entries = self.entries.split_off(&EntryId { millis: oldest, number: 0 });
            }
        }
        (before - self.entries.len()) as i64
    }

    fn append(&mut self, entries: &[Bytes], now_millis: u64) -> Vec<EntryId> {
        let append = |bytes: &Bytes| {
            self.last = self.last.next().max(EntryId { millis: now_millis, number: 0 });
            self.entries.insert(self.last, bytes.clone());
            self.appended += 1;
            self.last
        };
        entries.iter().map(append).collect()
    }
}

/// Applies an operation to a journal, which may not exist. `taken` has the entries that are taken.
pub(super) fn apply(journal: &mut Option<Journal>, op: &JournalOp, taken: &mut Taken, now_millis: u64) -> Reply {
    match op {
        JournalOp::Append { entries, keep, .. } => {
            let journal = journal.get_or_insert_default();
            let ids = journal.append(entries, now_millis);
            journal.trim(*keep, now_millis);
            Reply::EntryIds(ids)
        }
        JournalOp::Range { from, to, at_most, bytes } => {
            let mut portion = Portion::new(*at_most as usize, *bytes as usize);
            let entries = journal.iter().filter(|_| from <= to).flat_map(|journal| journal.entries.range(*from..=*to));
            let entries = entries.take_while(|(_, bytes)| portion.takes(bytes.len()));
            Reply::Entries(entries.map(|(id, bytes)| (*id, bytes.clone())).collect())
        }
        JournalOp::Trim(keep) => Reply::Int(journal.as_mut().map_or(0, |journal| journal.trim(*keep, now_millis))),
        JournalOp::Len => Reply::Int(journal.as_ref().map_or(0, |journal| journal.len() as i64)),
        JournalOp::OpenGroup(name, start) => {
            let journal = journal.get_or_insert_default();
            let last = match start {
                Start::Oldest => EntryId::MIN,
                Start::Newest => journal.last,
                Start::After(id) => *id,
            };
            let is_new = !journal.groups.contains_key(name);
            journal.groups.entry(name.clone()).or_insert_with(|| Group { last, ..Group::default() });
            Reply::Flag(is_new)
        }
        JournalOp::RemoveGroup(name) => {
            let source = Source::Group(name.clone());
            taken.leases.retain(|_, lease| lease.from != source);
            Reply::Flag(journal.as_mut().is_some_and(|journal| journal.groups.remove(name).is_some()))
        }
        JournalOp::Groups => {
            let row = |(journal, name): (&Journal, &GroupName)| GroupRow {
                name: name.clone(),
                ready: journal.ready(name),
                taken: taken.count(&Source::Group(name.clone())),
            };
            let groups = journal.iter().flat_map(|journal| journal.groups.keys().map(move |name| (journal, name)));
            Reply::Groups(groups.map(row).collect())
        }
    }
}
