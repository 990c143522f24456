//! The section that one replica at a time should be in.

/// Counts the replicas that are inside.
#[derive(Default)]
pub(crate) struct Section {
    inside: Vec<&'static str>,
    /// The maximum number of replicas that were inside at the same time.
    most: usize,
}

impl Section {
    /// A replica enters. Returns the others that are inside.
    pub(crate) fn enter(&mut self, name: &'static str) -> Vec<&'static str> {
        let others = self.inside.clone();
        self.inside.push(name);
        self.most = self.most.max(self.inside.len());
        others
    }

    /// A replica leaves, or dies.
    pub(crate) fn leave(&mut self, name: &str) {
        if let Some(at) = self.inside.iter().position(|inside| *inside == name) {
            self.inside.remove(at);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inside.is_empty()
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }
}
