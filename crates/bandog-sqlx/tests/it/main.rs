//! Tests with real servers: the check of a lock and the completion of a run in a transaction of the user.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]
#![allow(clippy::duplicate_mod, reason = "the files of `both` are tests of each database, with its types of sqlx")]

mod kinds;
#[cfg(feature = "mysql")]
mod mysql;
mod postgres;
