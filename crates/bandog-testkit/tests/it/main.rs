//! The testkit on real servers and real processes: what it promises to do to them, it does.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on can only panic")]

mod eventually;
mod process;
mod redis;
mod wire;

use std::time::Duration;

/// Longer than anything here takes; only a failure waits for it.
const SOON: Duration = Duration::from_secs(5);
