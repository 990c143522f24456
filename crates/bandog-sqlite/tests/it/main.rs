//! The laws of leases on a real file, by real processes.

mod laws;
mod support;
