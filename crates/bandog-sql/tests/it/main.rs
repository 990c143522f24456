//! Tests with real servers: bad days, rights, TLS and the check.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../claims/mod.rs"]
mod claims;

mod check;
mod days;
mod failover;
mod held;
mod login;
mod polls;
mod poolers;
mod rights;
mod rows;
mod shedlock;
mod support;
mod tls;
