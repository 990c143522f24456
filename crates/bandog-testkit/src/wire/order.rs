//! The orders of a test to the proxy's thread, and the counters of the proxy.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// A change that the test orders, and the channel on which the proxy's thread reports that the order is executed.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) action: Action,
    pub(super) done: SyncSender<()>,
}

/// A change of the proxy. A `bool` switches the fault on or off.
#[derive(Debug)]
pub(super) enum Action {
    LeadTo(SocketAddr),
    Delay(Direction, Duration),
    /// The number of bytes per second. `None`: no limit.
    Rate(Direction, Option<NonZeroU64>),
    Drop(Direction, bool),
    LoseEverything,
    Stall(bool),
    StallOpen(bool),
    Refuse(bool),
    Cut,
    /// Ends the proxy's thread.
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Reply,
}

/// The counters that a test can read.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: AtomicU64,
    pub(super) open: AtomicUsize,
    pub(super) lost: AtomicU64,
}
