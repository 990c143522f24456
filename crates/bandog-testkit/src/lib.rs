//! Real servers and real processes for bandog's tests.
//!
//! The promises of a lock concern crashes, pauses and network failures. So each test starts a real server with this
//! crate, and then kills it, stops it, or puts a bad network in front of it. All processes that this crate starts die
//! with the test process, even if the test process is killed.
//!
//! - [`RedisServer`]: a Redis server for one test, on a free port.
//! - [`Wire`]: a TCP proxy that delays, loses or holds back data, and that refuses or resets connections.
//! - [`Process`]: a child process with signals, and with waits for its output.
//! - [`Ear`]: captures `tracing` events.
//! - [`fuzz`]: random inputs for parsers.
//! - [`eventually()`] and [`eventually_async`]: wait until a condition is true, and not for a fixed time.
//!
//! This crate runs on Linux only, because it needs `/proc` and the parent-death signal.

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
