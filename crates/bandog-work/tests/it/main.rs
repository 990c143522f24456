//! Tests of work queues.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod executing;
mod faults;
mod harm;
mod kit;
mod metrics;
mod pushing;
mod remote;
mod settling;
mod stopping;
