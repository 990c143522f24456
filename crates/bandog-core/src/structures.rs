//! The objects of the grid: values, counters, maps, sets, lists, sorted sets, multimaps, bit sets, Bloom filters,
//! journals, the elements that are taken out of them, timed maps, live objects, and caches.
//!
//! Operations are data ([`Op`]), so a batch is a slice of operations. The memory backend is the reference.

mod cache;
mod cache_reports;
mod copies;
mod journal;
mod live;
mod map;
mod op;
mod reply;
mod terms;
mod timed;

use std::{fmt::Debug, time::Duration};

use async_trait::async_trait;

pub use self::{
    cache::{BeginWhen, CacheChange, CacheChanges, CacheEntry, CacheOp, EntryKey, FillId, FillState, NewEntry},
    cache_reports::{CacheReport, read_cache_reports, write_cache_reports},
    copies::{MapChange, MapChanges},
    journal::{EntryId, GroupName, GroupRow, JournalOp, Keep, Start},
    live::{LiveChange, LiveIndex, LiveIndexKind, LiveOp},
    map::MapOp,
    op::{
        Action, BitCombine, BitField, BitsOp, BloomOp, BloomSizes, Combine, CounterOp, End, FieldOp, FloatOp, ListOp,
        MultimapOp, ObjectOp, Op, Scores, SetOp, SetTtl, SortedOp, Source, Structure, TakeEnd, TakeOp, ValueOp, Values,
    },
    reply::{Reply, TakenElement, Ttl},
    terms::{Bytes, Once},
    timed::{EntryEvent, EntryEvents, Expiry, Life, TimedOp, Victim},
};
use crate::{Key, Notifier, Pattern, Portion, Result, Subscription};

/// The position in a sequence of pages. The text belongs to the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor(pub String);

/// The part of an object that pages contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The fields of a map, and their values.
    Entries,
    /// The fields of a map without values, or the keys of a multimap of this kind.
    Fields(Option<Values>),
    /// The fields of a timed map whose entries expire by operations, and their values, without those that have expired.
    Timed,
    /// The members of a set.
    Members,
    /// The elements of a list in their order.
    Elements,
    /// The members of a sorted set, with their scores, in their order.
    Scored,
    /// The names of the maps that are the live objects of a class, in no order. The key of the page is such a name with `*` in
    /// the place of the id; the id in a name is a sequence of hexadecimal digits. The store examines about the number of names
    /// of a page, whether they match or not, so a page may be empty although more pages follow.
    Live,
}

/// A part of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Entries (also of a timed map): each field is followed by its value. Otherwise the fields, members or elements.
    pub items: Vec<Bytes>,
    /// The scores of [`Part::Scored`]; otherwise empty.
    pub scores: Vec<f64>,
    /// Where the next page begins. None after the last page.
    pub next: Option<Cursor>,
}

/// An object in a list for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRow {
    /// The name of the object.
    pub key: Key,
    /// The structure, as far as the store can know it. Counters and bit sets are values in a store that does not
    /// distinguish them.
    pub structure: Structure,
    /// The number of elements, members or fields; for a value, the number of bytes.
    pub size: u64,
    /// The remaining time. None: no ttl.
    pub ttl: Option<Duration>,
}

/// An object for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectState {
    /// The object, as in a list.
    pub row: ObjectRow,
    /// The elements of a list, a set or a sorted set. None for other structures.
    pub elements: Option<Elements>,
}

/// The elements of a list, a set or a sorted set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// The number of elements that can be taken, with those whose lease has expired.
    pub ready: u64,
    /// The number of elements that are taken.
    pub taken: u64,
    /// The time until the first lease of a taken element expires. None: no element is taken.
    pub lease: Option<Duration>,
}

/// Objects with shared data.
///
/// An operation is atomic. A write that is not marked as exact ([`Once`]) might have been applied if its answer was lost
/// ([`Error::maybe_applied`](crate::Error::maybe_applied)); the backend never sends it twice.
///
/// Each call returns within [`Profile::timeout`](crate::Profile::timeout). If the future of a call is dropped, the backend
/// might or might not apply the operations.
#[async_trait]
pub trait Structures: Debug + Send + Sync + 'static {
    /// Applies the operations in one round trip to each server, and returns one answer for each in the same order.
    ///
    /// Operations on the same object are applied in the order of `ops`. A failure of one operation does not affect the
    /// others.
    ///
    /// # Errors
    /// - [`ErrorKind::Denied`](crate::ErrorKind::Denied): the name has data of another structure, or the value is no
    ///   number, or a number would overflow. Nothing was changed.
    /// - [`ErrorKind::Misused`](crate::ErrorKind::Misused): the objects of one operation are on different servers.
    /// - [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable): no answer.
    async fn run(&self, ops: &[Op]) -> Vec<Result<Reply>>;

    /// A part of an object: about this number of items, and at most this number of bytes beside the first one. A store whose
    /// cursor cannot stand between two items may exceed them by the items that it has at one place. An item of a map, a set or a multimap that exists during all pages is
    /// in at least one page, and may be in two. The pages of a list and of a sorted set are ranges of positions, so items
    /// are missing or come twice if others are inserted or removed before them meanwhile.
    ///
    /// # Errors
    /// As [`Structures::run`].
    async fn page(&self, key: &Key, part: Part, from: &Cursor, about: Portion) -> Result<Page>;

    /// A page of the objects whose names match, for operators. The store examines about this number of names, whether they
    /// match or not, so the page may be empty although more pages follow. A cache may be on several pages, with a part of its
    /// entries on each.
    ///
    /// # Errors
    /// As [`Structures::run`].
    async fn objects(&self, pattern: &Pattern, from: &Cursor, about: usize)
    -> Result<(Vec<ObjectRow>, Option<Cursor>)>;

    /// The object with this name, for operators. Nothing is changed. There are several if the name has data of another
    /// program or of a lock, and in addition elements that are taken or a Bloom filter without items.
    ///
    /// # Errors
    /// As [`Structures::run`].
    async fn describe(&self, key: &Key) -> Result<Vec<ObjectState>>;

    /// Reports each change of a map by any program, until the subscription is dropped. The first report is
    /// [`MapChange::Any`], as soon as changes are reported. A backend may report more than what has changed.
    ///
    /// # Errors
    /// As [`Structures::run`].
    async fn track_map(&self, key: &Key, changes: MapChanges) -> Result<Subscription>;

    /// Gives the changes of the entries of a timed map to `events`, until the subscription is dropped. The subscription is
    /// renewed after each loss of the connection, with an [`EntryEvent::Gap`].
    ///
    /// # Errors
    /// As [`Structures::run`], and [`ErrorKind::Denied`](crate::ErrorKind::Denied): the user has no right to subscribe.
    async fn subscribe_entries(&self, key: &Key, events: EntryEvents) -> Result<Subscription>;

    /// Calls `notifier` whenever elements may have become available in this object, until the subscription is dropped. A
    /// backend may notify without a reason. Callers poll in addition, because a lease can expire without a notification.
    ///
    /// # Errors
    /// As [`Structures::run`].
    async fn subscribe_elements(&self, key: &Key, from: Source, notifier: Notifier) -> Result<Subscription>;

    /// Calls `notifier` whenever a fill of this entry of a cache may have ended, until the subscription is dropped. A backend
    /// may notify without a reason. Callers poll in addition, because a lease can expire without a notification.
    ///
    /// # Errors
    /// As [`Structures::run`].
    async fn subscribe_fill(&self, key: &Key, at: &EntryKey, notifier: Notifier) -> Result<Subscription>;

    /// Reports each change of a cache by any program, until the subscription is dropped. The first report is
    /// [`CacheChange::Any`], as soon as changes are reported. A backend may report more than what has changed.
    ///
    /// # Errors
    /// As [`Structures::run`].
    async fn track_cache(&self, key: &Key, changes: CacheChanges) -> Result<Subscription>;
}

/// A duration in milliseconds, rounded up, and never 0: a store would take 0 as "for ever" or "at once".
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up_and_never_to_0() {
        let of = |micros| millis(Duration::from_micros(micros));
        assert_eq!([of(0), of(1), of(1_000), of(1_001), of(2_000_000)], [1, 1, 1, 2, 2_000]);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
