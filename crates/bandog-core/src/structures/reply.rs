//! Answers to operations on objects.

use std::time::Duration;

use super::{
    cache::{CacheEntry, FillState},
    journal::{EntryId, GroupRow},
    op::BloomSizes,
    terms::Bytes,
};
use crate::{Error, ErrorKind, Result};

/// The remaining time of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// The object does not exist.
    Absent,
    /// The object has no ttl.
    Unlimited,
    /// The object is deleted after this time.
    Left(Duration),
}

/// An element that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct TakenElement {
    /// The id of this delivery. It is also its fence: later deliveries of the same object have greater ids.
    pub id: u64,
    /// The number of this delivery of the element. The first one is 1.
    pub delivery: u32,
    /// The score, if the element was taken from a sorted set.
    pub score: Option<f64>,
    /// The id of the entry, if the element was taken from a group of a journal.
    pub entry: Option<EntryId>,
    /// The element.
    pub bytes: Bytes,
}

/// The answer to an operation. [`Op`](super::Op) says which operation has which answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The operation was applied.
    Done,
    /// Yes or no.
    Flag(bool),
    /// Yes or no for each part of the operation.
    Flags(Vec<bool>),
    /// A number.
    Int(i64),
    /// A number, if there is one.
    Index(Option<u64>),
    /// A floating-point number.
    Float(f64),
    /// Bytes, if there are some.
    Bytes(Option<Bytes>),
    /// Elements.
    List(Vec<Bytes>),
    /// Bytes for each part of the operation, if there are some.
    Options(Vec<Option<Bytes>>),
    /// Members with their scores.
    Scored(Vec<(Bytes, f64)>),
    /// The score for each part of the operation, if there is one.
    Scores(Vec<Option<f64>>),
    /// The remaining time.
    Ttl(Ttl),
    /// A block of ids.
    Block {
        /// The first id.
        first: i64,
        /// The number of ids.
        size: u64,
    },
    /// The sizes of a Bloom filter, if it exists.
    Bloom(Option<BloomSizes>),
    /// The ids of entries that were appended.
    EntryIds(Vec<EntryId>),
    /// Entries of a journal.
    Entries(Vec<(EntryId, Bytes)>),
    /// The groups of a journal.
    Groups(Vec<GroupRow>),
    /// Taken elements.
    Taken {
        /// The elements, in their order.
        elements: Vec<TakenElement>,
        /// Whether a further element was left because of its bytes.
        is_cut: bool,
    },
    /// The elements of a queue.
    Queue {
        /// The elements that can be taken.
        ready: u64,
        /// The elements that are taken.
        taken: u64,
    },
    /// An entry of a cache, if there is one.
    CacheEntry(Option<CacheEntry>),
    /// An entry of a cache, if there is one, and the time for which it is fresh.
    Look(Option<(CacheEntry, Duration)>),
    /// An entry of a cache, if there is one, and its fill.
    Fill(Option<CacheEntry>, FillState),
}

/// Defines the functions that return the content of one kind of answer.
macro_rules! contents {
    ($($(#[$docs:meta])* $name:ident $variant:ident $content:ty;)*) => {
        impl Reply {
            $(
                $(#[$docs])*
                ///
                /// # Errors
                /// The kind is [`ErrorKind::Corrupt`] if the backend has given another answer.
                pub fn $name(self) -> Result<$content> {
                    match self {
                        Self::$variant(content) => Ok(content),
                        other => Err(other.unexpected()),
                    }
                }
            )*
        }
    };
}

contents! {
    /// Yes or no.
    flag Flag bool;
    /// Yes or no for each part.
    flags Flags Vec<bool>;
    /// A number.
    int Int i64;
    /// A number, if there is one.
    index Index Option<u64>;
    /// A floating-point number.
    float Float f64;
    /// Bytes, if there are some.
    bytes Bytes Option<Bytes>;
    /// Elements.
    list List Vec<Bytes>;
    /// Bytes for each part.
    options Options Vec<Option<Bytes>>;
    /// Members with their scores.
    scored Scored Vec<(Bytes, f64)>;
    /// The score for each part.
    scores Scores Vec<Option<f64>>;
    /// The remaining time.
    ttl Ttl Ttl;
    /// The sizes of a Bloom filter.
    bloom Bloom Option<BloomSizes>;
    /// The ids of entries that were appended.
    entry_ids EntryIds Vec<EntryId>;
    /// Entries of a journal.
    entries Entries Vec<(EntryId, Bytes)>;
    /// The groups of a journal.
    groups Groups Vec<GroupRow>;
    /// An entry of a cache, if there is one.
    cache_entry CacheEntry Option<CacheEntry>;
    /// An entry of a cache, if there is one, and the time for which it is fresh.
    look Look Option<(CacheEntry, Duration)>;
}

impl Reply {
    /// Nothing.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Corrupt`] if the backend has given another answer.
    pub fn done(self) -> Result<()> {
        match self {
            Self::Done => Ok(()),
            other => Err(other.unexpected()),
        }
    }

    /// The first id of a block, and the number of its ids.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Corrupt`] if the backend has given another answer.
    pub fn block(self) -> Result<(i64, u64)> {
        match self {
            Self::Block { first, size } => Ok((first, size)),
            other => Err(other.unexpected()),
        }
    }

    /// Taken elements, and whether a further one was left because of its bytes.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Corrupt`] if the backend has given another answer.
    pub fn taken(self) -> Result<(Vec<TakenElement>, bool)> {
        match self {
            Self::Taken { elements, is_cut } => Ok((elements, is_cut)),
            other => Err(other.unexpected()),
        }
    }

    /// The numbers of available and of taken elements.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Corrupt`] if the backend has given another answer.
    pub fn queue(self) -> Result<(u64, u64)> {
        match self {
            Self::Queue { ready, taken } => Ok((ready, taken)),
            other => Err(other.unexpected()),
        }
    }

    /// An entry of a cache, if there is one, and its fill.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Corrupt`] if the backend has given another answer.
    pub fn fill(self) -> Result<(Option<CacheEntry>, FillState)> {
        match self {
            Self::Fill(entry, state) => Ok((entry, state)),
            other => Err(other.unexpected()),
        }
    }

    /// The error of an answer that does not belong to the operation. It contains no bytes of the store.
    fn unexpected(&self) -> Error {
        Error::new(ErrorKind::Corrupt, "the store gave an answer of another form to this operation")
    }
}
