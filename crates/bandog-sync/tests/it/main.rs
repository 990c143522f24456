//! The engine, beyond the laws of the conformance suite: over the memory backend, mostly under a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod bad_input;
mod basics;
mod blocking;
mod cancel;
mod close;
mod deaf;
mod doubts;
mod ending;
mod expiring;
mod health;
mod itself;
mod kit;
mod logs;
mod meters;
mod owner;
mod panic;
mod pass_on;
mod queue;
mod registry;
mod renew;
mod rings;
mod runtime;
mod server_away;
mod shares;
mod singleton;
mod starve;
mod suspend;
mod traps;
mod types;
mod wall_clock;
