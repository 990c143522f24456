//! The further claims of a semaphore's slot that are in flight.

use super::attempt::Attempt;
use crate::terms::HoldId;

/// The further claims of a slot.
#[derive(Default)]
pub(super) struct Further {
    /// The claims in flight.
    pub(super) claims: Vec<Attempt>,
    /// Whether the store has refused or not answered a claim since the last one that it granted at once.
    is_contended: bool,
}

impl Further {
    pub(super) fn len(&self) -> usize {
        self.claims.len()
    }

    pub(super) fn is_contended(&self) -> bool {
        self.is_contended
    }

    /// Records that the store has refused or not answered a claim of the slot.
    pub(super) fn refused(&mut self) {
        self.is_contended = true;
    }

    /// Records that the store has granted the claim of the slot's attempt at its first request.
    pub(super) fn granted_at_once(&mut self) {
        self.is_contended = false;
    }

    pub(super) fn take(&mut self, id: HoldId) -> Option<Attempt> {
        let at = self.claims.iter().position(|attempt| attempt.claim.id.number == id)?;
        Some(self.claims.swap_remove(at))
    }

    pub(super) fn permits(&self) -> u64 {
        self.claims.iter().map(|attempt| u64::from(attempt.claim.kind.permits())).sum()
    }
}
