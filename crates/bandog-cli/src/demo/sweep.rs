//! The sweep that many a service runs on a timer, with the race left in it; and the same sweep under a lock.

use std::time::Duration;

use bandog::{Error, ErrorKind, Fence, Mutex};
use tokio::time::sleep;

use super::{
    fault::Fault,
    shop::{Shop, Write, Writer},
};

/// One replica's sweeper.
pub(super) struct Sweeper {
    pub(super) replica: u16,
    pub(super) shop: Shop,
    /// None in the half without a lock.
    pub(super) lock: Option<Mutex>,
    /// How long the payment provider takes to answer.
    pub(super) payment: Duration,
}

/// How a tick ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tick {
    Swept,
    /// Another replica has the lock: its sweep does for all.
    Skipped,
    /// The lock was lost in the middle, or a later holder has written already: the rest is that one's.
    Interrupted,
}

impl Sweeper {
    /// What the timer calls.
    pub(super) async fn tick(&self) -> Result<Tick, Fault> {
        match &self.lock {
            None => self.sweep().await,
            Some(lock) => self.sweep_under(lock).await,
        }
    }

    async fn sweep(&self) -> Result<Tick, Fault> {
        let sweep = self.shop.begin_sweep(self.replica)?;
        let tick = self.three_steps(None).await;
        self.shop.end_sweep(sweep)?;
        tick
    }

    /// The cure: whoever gets the lock sweeps, and the others leave this tick to it.
    async fn sweep_under(&self, lock: &Mutex) -> Result<Tick, Fault> {
        let Some(guard) = lock.try_lock().await.map_err(away)? else {
            self.shop.skip(self.replica)?;
            return Ok(Tick::Skipped);
        };
        let sweep = self.shop.begin_sweep(self.replica)?;
        let tick = tokio::select! { biased;
            // Somebody else may hold the lock now. The sweep is dropped where it waits: between two orders.
            () = guard.lost() => Ok(Tick::Interrupted),
            tick = self.three_steps(Some(guard.fence())) => tick,
        };
        self.shop.end_sweep(sweep)?;
        match guard.release().await {
            Err(error) if error.kind() != ErrorKind::Lost => Err(away(error)),
            Ok(()) | Err(_) => tick,
        }
    }

    /// The race is between the first step and the second: whoever looks while others are still asking the payment
    /// provider finds the same orders, and nothing afterwards asks again whether they are still unpaid.
    ///
    /// (In one database, one `update … where state = 'unpaid'` in one transaction would do. Services that grew have the
    /// orders here, the stock there and the payments with somebody else; and then it takes a lock.)
    async fn three_steps(&self, fence: Option<Fence>) -> Result<Tick, Fault> {
        let by = Writer { replica: self.replica, fence };
        for order in self.shop.overdue()? {
            sleep(self.payment).await; // The provider takes the payment link back.
            if self.shop.close(&order, by)? == Write::Refused || self.shop.give_back(&order, by)? == Write::Refused {
                return Ok(Tick::Interrupted);
            }
        }
        Ok(Tick::Swept)
    }
}

fn away(error: Error) -> Fault {
    Fault::Lock(error, String::new())
}
