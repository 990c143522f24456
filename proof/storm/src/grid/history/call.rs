//! The objects, the calls on them, and their results.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::{
    calls::word,
    history::{CallId, Nanos},
};

/// What an object is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(in crate::grid) enum Kind {
    Queue,
    Deque,
    /// A sorted set whose members are popped.
    Sorted,
    /// A set whose members are popped.
    Bag,
    /// A map whose keys belong to one task each.
    Map,
    /// A set whose members belong to one task each.
    Members,
    /// A multimap whose keys belong to one task each.
    Multimap,
    /// A bit set whose bits belong to one task each.
    Bits,
    /// A map whose entries all tasks change with compare and set.
    Shared,
    /// A value that all tasks change with compare and set.
    Value,
    Counter,
    ExactCounter,
    Ids,
    Bloom,
    Topic,
    Sharded,
    /// A value that has a ttl of some milliseconds.
    Fleeting,
    /// A map whose entries have such a ttl.
    Timed,
    /// A counter that gets such a ttl when it begins.
    Expiring,
    /// An object of one of several types, which gets such a ttl after a write.
    Lent,
    /// A name that has objects of every type.
    Strange,
}

impl Kind {
    /// All kinds.
    pub(in crate::grid) fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    /// Whether the objects of this kind end after some milliseconds.
    pub(in crate::grid) fn has_ttl(self) -> bool {
        matches!(self, Self::Fleeting | Self::Timed | Self::Expiring | Self::Lent)
    }

    /// Whether elements are taken out of the object.
    pub(in crate::grid) fn has_elements(self) -> bool {
        matches!(self, Self::Queue | Self::Deque | Self::Sorted | Self::Bag)
    }
}

/// An object: its kind and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::grid) struct Object(pub(in crate::grid) Kind, pub(in crate::grid) u32);

impl Object {
    /// The name in the store.
    pub(in crate::grid) fn name(self) -> String {
        format!("storm:{}.{}", word(&self.0), self.1)
    }
}

/// What a call does. Each element, version and item is a number that is written once in a run; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::grid) enum Op {
    Push(u64),
    ExactPush(u64),
    /// Takes out an element, which is done when the call has returned it.
    Pop,
    /// Takes out an element with a lease.
    Take,
    /// Ends the element that the call `of` has taken. `held`: the holder had checked that it was not lost.
    Settle {
        of: CallId,
        how: How,
        held: bool,
    },
    /// Writes a value that belongs to this task.
    Write {
        key: u64,
        value: u64,
    },
    Read {
        key: u64,
    },
    /// Writes `to` if the value is `from`. `None`: the call has found the value itself.
    Swap {
        key: u64,
        from: Option<u64>,
        to: u64,
    },
    /// Writes a value with a ttl in milliseconds, or gives an object this ttl.
    Lend {
        key: u64,
        value: u64,
        ttl: u32,
    },
    /// Reads a value from a copy.
    Peek {
        key: u64,
    },
    /// Subscribes to the changes of a map.
    Listen,
    /// Calls the method with this number.
    Try(u8),
    Add(u64),
    /// Reads a counter.
    Sum,
    /// Asks for a unique number.
    Next,
    Insert(u64),
    Contains(u64),
    /// Publishes the message with this number of this publisher.
    Publish {
        publisher: u64,
        number: u64,
    },
}

/// How a holder ends an element that it has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::grid) enum How {
    Done,
    Release,
    Drop,
}

/// What a subscriber of a topic has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::grid) enum Heard {
    /// The subscription has begun.
    Subscribed,
    Message {
        publisher: u64,
        number: u64,
    },
    Gap,
    /// The subscriber has not got its own last message.
    Deaf,
}

/// What a subscriber got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::grid) struct HeardEvent {
    pub(in crate::grid) subscription: CallId,
    pub(in crate::grid) at: Nanos,
    pub(in crate::grid) object: Object,
    pub(in crate::grid) heard: Heard,
}
