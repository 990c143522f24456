//! Tests of the testkit with real servers and real processes.

#![allow(clippy::unwrap_used, reason = "a test panics if it cannot continue")]

mod eventually;
mod process;
mod redis;
mod sql_server;
mod topologies;
mod wire;
mod zookeeper;

use std::time::Duration;

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(5);
