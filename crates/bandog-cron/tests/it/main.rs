//! Compares the fires of expressions with recorded answers, and with slow calendars that share no code with the crate.

#![allow(clippy::unwrap_used, reason = "helpers of tests can unwrap as tests do")]

mod cost;
mod count;
mod daylight;
mod describe;
mod fuzz;
mod oracle;
mod refusals;
mod vectors;
