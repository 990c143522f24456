//! What several kinds of operations contain.

use std::time::Duration;

use crate::OperationId;

/// The bytes of an element, a field or a value.
pub type Bytes = Vec<u8>;

/// Makes a write exact: the store remembers the answer, so a repeated write is not applied twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// The id of the operation.
    pub id: OperationId,
    /// The minimum time for which the store remembers the answer. A client repeats the operation only within this time.
    pub remember: Duration,
    /// The store may forget this client's operations on this object with lower numbers.
    pub forget_before: u64,
}
