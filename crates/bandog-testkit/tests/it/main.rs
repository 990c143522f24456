//! Tests of the testkit with real servers and real processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on can only panic")]

mod eventually;
mod process;
mod redis;
mod wire;

use std::time::Duration;

/// Timeout that only a failure reaches.
const SOON: Duration = Duration::from_secs(5);
