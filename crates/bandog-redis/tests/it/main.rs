//! Tests of the Redis backend with real servers. They call the backend directly, without the engine of bandog-sync.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod batches;
mod check;
mod crowded;
mod days;
mod evict;
mod fair;
mod fair_deadlines;
mod faults;
mod fences;
mod foreign_readers;
mod help;
mod inspect;
mod kinds;
mod latches;
mod layout;
mod many_readers;
mod older;
mod plain;
mod read_write;
mod record_days;
mod record_rights;
mod records;
mod registry;
mod rights;
mod same_rules;
mod script_forms;
mod semaphore;
mod setnx;
mod sockets;
mod source;
mod starve;
mod strangers;
mod subscriptions;
mod tls;
