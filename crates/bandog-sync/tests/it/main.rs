//! Tests of the engine for promises that the conformance suite does not check. They use the memory backend, and most of
//! them a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod all;
mod bad_input;
mod barrier;
mod basics;
mod blocking;
mod bounded;
mod cancel;
mod close;
mod deadlock;
mod detach;
mod election;
mod ending;
mod expiring;
mod extend;
mod fair;
mod hand_over;
mod health;
mod kit;
mod latch;
mod late_answers;
mod limits;
mod logs;
mod max_waiters;
mod metrics;
mod notifications;
mod owner;
mod panic;
mod permits;
mod queue;
mod read_write;
mod registry;
mod renew;
mod runtime;
mod self_deadlock;
mod server_away;
mod shares;
mod singleton;
mod starvation;
mod suspend;
mod traps;
mod types;
mod unused;
mod wall_clock;
mod without_subscription;
