//! MariaDB: the tests of both databases, and of what only this one has.

#[path = "../both/begin.rs"]
mod begin;
#[path = "../both/busy.rs"]
mod busy;
#[path = "../both/check.rs"]
mod check;
#[path = "../both/complete.rs"]
mod complete;
mod database;
#[path = "../both/held.rs"]
mod held;
#[path = "../both/in_memory.rs"]
mod in_memory;
mod lost;
#[path = "../both/many.rs"]
mod many;
#[path = "../both/outbox.rs"]
mod outbox;
#[path = "../both/queues.rs"]
mod queues;
#[path = "../both/stopped.rs"]
mod stopped;
mod support;
