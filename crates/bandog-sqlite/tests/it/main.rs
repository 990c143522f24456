//! Tests of leases and records with real files and real processes.
#![expect(clippy::unwrap_used, reason = "tests")]

mod checks;
mod child;
mod damage;
mod disks;
mod files;
mod inspection;
mod kinds;
mod kinds_notifications;
mod laws;
mod notifications;
mod power;
mod processes;
mod records;
mod registry;
mod remote_store;
mod support;
mod unlinked;
