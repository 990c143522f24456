//! The trait [`QuorumNode`]: the contract of a store that is one of the nodes of a quorum.

use std::time::Duration;

use async_trait::async_trait;

use crate::{Backend, Result};

/// A backend whose store can be a node of a quorum. Its kinds of locks accept claims with [`Claim::above`](crate::Claim::above).
#[async_trait]
pub trait QuorumNode: Backend {
    /// The time for which the store has kept all its data, at least. A store that has lost its data is not asked for locks
    /// until the lost holds have expired. For a server, it is the time since the start.
    ///
    /// # Errors
    /// As [`Leases::ping`](crate::Leases::ping). The kind is [`ErrorKind::Denied`](crate::ErrorKind::Denied) if the server
    /// hides the time.
    async fn uptime(&self) -> Result<Duration>;

    /// Returns the text of a setting that all clients of the store share, because the clients of a quorum compare their
    /// options. If the store has no text for this name and `text` is given, the store first keeps this text. A text is never
    /// replaced.
    ///
    /// # Errors
    /// As [`Leases::ping`](crate::Leases::ping).
    async fn setting(&self, name: &str, text: Option<&str>) -> Result<Option<String>>;
}
