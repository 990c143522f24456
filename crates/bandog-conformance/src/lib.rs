//! The conformance suite: the laws that every bandog backend must keep. Each law is one public function and one named
//! test.
//!
//! The tests of a backend implement [`World`], which starts a store, makes backends for it and injects faults. Then the
//! tests call the macro `bandog_conformance::conformance!(MyWorld)`, which makes one test for each law. If a law does
//! not apply to a store, the test of this law prints the reason and passes. Laws 1 to 100 are about locks. Laws from
//! 101 are about records ([`bandog_core::Records`]), which are optional for a backend. Laws from 181 are about latches
//! ([`bandog_core::Latches`]).
//!
//! Most laws use clients of `bandog-sync`, as users do. Some laws call the backend directly. In the tests that
//! `conformance!(paused MyWorld)` makes, the clock of Tokio is paused.
//!
//! # A backend of your own
//!
//! The code below is a complete backend. It keeps all locks in one text file, which the processes of a machine share.
//! For each claim, renewal and release, [`bandog_core::LockState`] decides what changes in the file. The engine, which
//! is the background task of a client, does everything else.
//!
//! The backend does not support notifications, so waiters poll once a second. It does not support records either: the
//! `impl Records` at the end is empty, so every call for records fails with `ErrorKind::Unsupported`. Locks work with
//! this backend. Schedules do not work, because they need records.
//!
//! To test this backend, `tests/seventh/main.rs` implements [`World`] in about thirty lines. There, [`World::records`]
//! returns the reason why the laws about records do not apply. (The directory is called `seventh`, because this was the
//! seventh backend with tests of these laws.)
//!
#![doc = concat!("```\n", include_str!("../tests/seventh/one_file.rs"), "```")]
//!
//! [`wrap`] has backends that count, delay, lose or hold back calls, or break a rule. [`Census`] checks that at most one
//! task at a time believes that it holds a lock. The tests of other crates can use [`wrap`] and [`Census`], too.

#![expect(clippy::future_not_send, reason = "a law stays on the thread of its test")]

mod census;
mod child;
mod ends_itself;
mod kind_kit;
mod kit;
pub mod laws;
pub mod messages;
pub mod objects;
pub mod queues;
mod record_kit;
mod run;
mod world;
pub mod wrap;

pub use census::{Census, Stay};
pub use child::CHILD;
pub use child::serve as serve_as_child;
pub use run::keep;
pub use world::{Can, Law, Unkept, World};
