//! Who runs jobs over the store, as far as it is known.

use bandog::schedule::NodeRow;

use super::Desk;
use crate::voice::{say, shown};

/// The schedulers that run. Which jobs each of them has, the store does not know.
pub(super) enum Nodes {
    Known(Vec<NodeRow>),
    /// The store does not let us look.
    Hidden,
}

impl Nodes {
    pub(super) async fn of(desk: &Desk<'_>) -> Self {
        // Who only says a word need not have the right to look at locks.
        desk.jobs.nodes().await.map_or(Self::Hidden, Self::Known)
    }

    /// Whether it is known that nobody runs anything.
    pub(super) fn is_nobody(&self) -> bool {
        matches!(self, Self::Known(nodes) if nodes.is_empty())
    }

    /// Who runs, in words.
    pub(super) fn told(&self) -> String {
        let Self::Known(nodes) = self else { return "which schedulers run cannot be seen".into() };
        let names: Vec<String> = nodes.iter().map(|node| shown(&node.node)).collect();
        match &names[..] {
            [] => "no scheduler runs over it now, so no job does".into(),
            [one] => format!("1 scheduler runs: {one}"),
            some => format!("{} schedulers run: {}", some.len(), some.join(", ")),
        }
    }

    /// Says on standard error that nobody is there, and what follows.
    pub(super) fn warn(&self, follows: &str) {
        if self.is_nobody() {
            say(&format!("no scheduler runs over this store now: {follows}"));
        }
    }

    /// For JSON: none if it cannot be seen.
    pub(super) fn known(&self) -> Option<&[NodeRow]> {
        match self {
            Self::Known(nodes) => Some(nodes),
            Self::Hidden => None,
        }
    }
}
