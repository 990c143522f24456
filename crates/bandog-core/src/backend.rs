//! A complete backend.

use std::sync::Arc;

use crate::{Inspect, Latches, Leases, messages::Messages, queues::Queues, structures::Structures};

/// A complete backend: leases, inspection, records and latches, and what else its store has.
pub trait Backend: Leases + Inspect + Latches {
    /// The objects of the grid, on connections of their own that are opened when they are needed. Default: none.
    fn structures(&self) -> Option<Arc<dyn Structures>> {
        None
    }

    /// The messages on channels. Default: none.
    fn messages(&self) -> Option<Arc<dyn Messages>> {
        None
    }

    /// The work queues, on connections of their own that are opened when they are needed. Default: none.
    fn queues(&self) -> Option<Arc<dyn Queues>> {
        None
    }
}
