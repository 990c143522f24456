//! The quorum over stores in memory, and over real Redis servers.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod agreement;
mod contention;
mod interleavings;
mod memories;
mod node;
mod on_memory;
mod on_redis;
mod pauses;
mod repairs;
mod servers;

/// A law about processes starts this binary again, which runs only this function.
#[test]
fn child_of_the_laws() {
    bandog_conformance::serve_as_child::<on_redis::OnRedis>();
}
