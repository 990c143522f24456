//! The invariants of ARCHITECTURE.md, checked by reading manifests and sources.
#![allow(clippy::unwrap_used, reason = "tests")]

mod book;
mod cycles;
mod deb;
mod deploy;
mod examples;
mod gate;
mod house;
mod invariants;
mod manifests;
mod modules;
mod pages;
mod promises;
mod workflows;
mod yaml;
