//! Tests with a real MariaDB: the check of a lock and the completion of a run in a transaction of the user.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

#[path = "../it/begin.rs"]
mod begin;
#[path = "../it/busy.rs"]
mod busy;
#[path = "../it/check.rs"]
mod check;
#[path = "../it/complete.rs"]
mod complete;
mod database;
mod held_off;
#[path = "../it/in_memory.rs"]
mod in_memory;
mod lost;
#[path = "../it/outbox.rs"]
mod outbox;
#[path = "../it/queues.rs"]
mod queues;
#[path = "../it/stopped.rs"]
mod stopped;
mod support;
