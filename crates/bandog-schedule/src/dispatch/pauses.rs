//! The pauses of all jobs and of this node, as of the last poll.

use std::sync::Arc;

use crate::{
    Paused,
    pauses::{AllJobsPause, KnownPauses},
};

pub(super) struct NodePauses {
    /// The name of this node.
    node: Arc<str>,
    /// The pauses as this node knows them.
    known: KnownPauses,
    /// Whether an operator has paused this node.
    is_node_paused: bool,
}

impl NodePauses {
    pub(super) fn new(node: Arc<str>) -> Self {
        Self { node, known: KnownPauses::default(), is_node_paused: false }
    }

    pub(super) fn known(&self) -> &KnownPauses {
        &self.known
    }

    /// The last pause or resume of all jobs. The next plan of each job applies it to the job's state.
    pub(super) fn all_jobs(&self) -> &AllJobsPause {
        &self.known.stored.all
    }

    pub(super) fn is_node_paused(&self) -> bool {
        self.is_node_paused
    }

    /// Sets the pauses that were read from the store. If this node was paused or resumed, logs this. Returns true if
    /// this node was resumed.
    pub(super) fn set(&mut self, pauses: KnownPauses) -> bool {
        let node = &self.node;
        let paused = pauses.stored.of_node(node);
        let was_paused = std::mem::replace(&mut self.is_node_paused, paused.is_some());
        match paused {
            Some(Paused { by, reason, .. }) if !was_paused => {
                tracing::warn!(%node, by, reason, "this node is paused: it claims nothing until it is resumed");
            }
            None if was_paused => tracing::warn!(%node, "this node is resumed"),
            Some(_) | None => {}
        }
        self.known = pauses;
        was_paused && !self.is_node_paused
    }

    /// Remembers the version of a record that cannot be parsed. So the error is logged only once per version.
    pub(super) fn skip_version(&mut self, version: Option<bandog_core::Version>) {
        self.known.version = version;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pauses::StoredPauses;

    #[test]
    fn only_the_end_of_a_pause_of_this_node_is_a_resume() {
        let pauses = |nodes: &[&str]| {
            let paused = || Paused { by: "me".into(), reason: "why".into(), at: String::new() };
            let nodes = nodes.iter().map(|node| ((*node).to_owned(), paused())).collect();
            KnownPauses { version: None, stored: StoredPauses { nodes, ..StoredPauses::default() } }
        };
        let mut here = NodePauses::new("shop:1".into());
        let steps = [&["shop:2"][..], &["shop:1"], &["shop"], &[], &[]];
        let seen = steps.map(|nodes| (here.set(pauses(nodes)), here.is_node_paused()));
        assert_eq!(seen, [(false, false), (false, true), (false, true), (true, false), (false, false)]);
    }
}
