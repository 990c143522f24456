//! The rows of a work queue in a store that applies the rules row by row.

use std::time::Duration;

use super::{Element, ElementId, Outcome, Phase, Priority, QueueSettings, TakeId};
use crate::{Fence, structures::Bytes};

/// The texts of an element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Body {
    /// The bytes that were pushed.
    pub payload: Bytes,
    /// Why the last delivery has failed.
    pub error: Option<String>,
    /// The text of its taker about its progress.
    pub progress: Option<String>,
}

/// The rows of one queue. All calls of one operation see and change one state.
pub trait Rows {
    /// The error of the store.
    type Error;

    /// The settings.
    fn settings(&mut self) -> Result<QueueSettings, Self::Error>;
    /// Replaces the settings.
    fn set_settings(&mut self, settings: &QueueSettings) -> Result<(), Self::Error>;

    /// The time from which on the rate allows the next delivery.
    fn next_delivery(&mut self) -> Result<u64, Self::Error>;
    /// Replaces it.
    fn set_next_delivery(&mut self, at: u64) -> Result<(), Self::Error>;

    /// A fence that is greater than those before.
    fn next_fence(&mut self) -> Result<Fence, Self::Error>;

    /// An element.
    fn element(&mut self, id: ElementId) -> Result<Option<Element>, Self::Error>;
    /// Adds an element.
    fn insert(&mut self, element: &Element, payload: &[u8]) -> Result<(), Self::Error>;
    /// Replaces an element. Its texts stay.
    fn update(&mut self, element: &Element) -> Result<(), Self::Error>;
    /// Removes an element.
    fn remove(&mut self, id: ElementId) -> Result<(), Self::Error>;
    /// The number of bytes of the payload of an element.
    fn payload_len(&mut self, id: ElementId) -> Result<usize, Self::Error>;
    /// The texts of an element.
    fn body(&mut self, id: ElementId) -> Result<Body, Self::Error>;
    /// Replaces [`Body::error`] and [`Body::progress`].
    fn set_texts(&mut self, id: ElementId, error: Option<&str>, progress: Option<&str>) -> Result<(), Self::Error>;

    /// The first elements of a phase, in the order of [`Element::at`] and the id; ready ones by their priority before that.
    fn first(&mut self, phase: Phase, at_most: usize) -> Result<Vec<Element>, Self::Error>;
    /// Elements of a phase after this one, in the same order.
    fn after(&mut self, phase: Phase, last: &Position, at_most: usize) -> Result<Vec<Element>, Self::Error>;
    /// The number of elements in a phase, at most [`super::MAX_COUNT`].
    fn count(&mut self, phase: Phase) -> Result<u64, Self::Error>;
    /// The first blocked element with this key of order whose predecessors are done.
    fn blocked(&mut self, order_key: &str) -> Result<Option<Element>, Self::Error>;
    /// Whether an element with this key of order is ready, delayed or taken.
    fn has_head(&mut self, order_key: &str) -> Result<bool, Self::Error>;
    /// The elements of a take that are still taken.
    fn taken_by(&mut self, take: TakeId) -> Result<Vec<Element>, Self::Error>;

    /// The element that has used this id ([`super::OnceId`]), and the end of its window.
    fn once(&mut self, id: &str) -> Result<Option<(ElementId, u64)>, Self::Error>;
    /// Writes it.
    fn set_once(&mut self, id: &str, by: ElementId, until: u64) -> Result<(), Self::Error>;

    /// Whether a push with this first element was applied before.
    fn was_pushed(&mut self, first: ElementId) -> Result<bool, Self::Error>;
    /// Remembers a push until this time.
    fn set_pushed(&mut self, first: ElementId, until: u64) -> Result<(), Self::Error>;

    /// The result of an element that has ended.
    fn result(&mut self, id: ElementId) -> Result<Option<(Outcome, u64)>, Self::Error>;
    /// Keeps a result until this time.
    fn set_result(&mut self, id: ElementId, outcome: &Outcome, until: u64) -> Result<(), Self::Error>;

    /// The texts of the workers that are kept until a later time than this.
    fn workers(&mut self, now: u64) -> Result<Vec<String>, Self::Error>;
    /// Keeps the text of a worker until this time.
    fn set_worker(&mut self, worker: u64, text: &str, until: u64) -> Result<(), Self::Error>;

    /// Removes the result of an element.
    fn forget_result(&mut self, id: ElementId) -> Result<(), Self::Error>;

    /// Removes what was kept until this time or an earlier one: ids, pushes, results and workers, at most this number of
    /// each.
    fn forget(&mut self, until: u64, at_most: usize) -> Result<(), Self::Error>;

    /// An element may have become ready.
    fn ring(&mut self) -> Result<(), Self::Error>;
    /// The result of an element that this client has pushed is there.
    fn ring_result(&mut self, client: u64) -> Result<(), Self::Error>;
}

/// The place of an element in the order of its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The priority of a ready element.
    pub priority: Priority,
    /// [`Element::at`].
    pub at: u64,
    /// Its id.
    pub id: ElementId,
}

/// A duration in µs, rounded up.
pub(super) fn micros(duration: Duration) -> u64 {
    let micros = duration.as_nanos().div_ceil(1000);
    u64::try_from(micros).unwrap_or(u64::MAX)
}
