//! Work queues: elements that wait, are delivered to one taker at a time with a lease and a fence, and are settled.
//!
//! The rules are in [`rules`], over the rows of any store: the memory backend and SQLite call them, and the other
//! backends do the same in scripts and statements. A time in a row is in microseconds since 1970 of the store's wall clock,
//! except the end of a lease ([`rules::Now`]).

mod element;
pub mod envelope;
mod operations;
mod rows;
pub mod rules;
mod status;

use std::fmt::{Debug, Display};

use async_trait::async_trait;

pub use self::{
    element::{Element, ElementId, MAX_ORDER_KEY, MAX_PRIORITY, NewElement, OnceId, Phase, Priority, TakeId, When},
    envelope::{Headers, MAX_HEADERS},
    operations::{
        Delivered, DeliveryId, Extend, Extended, Outcome, Push, Pushed, Settle, SettleEnd, Settled, Take, Taken,
    },
    rows::{Body, Position, Rows},
    status::{
        Change, ElementRow, MAX_COUNT, QueueSettings, QueueStatus, Rate, WorkerRow, read_worker_rows, write_worker_row,
    },
};
use crate::{Error, ErrorKind, Key, Notifier, Pattern, Result, SqlStatement, Subscription, structures::Cursor};

/// The newest layout of elements that this version knows. The layout 1 is that of elements without [envelopes](envelope).
///
/// A store keeps a mark of the layout of its elements. It keeps no envelope in the layout 1, where programs may be that do not
/// know them: it changes to the layout 2, or refuses the push as [`ErrorKind::Unsupported`]. A program that meets a mark of a
/// layout that it does not know gets `Unsupported`, takes nothing, and changes nothing.
pub const LAYOUT: u8 = 2;

/// The error of a call about elements of a layout that this version does not know. Nothing was changed.
pub fn unknown_layout(layout: impl Display) -> Error {
    let message = format!(
        "the elements have the layout {layout}, and this program knows the layout {LAYOUT}: use a newer bandog"
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// The error of a push that needs another layout while a worker of an older version is registered, at this place. Nothing was
/// pushed.
pub fn older_worker(place: &str) -> Error {
    let message = format!(
        "the worker {place} is of an older version, which does not know the headers of elements, so nothing was pushed; stop the \
         workers of older versions, and push again a minute later"
    );
    Error::new(ErrorKind::Unsupported, message)
}

/// What a subscription waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Bell {
    /// An element of the queue may be ready. If several takers wait, the store may notify only one of them.
    Ready {
        /// The queue.
        queue: Key,
        /// The taker that waits.
        taker: u64,
    },
    /// The result of an element that this client has pushed may be there.
    Results {
        /// The queue.
        queue: Key,
        /// [`ElementId::client`] of the elements.
        client: u64,
    },
}

/// Work queues with shared data. A queue exists from its first element or setting on.
///
/// Each call may be repeated: a repeated push is found by the id of its first element for 5 minutes, a repeated take by its
/// [`TakeId`], and a settlement by its fence. Each call returns within
/// [`Profile::timeout`](crate::Profile::timeout). If the future of a call is dropped, the store might or might not apply it.
///
/// # Errors
/// Of all calls:
/// - [`ErrorKind::Unavailable`]: no answer.
/// - [`ErrorKind::Denied`]: the user lacks a right, or the name has data of another program.
#[async_trait]
pub trait Queues: Debug + Send + Sync + 'static {
    /// Adds elements, those of each push in one step. One answer for each push, with one for each of its elements.
    async fn push(&self, pushes: &[Push]) -> Vec<Result<Vec<Pushed>>>;

    /// Takes elements that are ready, each with a lease. One answer for each take.
    async fn take(&self, takes: &[Take]) -> Vec<Result<Taken>>;

    /// Extends leases. One answer for each delivery.
    async fn extend(&self, extend: &Extend) -> Result<Vec<Extended>>;

    /// Ends deliveries, all that are not [busy](Settled::Busy) in one step, of each element at most one. One answer for each.
    async fn settle(&self, queue: &Key, settles: &[Settle]) -> Result<Vec<Settled>>;

    /// The elements with these ids, or their results. None: the store does not know the id. `payload` is the maximum number of
    /// bytes of each payload that is returned. The results have at most [`PORTION`](crate::PORTION) bytes beside the first one:
    /// the row of an element that has ended has no outcome if there is no more room for it, so it must be asked for again. The
    /// payloads have at most as many, and those that follow are empty.
    async fn find(&self, queue: &Key, ids: &[ElementId], payload: usize) -> Result<Vec<Option<ElementRow>>>;

    /// The state of a queue.
    async fn status(&self, queue: &Key) -> Result<QueueStatus>;

    /// A page of the elements in one phase, in the order in which they will be delivered or have ended. `payload` is the maximum
    /// number of bytes of each payload that is returned. All together have at most [`PORTION`](crate::PORTION) bytes beside the
    /// first one, so a page may have fewer elements than `about`, but at least one if there is one.
    async fn elements(
        &self,
        queue: &Key,
        phase: Phase,
        from: &Cursor,
        about: usize,
        payload: usize,
    ) -> Result<(Vec<ElementRow>, Option<Cursor>)>;

    /// Changes a queue, for operators. Returns the number of changed elements; a long change is done in parts of 1,000 and
    /// is complete when the answer is less. For [`Change::Worker`]: the number of workers of the queue that have a free slot,
    /// at most 100, so that many poll less often; zero if each poll costs little.
    async fn change(&self, queue: &Key, change: &Change) -> Result<u64>;

    /// A page of the names of queues that match.
    async fn queues(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<(Vec<Key>, Option<Cursor>)>;

    /// Calls `notifier` when the bell rings, until the subscription is dropped. A store may notify without a reason. Callers
    /// poll in addition.
    async fn subscribe_bell(&self, bell: &Bell, notifier: Notifier) -> Result<Subscription>;

    /// The statements that push in a transaction of the user. Default: the store has none.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`]: the store is no database.
    async fn push_sql(&self, push: &Push) -> Result<Vec<SqlStatement>> {
        Err(no_sql(&push.queue))
    }

    /// The statements that settle one delivery as done in a transaction of the user. Default: the store has none.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`]: the store is no database.
    async fn settle_sql(&self, queue: &Key, _settle: &Settle) -> Result<Vec<SqlStatement>> {
        Err(no_sql(queue))
    }

    /// Changes all queues to the [newest layout](LAYOUT), and returns the layout before. Programs of older versions can do nothing
    /// with the queues afterwards. Default: the store needs no such call, because it changes a queue when a push needs it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`]: a worker of an older version is registered. Nothing was changed.
    async fn upgrade(&self) -> Result<u8> {
        Ok(LAYOUT)
    }
}

fn no_sql(queue: &Key) -> Error {
    let message = "only the work queues of PostgreSQL, MySQL and MariaDB can be part of a transaction";
    Error::new(ErrorKind::Unsupported, message).at(queue)
}
