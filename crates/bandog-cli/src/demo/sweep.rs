//! The sweep: a replica searches for overdue orders, closes them and returns their stock. If each replica sweeps on its
//! own timer, as in many services, the sweep has a race. If the sweep is a scheduled job, it has no race.

use std::{
    fmt::Display,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bandog::{Fence, schedule::Run, work::WorkQueue};
use tokio::time::sleep;

use super::{
    books::Tick,
    fault::DemoFault,
    shop::{Shop, Write, Writer},
};

/// For this time, the queue refuses an order that a repeated sweep pushes again.
const REMEMBERED: Duration = Duration::from_secs(600);

/// One replica's sweeper.
pub(super) struct Sweeper {
    replica: u16,
    /// The mutex is never contended, because a replica has one thread. The mutex is needed because the job's future
    /// must be `Send`.
    shop: Mutex<Shop>,
    /// Time that the payment provider needs to answer.
    payment: Duration,
    /// The orders whose customers must be notified. Workers of all replicas do this. None: the sweep itself notifies them.
    mails: Option<WorkQueue<u32>>,
}

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swept {
    Done,
    /// The sweep stopped early: its run was cancelled, or a later run has written to the shop. Another run does the
    /// rest of the work.
    Interrupted,
}

impl Sweeper {
    pub(super) fn new(replica: u16, shop: Shop, payment: Duration, mails: Option<WorkQueue<u32>>) -> Self {
        Self { replica, shop: Mutex::new(shop), payment, mails }
    }

    /// Notifies the customer of an order of the queue.
    pub(super) fn notify(&self, order: u32) -> Result<(), String> {
        self.shop().notify_once(order, self.replica).map_err(|fault| fault.to_string())
    }

    /// The shop. Do not keep the guard across an `await`.
    pub(super) fn shop(&self) -> MutexGuard<'_, Shop> {
        self.shop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an error in the shop's database. The demo reads this record. If the record cannot be written, the error
    /// is lost.
    pub(super) fn note(&self, trouble: impl Display) {
        let _ = self.shop().note_trouble(self.replica, &trouble.to_string());
    }

    /// Sweeps once, started by the replica's own timer. `tick` is the time of the sweep, in ms since the Unix epoch.
    pub(super) async fn sweep(&self, tick: i64) -> Result<(), DemoFault> {
        let _sweep = self.begin(Tick { at: tick, attempt: None, fence: None })?;
        self.steps(None).await.map(|_| ())
    }

    /// Sweeps once, started by the scheduler, which runs each tick on one replica. If this function returns an error,
    /// the run has failed.
    pub(super) async fn run(&self, run: &Run) -> Result<(), String> {
        let swept = self.sweep_for(run).await.map_err(|fault| fault.to_string());
        let swept = swept.and_then(|swept| match swept {
            Swept::Done => Ok(()),
            Swept::Interrupted => Err("the run ended in the middle of a sweep".to_owned()),
        });
        swept.inspect_err(|trouble| self.note(trouble))
    }

    /// Sweeps until the end, or until the run is cancelled.
    async fn sweep_for(&self, run: &Run) -> Result<Swept, DemoFault> {
        let (at, fence) = (run.tick().millisecond(), Some(run.fence()));
        let _sweep = self.begin(Tick { at, attempt: Some(run.attempt()), fence })?;
        tokio::select! { biased;
            // After a cancellation, another replica might run the job, so this sweep must stop. `select!` then drops
            // the future of `steps` at an `await`. An order that is closed, and whose stock was not returned, is found by
            // the next run.
            () = run.cancelled() => Ok(Swept::Interrupted),
            swept = self.steps(fence) => swept,
        }
    }

    /// Records that a sweep begins.
    fn begin(&self, tick: Tick) -> Result<Begun<'_>, DemoFault> {
        let sweep = self.shop().begin_sweep(self.replica, tick)?;
        Ok(Begun { sweeper: self, sweep })
    }

    /// The steps of a sweep are: read the overdue orders; wait for the payment provider; close the order, have its
    /// customer notified and return its stock. All but the first are repeated for each order. The race is between the
    /// first two steps: if a replica reads while another replica waits for the payment provider, both find the same
    /// orders. No later step checks whether an order is still unpaid.
    ///
    /// (In one database, a transaction with `update … where state = 'unpaid'` would be sufficient. Larger services have
    /// the orders, the stock and the payments in different systems; they need a lock.)
    async fn steps(&self, fence: Option<Fence>) -> Result<Swept, DemoFault> {
        let writer = Writer { replica: self.replica, fence };
        let found = self.shop().overdue(writer)?;
        let Some(orders) = found else { return Ok(Swept::Interrupted) };
        for order in orders {
            sleep(self.payment).await; // The provider cancels the payment link.
            if self.shop().close(&order, writer)? == Write::Refused {
                return Ok(Swept::Interrupted);
            }
            match &self.mails {
                // A run that repeats this step pushes nothing: the queue remembers the order.
                Some(mails) => mails.push(&order.id).once(order.id.to_string(), REMEMBERED).await.map(drop)?,
                None => self.shop().notify(order.id, self.replica)?,
            }
            if self.shop().give_back(&order, writer)? == Write::Refused {
                return Ok(Swept::Interrupted);
            }
        }
        Ok(Swept::Done)
    }
}

/// A sweep that has begun. Dropping this value records the end of the sweep. This also happens if the run loses its
/// lease and is dropped.
struct Begun<'a> {
    sweeper: &'a Sweeper,
    /// The number of the sweep's row in the database.
    sweep: i64,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // An error is ignored, because the record is for the display only.
        let _ = self.sweeper.shop().end_sweep(self.sweep);
    }
}
