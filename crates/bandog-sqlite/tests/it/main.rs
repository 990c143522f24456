//! The laws of leases on a real file, by real processes.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bells;
mod child;
mod files;
mod laws;
mod looking;
mod processes;
mod registry;
mod support;
