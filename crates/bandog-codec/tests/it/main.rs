//! Compares the codecs with the records of Redisson, and gives their readers random bytes.

#![allow(clippy::unwrap_used, reason = "helpers of tests can unwrap as tests do")]

mod cost;
mod errors;
mod forms;
mod fuzz;
mod golden;
mod hashes;
mod json;
mod kryo5;
mod numbers;
mod packs;
mod text;
