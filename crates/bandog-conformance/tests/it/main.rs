//! The wrappers let everything through.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod wrappers;
