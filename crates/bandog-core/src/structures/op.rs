//! Operations on objects.
//!
//! Elements, fields and keys of entries are bytes: a codec of the caller makes them. Indexes of lists are signed, and
//! negative indexes count from the end (-1 is the last element). A range includes both ends. The lists of elements, fields
//! and indexes in an operation are not empty.

use std::time::Duration;

use super::{
    cache::CacheOp,
    journal::{GroupName, JournalOp},
    live::LiveOp,
    map::MapOp,
    terms::{Bytes, Once},
    timed::{Expiry, TimedOp},
};
use crate::Key;

/// One operation on the object `key`. It is atomic.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// The name of the object.
    pub key: Key,
    /// The action.
    pub action: Action,
}

/// What an operation does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// An operation on an object as a whole.
    Object(Structure, ObjectOp),
    /// An operation on a single value.
    Value(ValueOp),
    /// An operation on a counter of 64 bits.
    Counter(CounterOp),
    /// An operation on a counter of floating-point numbers.
    Float(FloatOp),
    /// Reserves a block of ids that no other call gets. The first id of a new object is 1. The size is used if the object
    /// is new: later blocks have its size. Answer: [`Reply::Block`](super::Reply::Block).
    Ids {
        /// The number of ids of a block.
        size: u64,
    },
    /// An operation on a map.
    Map(MapOp),
    /// An operation on a set.
    Set(SetOp),
    /// An operation on a list.
    List(ListOp),
    /// An operation on a sorted set.
    Sorted(SortedOp),
    /// An operation on a multimap.
    Multimap(Values, MultimapOp),
    /// An operation on a bit set.
    Bits(BitsOp),
    /// An operation on a Bloom filter.
    Bloom(BloomOp),
    /// An operation on a journal.
    Journal(JournalOp),
    /// An operation on the elements that were taken out of a list, a set, a sorted set or a journal.
    Take(TakeOp),
    /// An operation on a map of which programs keep copies: a write is reported to them
    /// ([`Structures::track_map`](super::Structures::track_map)).
    Copied(MapOp),
    /// An operation on a timed map.
    Timed(Expiry, TimedOp),
    /// An operation on a live object and its indexes.
    Live(LiveOp),
    /// An operation on a cache.
    Cache(CacheOp),
}

/// The structure of an object. It decides which keys of the store belong to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Structure {
    /// A single value, a counter or a floating-point counter.
    Value,
    /// Blocks of ids.
    Ids,
    /// A map, or a timed map whose entries expire by the server.
    Map,
    /// A timed map whose entries expire by operations.
    TimedMap,
    /// A set, with its taken elements.
    Set,
    /// A list or a queue, with its taken elements.
    List,
    /// A sorted set, with its taken elements.
    Sorted,
    /// A multimap.
    Multimap(Values),
    /// A bit set.
    Bits,
    /// A Bloom filter.
    Bloom,
    /// A journal, with its groups.
    Journal,
    /// A cache. It is in lists only.
    Cache,
}

impl Structure {
    /// The name in lists of objects.
    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Ids => "ids",
            Self::Map => "map",
            Self::TimedMap => "timed map",
            Self::Set => "set",
            Self::List => "list",
            Self::Sorted => "sorted",
            Self::Multimap(Values::Set) => "multimap",
            Self::Multimap(Values::List) => "list multimap",
            Self::Bits => "bits",
            Self::Bloom => "bloom",
            Self::Journal => "journal",
            Self::Cache => "cache",
        }
    }
}

/// The values that a multimap has for one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Values {
    /// Each value once, without an order.
    Set,
    /// In the order of the insertions. Values may be equal.
    List,
}

/// Operations on an object as a whole. They include all keys of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectOp {
    /// Whether the object exists. Answer: a flag.
    Exists,
    /// Deletes the object. Answer: whether it existed.
    Delete,
    /// Deletes the object after this time. Answer: whether it exists.
    Expire(Duration),
    /// Removes the ttl. Answer: whether the object had one.
    Persist,
    /// The remaining time. Answer: [`Reply::Ttl`](super::Reply::Ttl).
    Ttl,
}

/// What a write does with the ttl of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTtl {
    /// The value has no ttl after the write.
    Clear,
    /// A ttl stays.
    Keep,
    /// The value is deleted after this time.
    For(Duration),
}

/// Operations on a single value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOp {
    /// Answer: the bytes, if the value exists.
    Get,
    /// Writes the value. Answer: nothing.
    Set(Bytes, SetTtl),
    /// Writes the value if there is none. Answer: whether it was written.
    SetNew(Bytes, Option<Duration>),
    /// Writes or deletes (`to: None`) the value if it has these bytes, or does not exist (`from: None`). A ttl is cleared.
    /// Answer: whether it was.
    Swap {
        /// The expected bytes.
        from: Option<Bytes>,
        /// The new bytes.
        to: Option<Bytes>,
    },
    /// Deletes the value. Answer: its bytes.
    Take,
}

/// Operations on a counter. A counter that does not exist is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CounterOp {
    /// Answer: the number.
    Get,
    /// Writes the number, and clears a ttl. Answer: nothing.
    Set(i64),
    /// Adds to the number. Answer: the sum. An overflow is refused.
    Add {
        /// The addend.
        by: i64,
        /// The ttl that a new counter gets.
        expiring: Option<Duration>,
        /// Makes the addition exact.
        once: Option<Once>,
    },
    /// Writes the second number if the counter has the first one. Answer: whether it had.
    Swap(i64, i64),
}

/// Operations on a floating-point counter. A counter that does not exist is 0.
#[derive(Debug, Clone, PartialEq)]
pub enum FloatOp {
    /// Answer: the number.
    Get,
    /// Writes the number, and clears a ttl. Answer: nothing.
    Set(f64),
    /// Adds to the number. Answer: the sum.
    Add {
        /// The addend.
        by: f64,
        /// The ttl that a new counter gets.
        expiring: Option<Duration>,
        /// Makes the addition exact.
        once: Option<Once>,
    },
    /// Writes the second number if the counter has the first one. Answer: whether it had.
    Swap(f64, f64),
}

/// How several sets or bit sets become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combine {
    /// The members of any of the sets.
    Union,
    /// The members of all sets.
    Intersection,
    /// The members of the first set that no other set has.
    Difference,
}

/// Operations on a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetOp {
    /// Inserts members. Answer: the number of those that are new.
    Insert(Vec<Bytes>),
    /// Removes members. Answer: the number of those that existed.
    Remove(Vec<Bytes>),
    /// Answer: a flag for each of these.
    Contains(Vec<Bytes>),
    /// Answer: at most this number of different members, at random.
    Random(u32),
    /// Combines this set with others. Answer: the members.
    Combine(Combine, Vec<Key>),
    /// Moves a member to another set. Answer: whether it existed.
    Move(Bytes, Key),
    /// Answer: the number of members.
    Len,
}

/// An end of a list or a sorted set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The first element, or the member with the smallest score.
    Front,
    /// The last element, or the member with the greatest score.
    Back,
}

/// Operations on a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListOp {
    /// Adds elements at an end, one after the other. Answer: the length of the list.
    Push {
        /// The end.
        end: End,
        /// The elements.
        elements: Vec<Bytes>,
        /// Makes the push exact.
        once: Option<Once>,
    },
    /// Inserts an element before this index. The length is allowed as the index. Answer: whether the index exists.
    Insert(u64, Bytes),
    /// Answer: the element with this index.
    Get(i64),
    /// Replaces the element with this index. Answer: the former element. None if the index does not exist.
    Set(i64, Bytes),
    /// Removes the element with this index. Answer: the element.
    RemoveAt(i64),
    /// Removes the first elements that are equal to this, but at most this number (0: all). Answer: their number.
    Remove(Bytes, u32),
    /// Answer: the elements of a range.
    Slice(i64, i64),
    /// Removes all elements outside a range. Answer: nothing.
    Trim(i64, i64),
    /// The first index of an element with these bytes. Answer: an optional number.
    Position(Bytes),
    /// Answer: the length.
    Len,
}

/// A range of scores. The ends are included. Infinite numbers are allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// The smallest score.
    pub min: f64,
    /// The greatest score.
    pub max: f64,
}

/// Operations on a sorted set. Its members are ordered by score, and those of one score by their bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum SortedOp {
    /// Inserts members, and changes the scores of those that exist. Answer: the number of new members.
    Insert(Vec<(f64, Bytes)>),
    /// Inserts a member if it does not exist. Answer: whether it was inserted.
    InsertNew(f64, Bytes),
    /// Adds to the score of a member. A member that does not exist has 0. Answer: the sum.
    Add(Bytes, f64),
    /// Removes members. Answer: the number of those that existed.
    Remove(Vec<Bytes>),
    /// Answer: the score of each of these.
    Scores(Vec<Bytes>),
    /// The position of a member from this end. Answer: an optional number.
    Rank(Bytes, End),
    /// The members of a range of positions, counted from this end. Answer: members with scores.
    Range(End, i64, i64),
    /// The members of a range of scores, at most this number. Answer: members with scores.
    Between(Scores, u32),
    /// Removes the members of a range of scores. Answer: their number.
    RemoveBetween(Scores),
    /// Answer: the number of members of a range of scores.
    Count(Scores),
    /// Answer: the number of members.
    Len,
}

/// Operations on a multimap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultimapOp {
    /// Adds a value to a key. Answer: whether it is new (with [`Values::List`], always).
    Insert(Bytes, Bytes),
    /// Removes a value of a key (with [`Values::List`], the first equal one). Answer: whether it existed.
    Remove(Bytes, Bytes),
    /// Removes a key. Answer: its values.
    RemoveAll(Bytes),
    /// Answer: the values of a key.
    Get(Bytes),
    /// Answer: whether the key has this value.
    Contains(Bytes, Bytes),
    /// The number of values of all keys. It visits each key. Answer: the number.
    Len,
    /// Answer: the number of keys.
    KeysLen,
    /// Removes the key with its values after this time. Answer: whether the key exists.
    ExpireKey(Bytes, Duration),
}

/// Operations on a bit set. Bits that were never set are 0. An index must be less than 2^32.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BitsOp {
    /// Answer: a flag for each of these indexes.
    Get(Vec<u64>),
    /// Sets or clears bits. Answer: their former values.
    Set(Vec<u64>, bool),
    /// Sets or clears the bits of a range. The end is excluded. Answer: nothing.
    SetRange(u64, u64, bool),
    /// Answer: the number of bits that are 1.
    Count,
    /// Answer: the index after the last bit that is 1.
    Len,
    /// Combines this bit set with others, and writes the result here. A ttl stays. Answer: nothing.
    Combine(BitCombine, Vec<Key>),
    /// Inverts each bit of the bytes that are stored. A ttl stays. Answer: nothing.
    Not,
    /// Answer: the bytes. The first bit is the highest one of the first byte.
    Bytes,
    /// Reads or changes a number in a field of bits.
    Field(BitField, FieldOp),
}

/// How several bit sets become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BitCombine {
    /// Bits that all have.
    And,
    /// Bits that any has.
    Or,
    /// Bits that an odd number of them have.
    Xor,
}

/// A number in a bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BitField {
    /// The index of the first bit, which is the highest one of the number.
    pub offset: u64,
    /// The number of bits: 1 to 64 if the number is signed, and 1 to 63 otherwise.
    pub width: u32,
    /// Whether the number has a sign (two's complement).
    pub is_signed: bool,
}

/// Operations on a field of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldOp {
    /// Answer: the number.
    Get,
    /// Writes a number; its high bits that do not fit are left out. Answer: the former number.
    Set(i64),
    /// Adds to the number, and wraps around at its limits. Answer: the sum.
    Add(i64),
}

/// The sizes of a Bloom filter. They never change while the filter exists.
#[derive(Debug, Clone, PartialEq)]
pub struct BloomSizes {
    /// The number of bits.
    pub bits: u64,
    /// The number of bits of each item.
    pub hashes: u32,
    /// The number of items for which the filter was made.
    pub expected: u64,
    /// The share of false positives with that number of items.
    pub false_positives: f64,
}

/// Operations on a Bloom filter.
#[derive(Debug, Clone, PartialEq)]
pub enum BloomOp {
    /// Creates the filter if it does not exist. Answer: the sizes of the filter.
    Create(BloomSizes),
    /// Answer: the sizes of the filter, if it exists.
    Open,
    /// Adds items, each given by its bits. Answer: a flag for each item, whether a bit of it is new. If the filter has
    /// other sizes or does not exist, nothing is added, and the answer is `Bloom` with the sizes of the filter.
    Insert(BloomSizes, Vec<Vec<u64>>),
    /// Answer: a flag for each item, whether all its bits are set; or `Bloom`, as for an insertion.
    Contains(BloomSizes, Vec<Vec<u64>>),
    /// Answer: the number of bits that are set.
    Count,
}

/// Where an element is taken from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// An end of a list.
    List(End),
    /// An end of a sorted set.
    Sorted(End),
    /// A set, at random.
    Set,
    /// A group of a journal: each group gets each entry. An entry stays in the journal. A group that does not exist begins
    /// before the oldest entry. An entry that returns to its group comes before those that were never delivered.
    Group(GroupName),
}

/// Operations on taken elements. An element that was taken belongs to its taker until it is settled or its lease expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOp {
    /// Takes elements. First, elements with an expired lease become available again. Elements that were delivered before
    /// come first. Answer: [`Reply::Taken`](super::Reply::Taken).
    Take {
        /// Where the elements are taken from.
        from: Source,
        /// The maximum number of elements. If the call is repeated with a smaller number, or with fewer bytes, the elements that
        /// exceed them are given back. No program has received those, so they do not count as delivered. 0 gives all back.
        at_most: u32,
        /// The maximum number of their bytes. The first element is returned whatever its length is.
        bytes: u32,
        /// The time after which the elements become available again if they are not settled.
        lease: Duration,
        /// Makes the call exact: if it is repeated, it gets the elements that it has got before, and no others.
        once: Once,
        /// Elements of earlier calls that are done.
        done: Vec<u64>,
    },
    /// Ends taken elements. Answer: a flag for each of them, whether it still belonged to its taker.
    Settle {
        /// Where the elements were taken from.
        from: Source,
        /// The ids of the elements.
        ids: Vec<u64>,
        /// What becomes of them.
        end: TakeEnd,
    },
    /// Extends leases. Answer: a flag for each of them, whether the element still belongs to its taker.
    Extend {
        /// Where the elements were taken from.
        from: Source,
        /// The ids of the elements.
        ids: Vec<u64>,
        /// The new remaining time. A lease is never shortened.
        lease: Duration,
    },
    /// Answer: [`Reply::Queue`](super::Reply::Queue).
    Count(Source),
    /// The next elements, which stay where they are. Answer: the elements.
    Peek {
        /// Where the elements would be taken from.
        from: Source,
        /// The number of elements that are left out. A set has no order: after its first elements there are none.
        skip: u32,
        /// The maximum number of elements.
        at_most: u32,
        /// The maximum number of their bytes beside the first one.
        bytes: u32,
    },
    /// Takes elements without a lease and moves them to an end of another list, as long as there are some, but at most
    /// this number, and each only once if both lists are the same. Answer: their number.
    MoveTo {
        /// The end of this list.
        from: End,
        /// The other list.
        to: Key,
        /// The end of the other list.
        at: End,
        /// The maximum number of elements.
        at_most: u32,
    },
}

/// What becomes of a taken element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TakeEnd {
    /// It is removed.
    Done,
    /// It becomes available again, as if it had never been delivered: at the end where it was.
    Undelivered,
    /// It becomes available again before all others, and its number of deliveries is kept.
    Again,
}

/// Makes an action of an operation on each of these structures.
macro_rules! actions {
    ($($variant:ident $op:ty),*) => {$(
        impl From<$op> for Action {
            fn from(op: $op) -> Self {
                Self::$variant(op)
            }
        }
    )*};
}

actions!(
    Value ValueOp, Counter CounterOp, Float FloatOp, Map MapOp, Set SetOp, List ListOp, Sorted SortedOp, Bits BitsOp,
    Bloom BloomOp, Journal JournalOp, Take TakeOp, Live LiveOp, Cache CacheOp
);

impl Op {
    /// The operation `action` on the object `key`.
    pub fn new(key: &Key, action: impl Into<Action>) -> Self {
        Self { key: key.clone(), action: action.into() }
    }
}
