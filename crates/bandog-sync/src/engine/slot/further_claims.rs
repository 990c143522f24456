//! The further claims of a semaphore's slot that are in flight.

use super::attempt::Attempt;
use crate::terms::HoldId;

/// The further claims of a slot.
#[derive(Default)]
pub(super) struct Further {
    /// The claims in flight.
    pub(super) claims: Vec<Attempt>,
    /// Whether the store has refused or not answered a claim since the last one that it granted at once.
    pub(super) is_contended: bool,
}

impl Further {
    pub(super) fn len(&self) -> usize {
        self.claims.len()
    }

    /// Records the store's answer to the claim of the slot's attempt. `at_once`: the answer is to its first request.
    pub(super) fn answered(&mut self, is_granted: bool, at_once: bool) {
        self.is_contended = !is_granted || self.is_contended && !at_once;
    }

    pub(super) fn take(&mut self, id: HoldId) -> Option<Attempt> {
        let at = self.claims.iter().position(|attempt| attempt.claim.id.number == id)?;
        Some(self.claims.swap_remove(at))
    }

    pub(super) fn permits(&self) -> u64 {
        self.claims.iter().map(|attempt| u64::from(attempt.claim.kind.permits())).sum()
    }
}
