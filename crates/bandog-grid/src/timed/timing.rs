//! How the entries of a map expire.

use std::sync::Arc;

use bandog_core::structures::{Action, Expiry, Life, MapOp, TimedOp};

use super::{evictor, kept::Kept};
use crate::object::Object;

/// How the entries of a map expire.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    pub(super) expiry: Expiry,
    /// The life of the entries that are written.
    pub(super) life: Life,
    /// Keeps the map in the list of those whose expired entries are removed.
    pub(super) _kept: Arc<Kept>,
}

impl Timing {
    pub(crate) fn is_by_operations(&self) -> bool {
        self.expiry == Expiry::Operations
    }

    pub(crate) fn action(&self, object: &Object, op: MapOp) -> Action {
        self.timed(object, TimedOp::Entries(op, self.life))
    }

    pub(super) fn timed(&self, object: &Object, op: TimedOp) -> Action {
        if self.is_by_operations() {
            evictor::run(&object.store);
        }
        Action::Timed(self.expiry, op)
    }
}
