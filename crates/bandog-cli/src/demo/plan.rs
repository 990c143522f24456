//! The numbers of a demo.

use std::time::Duration;

use super::fault::Fault;

/// How often each replica sweeps.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// How many orders a shop's database surely closes in a second of the demo, each closed by every replica.
const CLOSINGS: u32 = 1500;

/// How many orders one replica surely closes in a second of the demo, when it has the lock for itself.
const CLOSED_BY_ONE: u32 = 80;

/// How much of everything, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) replicas: u16,
    pub(super) orders: u32,
    seconds: u16,
}

impl Plan {
    pub(super) fn new(replicas: u16, orders: u32, seconds: u16) -> Result<Self, Fault> {
        let needed = (u32::from(replicas) * orders).div_ceil(CLOSINGS).max(orders.div_ceil(CLOSED_BY_ONE));
        if needed > u32::from(seconds) {
            return Err(Fault::Usage(format!(
                "{replicas} replicas with {orders} orders do not fit into {seconds} s; try --seconds {needed}"
            )));
        }
        Ok(Self { replicas, orders, seconds })
    }

    /// The most that the whole demo takes.
    pub(super) fn seconds(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    /// How long it takes until the last order of a half has fallen overdue: two fifths of a half's share, since a
    /// loaded machine takes its time with starting replicas.
    pub(super) fn falling(&self) -> Duration {
        self.seconds() / 5
    }

    /// How long the payment provider takes to answer for one order.
    ///
    /// All answers together take half of the time in which the orders fall overdue: so one replica alone, as with the
    /// lock, is never late; and a sweep takes about half a tick however many orders there are, so that replicas which
    /// begin at the same time surely meet.
    pub(super) fn payment(&self) -> Duration {
        (self.falling() / 2 / self.orders).clamp(Duration::from_millis(1), Duration::from_millis(50))
    }
}
