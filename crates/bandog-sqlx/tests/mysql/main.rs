//! Tests with a real MariaDB: the check of a lock in a transaction of the user.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod database;
mod held_off;
mod lost;
mod stopped;
mod support;
