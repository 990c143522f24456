//! The objects of the grid, in memory and on a real Redis server.

#![expect(clippy::unwrap_used, reason = "tests")]

mod cache;
mod cache_faults;
mod calls;
mod dropped;
mod faults;
mod journal;
mod live;
mod near;
mod outages;
mod queue;
mod spring;
mod timed;
mod topics;

use std::time::Duration;

use bandog::{
    Client,
    grid::{ClientGrid, Grid},
};
use bandog_testkit::RedisServer;

/// A generous limit for what happens in milliseconds on a quiet machine.
const SOON: Duration = Duration::from_secs(60);

async fn client(url: &str) -> Client {
    bandog::connect(url).await.unwrap()
}

async fn grid(url: &str) -> Grid {
    client(url).await.grid()
}

/// The keys of a server, without those that a queue keeps for a time: its last fence and its answers.
fn keys(server: &RedisServer) -> Vec<String> {
    let mut keys = server.cmd(&["KEYS", "*"]).texts();
    keys.retain(|key| !["bandog:fence:", "bandog:ops:"].iter().any(|kept| key.starts_with(kept)));
    keys.sort();
    keys
}
