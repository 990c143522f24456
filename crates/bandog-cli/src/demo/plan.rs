//! The numbers of a demo.

use std::time::Duration;

use super::fault::DemoFault;

/// Interval of the sweeps of each replica.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// Maximum number of closings in one second of the demo, by all replicas together. Without a lock, each replica might
/// close each order, so one order can need several closings.
const CLOSINGS: u32 = 1500;

/// Number of orders that one replica with the lock can close in one second of the demo.
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

    /// Time until the last order of a phase is overdue. It is two fifths of the duration of a phase, which is half of
    /// the demo. The rest is a reserve, because a loaded machine needs time to start replicas.
    pub(super) fn overdue_within(&self) -> Duration {
        self.seconds() / 5
    }

    /// Time that the payment provider needs to answer for one order.
    ///
    /// All answers together take half of the time in which the orders become overdue. So the one replica that has the
    /// lock is never late. For any number of orders, a sweep takes about half of the interval between two ticks, so the
    /// sweeps of replicas that begin at the same time overlap.
    pub(super) fn payment(&self) -> Duration {
        (self.overdue_within() / 2 / self.orders).clamp(Duration::from_millis(1), Duration::from_millis(50))
    }
}
