//! Count-down latches: counters that are set once and counted down to zero. Each operation has an id, so that a repeated
//! operation is applied once.

mod in_records;
mod operation;
mod state;

use async_trait::async_trait;

pub use self::operation::{LatchAction, LatchAnswer, LatchOperation, LatchRow, OperationId};
use crate::{Key, Notifier, Pattern, Records, Result, Subscription};

/// Count-down latches of a store.
///
/// A latch is open if it does not exist or if its count is 0. So a store that has lost its data has open latches only.
///
/// In the default implementations, a latch is the record `latch/NAME`. The record has the count, and the ids of the
/// operations that the store remembers. A backend without records returns
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for each call. A backend that stores latches in another
/// way implements all five methods.
///
/// Each call can be repeated without harm.
///
/// ```
/// use bandog::{Key, admin::ClientId, backend::{Clock, LatchAction, LatchOperation, Latches, Memory, OperationId}};
/// use std::{num::NonZeroU64, time::Duration};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let (store, client) = (Memory::new(Clock::system()), ClientId::random());
/// let operation = |number, action| LatchOperation {
///     key: Key::new("start").unwrap(),
///     id: OperationId { client, number },
///     action,
///     remember: Duration::from_secs(30),
///     forget_before: 0,
/// };
/// store.change_latch(&operation(1, LatchAction::Set(NonZeroU64::new(2).unwrap()))).await?;
/// let count_down = operation(2, LatchAction::CountDown(NonZeroU64::MIN));
/// assert_eq!(store.change_latch(&count_down).await?.unwrap().count, 1);
/// assert_eq!(store.change_latch(&count_down).await?.unwrap().count, 1); // The same operation is counted once.
/// assert_eq!(store.latch_count(&count_down.key).await?, 1);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Latches: Records {
    /// Applies an operation. If the latch becomes open, the store notifies its subscribers.
    ///
    /// The operation is atomic. If the store remembers an operation with this id, it changes nothing, and the answer
    /// has the earlier [`LatchAnswer::has_changed`].
    ///
    /// `None`: another operation has changed the latch at the same time, so this attempt has changed nothing. The caller
    /// repeats it, after a pause if this happens again.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. The kind is [`ErrorKind::Denied`](crate::ErrorKind::Denied) if the store has other
    /// data under this name, and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the record was not written by
    /// bandog. [`crate::Error::maybe_applied`] reports whether the operation might have been applied.
    async fn change_latch(&self, operation: &LatchOperation) -> Result<Option<LatchAnswer>> {
        in_records::change(self, operation)
            .await
            .map_err(|error| error.during(operation.action.verb()).at(&operation.key))
    }

    /// Deletes what the store no longer needs of latches that are open, if the store does not delete it itself. A client
    /// calls this after it has set a latch, so that the number of these latches does not grow.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn clear_latches(&self) -> Result<()> {
        in_records::clear(self).await.map_err(|error| error.during("clear_latches"))
    }

    /// The count of a latch. It is 0 if the latch does not exist.
    ///
    /// # Errors
    /// As [`Latches::change_latch`].
    async fn latch_count(&self, key: &Key) -> Result<u64> {
        in_records::count(self, key).await.map_err(|error| error.during("latch_count").at(key))
    }

    /// The latches that are not open and whose names match the pattern, sorted by name. A backend without latches
    /// returns an empty list.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn list_latches(&self, pattern: &Pattern) -> Result<Vec<LatchRow>> {
        in_records::list(self, pattern).await.map_err(|error| error.during("list"))
    }

    /// Calls `notifier` each time the latch becomes open. The calls end when the subscription is dropped. The promises
    /// are those of [`Records::subscribe_record`].
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn subscribe_latch(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        in_records::subscribe(self, key, notifier).await.map_err(|error| error.during("subscribe").at(key))
    }
}
