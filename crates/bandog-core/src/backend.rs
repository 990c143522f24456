//! A complete backend.

use crate::{Inspect, Latches, Leases};

/// A complete backend: leases, inspection, records and latches.
pub trait Backend: Leases + Inspect + Latches {}

impl<B: Leases + Inspect + Latches> Backend for B {}
