//! The history of calls on objects.

mod call;

use std::collections::BTreeMap;

pub(super) use self::call::{Heard, HeardEvent, How, Kind, Object, Op};
use crate::{
    calls::{self, Recorded, Words, word},
    history::{CallId, Nanos},
};

/// Number of objects of most kinds.
pub(super) const OBJECTS: u32 = 2;
/// Number of types of the objects of [`Kind::Lent`].
pub(super) const LENT: u32 = 8;

/// The words of calls on objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Objects;

impl Words for Objects {
    type Object = Object;
    type Op = Op;
    type Other = HeardEvent;

    fn label(object: Object, op: Op) -> String {
        format!("{} {}", word(&object.0), word(&op))
    }
}

pub(super) type Call = calls::Call<Objects>;

/// The events of one subscription, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Subscription {
    pub(super) events: Vec<(Nanos, Heard)>,
}

/// The whole history.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    pub(super) recorded: Recorded<Objects>,
    pub(super) subscriptions: BTreeMap<(Object, u32, CallId), Subscription>,
    /// The number of bytes of the largest value that objects take. 0: all values are short.
    pub(super) largest: usize,
    /// Whether messages of topics that are not sharded go from server to server, which can lose and delay them.
    pub(super) relays: bool,
    /// What was left in the store at the end, besides the objects.
    pub(super) left: Vec<String>,
}

impl History {
    pub(super) fn of(recorded: Recorded<Objects>) -> Self {
        let mut subscriptions = BTreeMap::<_, Subscription>::new();
        for (client, HeardEvent { subscription, at, object, heard }) in recorded.others.iter().copied() {
            subscriptions.entry((object, client, subscription)).or_default().events.push((at, heard));
        }
        Self { recorded, subscriptions, ..Self::default() }
    }
}
