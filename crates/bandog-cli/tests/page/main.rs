//! The page in a real browser, served by the real command over a real Redis: `cargo xtask page`.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue can only panic")]

mod browser;
mod charts;
mod fixture;
#[path = "../help/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod help;
mod languages;
mod many;
mod objects;
mod pictures;
mod queues;
mod trouble;
mod use_of_it;
mod views;
