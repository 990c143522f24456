//! The laws of leases on a real file, by real processes.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod laws;
mod support;
