//! Tests with real servers of MariaDB: bad days, rights, TLS, polls and the check.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../claims/mod.rs"]
mod claims;

mod check;
mod clock;
mod days;
mod deadlocks;
mod failover;
mod held;
mod held_days;
mod login;
mod polls;
mod queues;
mod rights;
mod rows;
mod settings;
mod shedlock;
mod support;
mod tables;
mod tls;
mod waiters;
