//! The laws that every bandog backend must keep: one law, one public function, one named test.
//!
//! A backend's tests implement [`World`] (a store, ways to it, and the harm that can be done to it) and write
//! `bandog_conformance::conformance!(MyWorld)`: that becomes one test for each law. A law that a store cannot have is
//! printed with the reason, never skipped in silence. The numbers up to 99 are those of the project's list of laws for
//! locks; from 101 on they are about records ([`bandog_core::Records`]), which a backend may leave out.
//!
//! The laws speak through the engine of `bandog-sync`, as users do, and sometimes to the backend itself. Worlds of
//! paused time write `conformance!(paused MyWorld)`.
//!
//! # A backend of your own
//!
//! This is a whole one: a text file that the processes of a machine share. It tries, renews and frees, by the rules
//! of [`bandog_core::LockState`], and never waits, renews on its own or counts: the engine does. It has no bell, so its
//! waiters look again within a second. It keeps no records, which the empty `impl Records` at its end says: every
//! question about them is `Unsupported`, so locks work over it and schedules do not. Its tests are a [`World`] of some
//! thirty lines, `tests/seventh/main.rs`; there [`World::records`] tells the laws why they have nothing to try.
//!
#![doc = concat!("```\n", include_str!("../tests/seventh/one_file.rs"), "```")]
//!
//! [`wrap`] has backends that count, delay, lose and hold calls, those about records too, and [`Census`] counts from
//! outside who believes to hold a lock; other tests may use both.

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
