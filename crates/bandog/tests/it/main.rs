//! From URLs to clients, and what bad URLs get.
#![allow(clippy::unwrap_used, reason = "tests")]

mod connecting;
mod urls;
