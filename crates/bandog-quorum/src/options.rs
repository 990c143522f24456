//! The options of a quorum.

use std::time::Duration;

/// The options of a [`Quorum`](crate::Quorum).
///
/// ```
/// use bandog_quorum::QuorumOptions;
/// use std::time::Duration;
/// let options = QuorumOptions::default().max_ttl(Duration::from_secs(120));
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
pub struct QuorumOptions {
    pub(crate) max_ttl: Duration,
    pub(crate) timeout: Duration,
    pub(crate) store: Option<String>,
}

impl Default for QuorumOptions {
    /// A maximum ttl of 60 s, and a timeout of 3 s.
    fn default() -> Self {
        Self { max_ttl: Self::MAX_TTL, timeout: Duration::from_secs(3), store: None }
    }
}

impl QuorumOptions {
    /// The default of [`QuorumOptions::max_ttl`].
    pub const MAX_TTL: Duration = Duration::from_secs(60);

    /// Sets the maximum ttl of a lock. A claim with a longer ttl is refused. A node has a vote when it has run for longer
    /// than this time. The default is 60 s.
    ///
    /// All clients of a quorum must have the same value. The first client stores it at the nodes. A client with another
    /// value is refused ([`ErrorKind::Misused`](bandog_core::ErrorKind::Misused)).
    #[must_use]
    pub fn max_ttl(self, max_ttl: Duration) -> Self {
        Self { max_ttl, ..self }
    }

    /// Sets the timeout of one request. A node must answer within a third of it ([`QuorumOptions::node_timeout`]). The
    /// default is 3 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the address of the quorum in messages. The default is the addresses of the nodes.
    #[must_use]
    pub fn store(self, store: impl Into<String>) -> Self {
        Self { store: Some(store.into()), ..self }
    }

    /// The timeout of one request to one node: a third of the timeout of a request.
    pub fn node_timeout(&self) -> Duration {
        self.timeout / 3
    }
}
