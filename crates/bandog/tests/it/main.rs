//! Tests of URLs, of the clients made from them, and of the attributes.
#![allow(clippy::unwrap_used, reason = "tests")]

mod any_error;
#[cfg(feature = "grid")]
mod cached;
mod cluster;
mod compose;
mod connecting;
mod credentials;
mod emptied;
mod extended;
mod forgotten;
mod forked;
mod fuzz;
mod handed_over;
mod health;
mod locked;
mod locked_kinds;
mod locked_shapes;
mod recipes;
mod scheduled;
mod sqlite_urls;
mod testing;
mod urls;
