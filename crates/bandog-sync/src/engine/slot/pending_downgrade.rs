//! A downgrade that is not answered yet, and one that was granted.

use bandog_core::Moment;

use super::{attempt::Attempt, hold::Hold};
use crate::{engine::call::Call, terms::HoldId};

/// A hold that was granted by a downgrade, and the call that gets its first turn.
pub(in crate::engine) struct Adoption {
    pub(super) hold: Box<Hold>,
    pub(super) call: Option<Box<Call>>,
}

/// A downgrade that is not answered yet.
pub(super) struct Downgrade {
    pub(super) attempt: Box<Attempt>,
    /// The writer's hold, with its turn.
    pub(super) hold: Box<Hold>,
    /// `None` after the call was answered with an error.
    pub(super) call: Option<Box<Call>>,
    /// When the request is repeated. `None` while it is in flight.
    pub(super) retry_at: Option<Moment>,
}

impl Downgrade {
    pub(super) fn is_in_flight(&self) -> bool {
        self.retry_at.is_none()
    }

    /// When the slot's timer must fire.
    pub(super) fn next_due(&self) -> Option<Moment> {
        let hold = self.call.as_ref().map(|_| self.hold.wake_at());
        [hold, self.retry_at].into_iter().flatten().min()
    }

    /// Marks the writer's turn as lost.
    pub(super) fn lose(&self) {
        self.hold.turns().iter().for_each(|turn| turn.status.lose());
    }

    /// Whether this is the writer's hold, and the caller still waits. Then the hold is renewed.
    pub(super) fn renews(&self, hold: HoldId) -> bool {
        self.hold.id() == hold && self.call.is_some()
    }
}
