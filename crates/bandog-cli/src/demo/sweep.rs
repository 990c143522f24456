//! The sweep that many a service runs on a timer, with the race left in it; and the same sweep as a scheduled job.

use std::{
    fmt::Display,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog::{Fence, schedule::Run};
use tokio::time::sleep;

use super::{
    books::Tick,
    fault::Fault,
    shop::{Shop, Write, Writer},
};

/// One replica's sweeper.
pub(super) struct Sweeper {
    replica: u16,
    /// Never waited for, since a replica has one thread: it only lets the sweep be a task of the runtime.
    shop: Mutex<Shop>,
    /// How long the payment provider takes to answer.
    payment: Duration,
}

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swept {
    Done,
    /// The run was cancelled, or a later one has written already: the rest is that one's.
    Interrupted,
}

impl Sweeper {
    pub(super) fn new(replica: u16, shop: Shop, payment: Duration) -> Self {
        Self { replica, shop: Mutex::new(shop), payment }
    }

    /// Not to be kept over an `await`.
    pub(super) fn shop(&self) -> MutexGuard<'_, Shop> {
        self.shop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shop's database is the only place where the demo looks; if it fails, there is nobody to tell.
    pub(super) fn note(&self, trouble: impl Display) {
        let _ = self.shop().note_trouble(self.replica, &trouble.to_string());
    }

    /// What each replica's own timer calls.
    pub(super) async fn sweep(&self, tick: i64) -> Result<(), Fault> {
        let _sweep = self.begin(Tick { at: tick, attempt: None, fence: None })?;
        self.three_steps(None).await.map(|_| ())
    }

    /// The cure: what the scheduler calls, for each tick on one replica. An error makes it a failed run.
    pub(super) async fn run(&self, run: &Run) -> Result<(), String> {
        let swept = self.sweep_for(run).await.map_err(|fault| fault.to_string());
        let swept = swept.and_then(|swept| match swept {
            Swept::Done => Ok(()),
            Swept::Interrupted => Err("the run ended in the middle of a sweep".to_owned()),
        });
        swept.inspect_err(|trouble| self.note(trouble))
    }

    async fn sweep_for(&self, run: &Run) -> Result<Swept, Fault> {
        let (at, fence) = (run.tick().millisecond(), Some(run.fence()));
        let _sweep = self.begin(Tick { at, attempt: Some(run.attempt()), fence })?;
        tokio::select! { biased;
            // Another replica may run it now. The sweep is dropped where it waits: between two orders.
            () = run.cancelled() => Ok(Swept::Interrupted),
            swept = self.three_steps(fence) => swept,
        }
    }

    fn begin(&self, tick: Tick) -> Result<Begun<'_>, Fault> {
        let sweep = self.shop().begin_sweep(self.replica, tick)?;
        Ok(Begun { sweeper: self, sweep })
    }

    /// The race is between the first step and the second: whoever looks while others are still asking the payment
    /// provider finds the same orders, and nothing afterwards asks again whether they are still unpaid.
    ///
    /// (In one database, one `update … where state = 'unpaid'` in one transaction would do. Services that grew have the
    /// orders here, the stock there and the payments with somebody else; and then it takes somebody who goes alone.)
    async fn three_steps(&self, fence: Option<Fence>) -> Result<Swept, Fault> {
        let by = Writer { replica: self.replica, fence };
        let found = self.shop().overdue(by)?;
        let Some(orders) = found else { return Ok(Swept::Interrupted) };
        for order in orders {
            sleep(self.payment).await; // The provider takes the payment link back.
            let shop = self.shop();
            if shop.close(&order, by)? == Write::Refused || shop.give_back(&order, by)? == Write::Refused {
                return Ok(Swept::Interrupted);
            }
        }
        Ok(Swept::Done)
    }
}

/// A sweep that goes on until this is dropped, as a run is that has lost its lease.
struct Begun<'a> {
    sweeper: &'a Sweeper,
    sweep: i64,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // It is only shown.
        let _ = self.sweeper.shop().end_sweep(self.sweep);
    }
}
