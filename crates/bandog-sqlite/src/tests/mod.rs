//! Tests of private parts: rules, texts of the kernel, other boots and other clocks.

mod batches;
mod boots;
mod boots_of_kinds;
mod health;
mod queues;
mod records;
mod rules;
mod same_rules;
mod texts;

use std::time::Duration;

use bandog_core::Clock;

use crate::{
    SqliteOptions, busy_wait,
    open::{Purpose, Store},
};

/// Opens the database of a test. Like the product, the call waits while another connection has the same inode: the
/// registration of a connection ends after its files are closed. If these files are deleted, the file of this test can
/// get their inode before that.
fn open_store(options: &SqliteOptions) -> Store {
    busy_wait::set_deadline(Clock::system().now() + Duration::from_secs(10));
    Store::open(options, Purpose::Use).unwrap()
}
