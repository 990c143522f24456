//! The deliveries of this program.

use std::time::Duration;

use bandog_core::{
    Fence, Moment, Result,
    queues::{Delivered, DeliveryId, Settle, SettleEnd},
};
use tokio::sync::{oneshot, watch};

use crate::delivery::Until;

/// A delivery that waits for a slot, or runs.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) fence: Fence,
    pub(super) attempt: u32,
    pub(super) until: watch::Sender<Until>,
    /// When its handler was started.
    pub(super) begun: Option<Moment>,
    /// The progress that is not written yet.
    pub(super) progress: Option<String>,
}

impl Held {
    /// Of a take that began at this time.
    pub(super) fn new(delivered: &Delivered, until: Moment) -> Self {
        Self {
            fence: delivered.fence,
            attempt: delivered.attempt,
            until: watch::Sender::new(Until::Time(until)),
            begun: None,
            progress: None,
        }
    }

    /// Whether the delivery is lost.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        match *self.until.borrow() {
            Until::Time(until) => until <= now,
            Until::Lost | Until::Cancelled => true,
        }
    }
}

/// The time for which a delivery is certain, if its request began at `begun`: a little less than the lease.
pub(super) fn certain(begun: Moment, lease: Duration) -> Moment {
    begun + (lease - (lease / 10).min(Duration::from_millis(500)))
}

/// A settlement that the store has not answered.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) delivery: DeliveryId,
    end: SettleEnd,
    /// Where a call waits for the answer.
    pub(super) reply: Option<oneshot::Sender<Result<()>>>,
    /// Whether it was sent before, and may be applied.
    pub(super) was_sent: bool,
    /// When it is given up, if the store does not answer.
    pub(super) until: Moment,
}

impl Ending {
    pub(super) fn new(delivery: DeliveryId, end: SettleEnd, until: Moment) -> Self {
        Self { delivery, end, reply: None, was_sent: false, until }
    }

    pub(super) fn settle(&self) -> Settle {
        Settle { delivery: self.delivery, end: self.end.clone() }
    }

    /// Answers the call that waits.
    pub(super) fn answer(self, result: Result<()>) {
        if let Some(reply) = self.reply {
            // If the receiver is dropped, no caller waits for the answer.
            let _ = reply.send(result);
        }
    }
}
