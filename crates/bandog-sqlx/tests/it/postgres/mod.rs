//! PostgreSQL: the tests of both databases, and of what only this one has.

#[path = "../both/begin.rs"]
mod begin;
#[path = "../both/busy.rs"]
mod busy;
#[path = "../both/check.rs"]
mod check;
#[path = "../both/complete.rs"]
mod complete;
mod database;
mod example;
#[path = "../both/held.rs"]
mod held;
mod held_off;
#[path = "../both/in_memory.rs"]
mod in_memory;
mod isolation;
mod lost;
#[path = "../both/many.rs"]
mod many;
#[path = "../both/outbox.rs"]
mod outbox;
#[path = "../both/queues.rs"]
mod queues;
mod recipe;
mod restart;
#[path = "../both/stopped.rs"]
mod stopped;
mod story;
mod support;
