//! The laws of leases on a real file, by real processes.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bells;
mod child;
mod files;
mod laws;
mod processes;
mod support;
