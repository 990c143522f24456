//! The conformance suite: the laws that every bandog backend must keep. Each law is one public function and one named
//! test.
//!
//! The tests of a backend implement [`World`] (a store, backends for it, and faults that can be injected) and call
//! `bandog_conformance::conformance!(MyWorld)`, which makes one test for each law. If a law does not apply to a store,
//! its test prints the reason and passes. The laws up to 100 are about locks. From 101 on they are about records
//! ([`bandog_core::Records`]), which are optional for a backend.
//!
//! Most laws use the engine of `bandog-sync`, as users do; some call the backend directly. A world with a paused clock
//! uses `conformance!(paused MyWorld)`.
//!
//! # A backend of your own
//!
//! This is a complete backend: a text file that the processes of a machine share. It claims, renews and releases by the
//! rules of [`bandog_core::LockState`]. The engine does everything else. The backend has no notifications, so its
//! waiters poll within a second. It has no records: the `impl Records` at the end is empty, so every call for records
//! returns `Unsupported`. Locks work with it, and schedules do not. Its tests are a [`World`] of about thirty lines,
//! `tests/seventh/main.rs`, in which [`World::records`] returns the reason why it has no records.
//!
#![doc = concat!("```\n", include_str!("../tests/seventh/one_file.rs"), "```")]
//!
//! [`wrap`] has backends that count, delay, lose and hold the calls for locks and records, or grant less. [`Census`] checks from
//! outside that at most one client believes that it holds a lock. Other tests may use both.

#![expect(clippy::future_not_send, reason = "a law stays on the thread of its test")]

mod census;
mod child;
mod kit;
pub mod laws;
mod record_kit;
mod run;
mod world;
pub mod wrap;

pub use census::{Census, Stay};
pub use child::serve as serve_as_child;
pub use run::{CHILD, keep};
pub use world::{Can, Law, Unkept, World};
