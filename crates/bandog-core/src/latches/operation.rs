//! Operations on latches, and their answers.

use std::{fmt, num::NonZeroU64, time::Duration};

use crate::{ClientId, Key};

/// The id of one operation on a latch. Its text is `uuid:number`, like the id of a claim.
///
/// No two operations have the same id. So the store recognizes an operation that is sent again, and a client can safely
/// repeat an operation whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperationId {
    /// The client that makes the operation.
    pub client: ClientId,
    /// The number of the operation. A client uses each number for one operation only.
    pub number: u64,
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.number)
    }
}

/// The action of an operation on a latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatchAction {
    /// Creates the latch with this count. Nothing changes if the latch exists.
    Set(NonZeroU64),
    /// Subtracts this number from the count. If the result is zero or less, the latch is deleted, which opens it.
    /// Nothing changes if the latch does not exist.
    CountDown(NonZeroU64),
    /// Deletes the latch, which opens it. Nothing changes if the latch does not exist.
    Delete,
}

impl LatchAction {
    /// The verb of the action in error messages.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Set(_) => "set_latch",
            Self::CountDown(_) => "count_down",
            Self::Delete => "delete_latch",
        }
    }
}

/// One operation on a latch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatchOperation {
    /// The name of the latch.
    pub key: Key,
    /// The id of the operation.
    pub id: OperationId,
    /// The action of the operation.
    pub action: LatchAction,
    /// The minimum time for which the store remembers the operation, unless a later operation lets the store forget it.
    /// A client repeats the operation only within this time.
    pub remember: Duration,
    /// The store may forget this client's operations with lower numbers, because no attempt of these can reach the store
    /// any more.
    pub forget_before: u64,
}

/// The answer to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatchAnswer {
    /// Whether the operation has changed the latch. If the operation is sent again, the answer is the same.
    pub has_changed: bool,
    /// The count when the store answered. It is 0 if the latch does not exist.
    pub count: u64,
}

/// A latch that is not open, as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatchRow {
    /// The name of the latch.
    pub name: String,
    /// The count. It is greater than 0.
    pub count: u64,
}
