//! Tests with real servers: bad days, rights, TLS and the check.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../claims/mod.rs"]
mod claims;

mod check;
mod clock;
mod days;
mod failover;
mod held;
mod held_days;
mod login;
mod polls;
mod poolers;
mod queues;
mod rights;
mod roles;
mod rows;
mod shedlock;
mod storms;
mod support;
mod tables;
mod tls;
mod waiters;
