//! The laws of leases on a real file, by real processes.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bells;
mod checks;
mod child;
mod damage;
mod disks;
mod files;
mod laws;
mod looking;
mod obeying;
mod power;
mod processes;
mod records;
mod registry;
mod support;
mod unlinked;
