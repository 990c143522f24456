//! The terms on which all clients of a quorum must agree: the maximum ttl, and the number of nodes. They are stored at each
//! node.
//!
//! A client that assumes a shorter maximum would count the vote of a node that has restarted too early: another client
//! may still hold a lock that this node has lost. If a client counts fewer nodes, its majorities and those of the other
//! clients may have no node in common.

use std::time::Duration;

use bandog_core::{Error, QuorumNode, Result, rounded};

use crate::rules::majority;

/// The name of the setting at each node.
const NAME: &str = "quorum:max_ttl";

/// The settings that must be equal in all clients of a quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The maximum ttl of a lock.
    pub(crate) max_ttl: Duration,
    /// The number of nodes in the client's list.
    pub(crate) nodes: usize,
}

/// Reads the terms that a node has stored, and stores ours first if the node has none and `stores` is true.
///
/// # Errors
/// As `QuorumNode::setting`. The kind is `ErrorKind::Misused` if the node has other terms.
pub(crate) async fn check(backend: &impl QuorumNode, store: &str, terms: Terms, stores: bool) -> Result<Agreement> {
    let ours = terms.text();
    match backend.setting(NAME, Some(ours.as_str()).filter(|_| stores)).await? {
        None => Ok(Agreement::Missing),
        // Older versions have stored the maximum only.
        Some(stored) if stored == ours || stored == terms.max_ttl_text() => Ok(Agreement::Stored),
        Some(stored) => Err(terms.differ_from(&stored, store)),
    }
}

impl Terms {
    /// The text that the nodes store, such as `60000ms of 3 nodes`.
    fn text(self) -> String {
        format!("{} of {} nodes", self.max_ttl_text(), self.nodes)
    }

    /// The maximum ttl in milliseconds. The unit shows that it is not the count of a latch.
    fn max_ttl_text(self) -> String {
        format!("{}ms", self.max_ttl.as_millis())
    }

    /// The terms in this text. The number of nodes is None in a text of an older version.
    fn read(text: &str) -> Option<(Duration, Option<usize>)> {
        let (max_ttl, nodes) = match text.split_once(" of ") {
            Some((max_ttl, nodes)) => (max_ttl, Some(nodes.strip_suffix(" nodes")?.parse().ok()?)),
            None => (text, None),
        };
        Some((Duration::from_millis(max_ttl.strip_suffix("ms")?.parse().ok()?), nodes))
    }

    /// The error for a node that has stored this text.
    fn differ_from(self, stored: &str, store: &str) -> Error {
        let Some((max_ttl, nodes)) = Self::read(stored) else {
            return Error::misused(format!(
                "this version cannot read what other clients of this quorum have stored at {store}: {stored:?}; all \
                 clients must have the same version"
            ));
        };
        match nodes.filter(|nodes| *nodes != self.nodes) {
            Some(nodes) => Error::misused(format!(
                "this client names {} servers of the quorum, and other clients name {nodes} (stored at {store}); all \
                 clients must name the same servers, because otherwise two of them can get the same lock; to change the \
                 list, see \"The same servers everywhere\" in docs/redis-quorum.md",
                self.nodes
            )),
            None => Error::misused(format!(
                "max_ttl is {} here, and other clients of this quorum use {} (stored at {store}); all clients must use \
                 the same max_ttl",
                rounded(self.max_ttl),
                rounded(max_ttl)
            )),
        }
    }
}

/// The comparison of our terms with those that a node has stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// The same terms.
    Stored,
    /// No terms.
    Missing,
}

/// Whether these answers of nodes show that a majority has stored our terms. Then a client with another maximum is refused
/// by at least one node of each majority.
pub(crate) fn is_stored_by_majority(answers: &[Agreement], nodes: usize) -> bool {
    answers.iter().filter(|answer| **answer == Agreement::Stored).count() >= majority(nodes)
}
