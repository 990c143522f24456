//! Tests with real servers: bad days, rights, TLS and the check.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../suite/mod.rs"]
mod suite;

#[cfg(feature = "mysql")]
mod mysql;
mod postgres;
