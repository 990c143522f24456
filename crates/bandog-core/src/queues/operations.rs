//! The operations on a work queue, and their answers.

use std::time::Duration;

use super::element::{ElementId, NewElement, TakeId};
use crate::{Fence, Key, Portion, structures::Bytes};

/// New elements of one queue, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The queue.
    pub queue: Key,
    /// The elements, with rising ids: at least one. The id of the first one identifies the push.
    pub elements: Vec<NewElement>,
}

/// The answer for one new element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushed {
    /// The new element, or the one that was pushed before with the same [`OnceId`](super::OnceId).
    pub id: ElementId,
    /// Whether the element is new.
    pub is_new: bool,
}

/// Takes elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// The queue.
    pub queue: Key,
    /// Identifies this take.
    pub id: TakeId,
    /// Whether an earlier request of this take had no answer. If it has got elements, the first of them are returned, and the
    /// others are given back. No program has received those, so these deliveries do not count. The take gets no other elements, and
    /// the answer says that more may be ready.
    ///
    /// The earlier request may arrive after its repetition. What it gets then has no taker: a further repetition with 0 for the
    /// maximum number gives it back, uncounted.
    pub is_repeated: bool,
    /// Maximum number of elements. 0 gives all back that this take has got.
    pub at_most: u32,
    /// Maximum number of bytes of their payloads. The first element is returned whatever its length is.
    pub bytes: u32,
    /// The time after which the elements that a repeated take gives back are ready. Zero: at once, at their places.
    pub rest_after: Duration,
    /// The lease of each element.
    pub lease: Duration,
    /// An element that was delivered so often, and was neither done nor handed back, becomes dead instead of being delivered
    /// once more.
    pub deliveries: u32,
}

impl Take {
    /// How much its answer may have.
    pub fn portion(&self) -> Portion {
        Portion::new(self.at_most as usize, self.bytes as usize)
    }
}

/// An element for its taker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The element.
    pub id: ElementId,
    /// Greater than that of each earlier delivery of the same element, and of each element with the same key of order.
    pub fence: Fence,
    /// 1 for the first delivery.
    pub attempt: u32,
    /// [`NewElement::payload`](super::NewElement::payload).
    pub payload: Bytes,
    /// The time since the push.
    pub age: Duration,
    /// Why the delivery before has failed.
    pub error: Option<String>,
}

impl Delivered {
    /// The delivery.
    pub fn delivery(&self) -> DeliveryId {
        DeliveryId { id: self.id, fence: self.fence }
    }
}

/// The answer to a take.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    /// The elements, in their order.
    pub elements: Vec<Delivered>,
    /// Whether further elements may be ready now.
    pub has_more: bool,
    /// The time until an element may become ready without a notification: one becomes due, a lease ends, or a limit of the
    /// queue allows the next. None: no such time is known.
    pub next: Option<Duration>,
    /// The number of elements that became dead by this take.
    pub died: u32,
}

/// A delivery of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeliveryId {
    /// The element.
    pub id: ElementId,
    /// The fence of the delivery.
    pub fence: Fence,
}

/// Extends the leases of deliveries.
#[derive(Debug, Clone, PartialEq)]
pub struct Extend {
    /// The queue.
    pub queue: Key,
    /// The deliveries, each with a text about its progress. An empty text removes the text; none leaves it as it is.
    pub deliveries: Vec<(DeliveryId, Option<String>)>,
    /// The new time until the end of the leases.
    pub lease: Duration,
}

/// The answer for one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// The lease is extended.
    Held,
    /// The lease is extended, but the taker should stop: the element was cancelled.
    Cancelled,
    /// The lease is not extended, because a transaction of another program has locked the element. To be repeated.
    Busy,
    /// The taker does not have the element any more.
    Lost,
}

/// How a delivery ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleEnd {
    /// The work is done, with this result. The element is removed.
    Done(Bytes),
    /// The work has failed, with this error, and is repeated after this time.
    Retry(Duration, String),
    /// The work has failed for good, with this error.
    Fail(String),
    /// The work was not begun, or was given up. The delivery does not count. The element is ready after this time, and at its
    /// place if the time is zero.
    HandBack(Duration),
}

/// Ends one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The delivery.
    pub delivery: DeliveryId,
    /// How it ends.
    pub end: SettleEnd,
}

/// The answer to a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is applied, now or by an earlier request.
    Applied,
    /// The element is not in the queue: it was settled, cancelled or removed, or the store has lost it.
    Absent,
    /// It is not applied, because a transaction of another program has locked the element. To be repeated.
    Busy,
    /// A later delivery has begun, or the element is dead.
    Lost,
}

/// How an element has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, with this result.
    Done(Bytes),
    /// It is dead, with this error.
    Failed(String),
    /// It was cancelled or removed.
    Cancelled,
}
