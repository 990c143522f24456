//! Tests with real servers of MariaDB: bad days, rights, TLS, polls and the check.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../claims/mod.rs"]
mod claims;

mod check;
mod days;
mod failover;
mod held;
mod login;
mod polls;
mod rights;
mod rows;
mod shedlock;
mod support;
mod tls;
