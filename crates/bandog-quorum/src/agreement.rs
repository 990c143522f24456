//! The maximum ttl, on which all clients of a quorum must agree. It is stored at each node.
//!
//! A client that assumes a shorter maximum would count the vote of a node that has restarted too early: another client
//! may still hold a lock that this node has lost.

use std::time::Duration;

use bandog_core::{Backend, Error, Result};

use crate::rules::majority;

/// The name of the setting at each node.
const NAME: &str = "quorum:max_ttl";

/// Reads the maximum ttl that a node has stored, and stores `max_ttl` first if the node has none and `stores` is true.
///
/// # Errors
/// As `Leases::setting`. The kind is `ErrorKind::Misused` if the node has another maximum.
pub(crate) async fn check(backend: &impl Backend, store: &str, max_ttl: Duration, stores: bool) -> Result<Agreement> {
    let ours = text(max_ttl);
    match backend.setting(NAME, Some(ours.as_str()).filter(|_| stores)).await? {
        None => Ok(Agreement::Missing),
        Some(stored) if stored == ours => Ok(Agreement::Stored),
        Some(stored) => Err(Error::misused(format!(
            "max_ttl is {ours} here, and other clients of this quorum use {stored} (stored at {store}); all clients must use \
             the same max_ttl"
        ))),
    }
}

/// What a node has stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// The same maximum.
    Stored,
    /// No maximum.
    Missing,
}

/// Whether these answers of nodes show that a majority has stored our maximum. Then a client with another maximum is
/// refused by at least one node of each majority.
pub(crate) fn is_stored_by_majority(answers: &[Agreement], nodes: usize) -> bool {
    answers.iter().filter(|answer| **answer == Agreement::Stored).count() >= majority(nodes)
}

/// The duration in milliseconds. The unit shows that it is not the count of a latch.
fn text(max_ttl: Duration) -> String {
    format!("{}ms", max_ttl.as_millis())
}
