//! The scheduler as users see it, over the memory store and tokio's paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod declared;
mod delays;
mod faults;
mod jobs;
mod late;
mod local;
mod logs;
mod lost;
mod metrics;
mod news;
mod observers;
mod refusals;
mod reload;
mod runs;
mod shared;
mod signals;
mod simulated;
mod ticks;
