//! Tests with a real PostgreSQL: the check of a lock and the completion of a run in a transaction of the user.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod begin;
mod busy;
mod check;
mod complete;
mod database;
mod example;
mod held_off;
mod in_memory;
mod isolation;
mod lost;
mod many;
mod outbox;
mod queues;
mod recipe;
mod restart;
mod stopped;
mod story;
mod support;
