//! The results of calls.

use bandog::{Error, ErrorKind, work::ElementId};
use serde::{Deserialize, Serialize};

use super::text;
use crate::history::{CallId, Nanos};

/// The words by which errors name the limit that a value exceeds.
const LIMITS: [&str; 4] =
    ["max_allowed_packet", "proto-max-bulk-len", "a work queue takes at most", "are allowed (Limits::element)"];

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// Done, or true.
    Ok,
    /// No: nothing was there, the value was another one, or the lock was held by another call.
    No,
    /// An element, a value, a sum or a number. For a swap that has found the value itself: this value.
    Found(u64),
    /// An element of a queue of the grid, with a lease.
    Taken { element: u64, fence: u64, delivery: u32 },
    /// An element of a work queue, which this push or an earlier one has added.
    Pushed {
        #[serde(with = "text")]
        element: ElementId,
        is_new: bool,
    },
    /// The lock is granted, and held until this time if it is not renewed. `claim` stands for the claim in the store.
    Granted { fence: u64, until: Nanos, claim: u64 },
    /// The leader of an election: this call of this client.
    Leader { fence: u64, client: u32, call: CallId },
    /// The barrier has opened, and this party was the last one to arrive.
    Opened,
    /// The lease of the element was over, or the lock was lost.
    Lost,
    /// The semaphore has another limit than the call has named.
    OtherLimit,
    /// Too few replicas have acknowledged the lock in time.
    NotReplicated,
    /// An error. Nothing was applied.
    Refused,
    /// An error. The call may have been applied.
    Unclear,
    /// The future was dropped.
    Cancelled,
    /// A value is larger than the queue, the object or the server takes. Nothing was sent.
    TooLarge,
    /// The store has refused a command.
    Denied,
    /// An error that a correct call must never get.
    Broken,
}

impl Outcome {
    /// The outcome of a call with this error.
    pub(crate) fn of(error: &Error) -> Self {
        match error.kind() {
            _ if error.maybe_applied() => Self::Unclear,
            ErrorKind::Unavailable | ErrorKind::Overloaded => Self::Refused,
            ErrorKind::Denied => Self::Denied,
            ErrorKind::Lost => Self::Lost,
            ErrorKind::Misused if LIMITS.iter().any(|limit| error.to_string().contains(limit)) => Self::TooLarge,
            _ => Self::Broken,
        }
    }

    /// Whether a write with this outcome may have been applied, or may be applied later, without an answer.
    pub(crate) fn is_unclear(self) -> bool {
        matches!(self, Self::Unclear | Self::Cancelled | Self::Denied)
    }
}
