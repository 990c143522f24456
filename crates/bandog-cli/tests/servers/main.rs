//! The command over Redis: a real server that is killed, stopped, cut off and emptied.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on can only panic")]

#[path = "../help/mod.rs"]
mod help;
#[path = "../schedules/mod.rs"]
mod schedules;
#[path = "../verbs/mod.rs"]
mod verbs;

mod away;
mod doctor;
mod holders;
mod holds;
mod jobs;
mod refusals;
mod schedules_away;
mod store;
