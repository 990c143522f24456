//! The numbers of a demo.

use std::time::Duration;

use super::fault::DemoFault;

/// Interval of the sweeps of each replica.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// Maximum number of closed orders in one second of the demo, for all replicas together. Without a lock, several
/// replicas might close the same order. This order then counts once for each of these replicas.
const CLOSINGS: u32 = 1500;

/// Number of orders that a single replica can close in one second of the demo. With the scheduler, only one replica
/// closes orders at a time.
const CLOSED_BY_ONE: u32 = 80;

/// The numbers and the duration of a demo.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) replicas: u16,
    pub(super) orders: u32,
    seconds: u16,
}

impl Plan {
    pub(super) fn new(replicas: u16, orders: u32, seconds: u16) -> Result<Self, DemoFault> {
        // The number of seconds that the demo needs.
        let needed = (u32::from(replicas) * orders).div_ceil(CLOSINGS).max(orders.div_ceil(CLOSED_BY_ONE));
        if needed > u32::from(seconds) {
            return Err(DemoFault::Usage(format!(
                "{replicas} replicas with {orders} orders do not fit into {seconds} s; try --seconds {needed}"
            )));
        }
        Ok(Self { replicas, orders, seconds })
    }

    /// Maximum duration of the whole demo.
    pub(super) fn seconds(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// Time from the start of a phase until its last order is overdue. This time is a fifth of the demo's duration, but
    /// a phase can use half of the demo's duration. The rest of the phase is a reserve: a loaded machine needs more
    /// time to start the replicas.
    pub(super) fn overdue_within(&self) -> Duration {
        self.seconds() / 5
    }

    /// Time that the payment provider needs to answer for one order.
    ///
    /// The answers for all orders together take half of the time in which the orders become overdue. So a single
    /// replica that closes all orders, as with the scheduler, is never late. A sweep takes about half of the interval
    /// between two ticks, whatever the number of orders is. So if replicas begin to sweep at the same time without a
    /// lock, their sweeps overlap.
    pub(super) fn payment(&self) -> Duration {
        (self.overdue_within() / 2 / self.orders).clamp(Duration::from_millis(1), Duration::from_millis(50))
    }
}
