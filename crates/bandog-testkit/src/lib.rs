//! Real servers and real processes for bandog's tests.
//!
//! A lock's hard promises are about crashes, pauses and cut wires.
//! So the tests use the real server and hurt it: this crate starts one per test, kills it, stops it, and puts a bad wire in front of it.
//! Everything started here dies with the test process, however that ends.
//!
//! - [`RedisServer`]: a Redis of the test's own, on a free port.
//! - [`Wire`]: a TCP proxy that delays, swallows, stalls, refuses or resets.
//! - [`Process`]: a child process whose lines can be waited for and that can be signalled.
//! - [`Ear`]: what code says to `tracing`.
//! - [`fuzz`]: random inputs for parsers.
//! - [`eventually()`] and [`eventually_async`]: wait for a fact, never for a time.
//!
//! It runs on Linux only, since it leans on `/proc` and on the parent-death signal.

mod ear;
mod eventually;
pub mod fuzz;
mod keeper;
mod port;
pub mod process;
mod redis;
mod resp;
mod version;
mod wire;

pub use ear::Ear;
pub use eventually::{Fact, eventually, eventually_async};
pub use process::{Process, is_alive};
pub use redis::{RedisServer, TlsFiles};
pub use resp::{RawRedis, Reply};
pub use rustix::process::Signal;
pub use version::ServerVersion;
pub use wire::Wire;
