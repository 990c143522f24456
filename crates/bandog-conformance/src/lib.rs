//! The conformance suite: the laws that every bandog backend must keep. Each law is one public function and one named
//! test.
//!
//! The tests of a backend implement [`World`], which starts a store, makes backends for it and injects faults. Then the
//! tests call the macro `bandog_conformance::conformance!(MyWorld)`, which makes one test for each law. If a law does
//! not apply to a store, its test prints the reason and passes. Laws 1 to 100 are about locks. Laws from 101 are about
//! records ([`bandog_core::Records`]), which are optional for a backend.
//!
//! Most laws use clients of `bandog-sync`, as users do. Some laws call the backend directly. A world with a paused
//! clock uses `conformance!(paused MyWorld)`.
//!
//! # A backend of your own
//!
//! This is a complete backend: a text file that the processes of a machine share. It claims, renews and releases by the
//! rules of [`bandog_core::LockState`]. The engine, which is the background task of a client, does everything else.
//!
//! The backend has no notifications, so its waiters poll once a second. It has no records: the `impl Records` at the
//! end is empty, so every call for records fails with `ErrorKind::Unsupported`. Locks work with this backend, and
//! schedules do not.
//!
//! The tests of this backend are a [`World`] of about thirty lines, `tests/seventh/main.rs`. There, [`World::records`]
//! returns the reason why the backend has no records.
//!
#![doc = concat!("```\n", include_str!("../tests/seventh/one_file.rs"), "```")]
//!
//! [`wrap`] has backends that count, delay, lose or hold calls, or break a rule. [`Census`] checks that at most one task
//! believes that it holds a lock. The tests of other crates can use both.

#![expect(clippy::future_not_send, reason = "a law stays on the thread of its test")]

mod census;
mod child;
mod kind_kit;
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
