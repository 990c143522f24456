//! Tests of the wrappers.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod flaws;
mod objects;
mod wrappers;
