//! The deliveries of this program.

use std::time::Duration;

use bandog_core::{
    Error, Moment, Result,
    queues::{Delivered, DeliveryId, Settle, SettleEnd, Settled},
};
use tokio::sync::{oneshot, watch};

use crate::{
    delivery::{HandlerEnd, Until, shortened},
    meters::End,
};

/// A delivery that waits for a slot, or runs.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) attempt: u32,
    pub(super) until: watch::Sender<Until>,
    /// When its handler was started.
    pub(super) begun: Option<Moment>,
    /// The progress that is not written yet.
    pub(super) progress: Option<String>,
    /// Whether a transaction of the handler has locked the element.
    pub(super) is_in_transaction: bool,
}

impl Held {
    /// Of a take that began at this time.
    pub(super) fn new(delivered: &Delivered, until: Moment) -> Self {
        let until = watch::Sender::new(Until::Time(until));
        Self { attempt: delivered.attempt, until, begun: None, progress: None, is_in_transaction: false }
    }

    /// Whether the delivery is lost.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        match *self.until.borrow() {
            Until::Time(until) => until <= now,
            Until::Lost | Until::Cancelled => true,
        }
    }

    /// How a delivery ends that does not belong to its worker any more.
    pub(super) fn lost(&self) -> End {
        match *self.until.borrow() {
            Until::Time(_) | Until::Lost => End::Lost,
            Until::Cancelled => End::Cancelled,
        }
    }
}

/// The time for which a delivery is certain, if its request began at `begun`: a little less than the lease.
pub(super) fn certain(begun: Moment, lease: Duration) -> Moment {
    begun + (lease - (lease / 10).min(Duration::from_millis(500)))
}

/// Number of requests without an answer after which the lease of a settlement is not extended any more. There are more during one
/// lease only if the store answers other requests.
const MAX_UNANSWERED: u32 = 20;

/// A settlement that the store has not answered.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) delivery: DeliveryId,
    end: SettleEnd,
    /// How the delivery has ended if the settlement is applied.
    pub(super) counts: End,
    /// Whether a transaction may have settled the delivery as done.
    is_in_transaction: bool,
    /// Whether the store has refused its text.
    is_refused: bool,
    /// Where a call waits for the answer.
    pub(super) reply: Option<oneshot::Sender<Result<()>>>,
    /// Number of requests that had no answer. It may be applied.
    pub(super) unanswered: u32,
    /// When it is sent next.
    pub(super) at: Moment,
    /// Number of answers [`Settled::Busy`].
    pub(super) was_busy: u32,
    /// When it is given up, if the store does not answer.
    pub(super) until: Moment,
}

impl Ending {
    pub(super) fn new(delivery: DeliveryId, end: HandlerEnd, at: Moment, until: Moment) -> Self {
        let HandlerEnd { end, is_in_transaction } = end;
        let counts = End::from(&end);
        Self {
            delivery,
            end,
            counts,
            is_in_transaction,
            is_refused: false,
            reply: None,
            unanswered: 0,
            at,
            was_busy: 0,
            until,
        }
    }

    /// How the delivery has ended, by the answer of the store. None: that is not known yet.
    pub(super) fn ended(&self, settled: Settled) -> Option<End> {
        match settled {
            Settled::Applied => Some(self.counts),
            Settled::Absent if self.is_in_transaction => Some(End::Done),
            // Its first request was applied.
            Settled::Absent if self.unanswered > 0 => Some(self.counts),
            Settled::Absent | Settled::Lost => Some(End::Lost),
            Settled::Busy => None,
        }
    }

    /// Why it has failed.
    pub(super) fn error(&self) -> Option<&str> {
        match &self.end {
            SettleEnd::Retry(_, error) | SettleEnd::Fail(error) => Some(error),
            SettleEnd::Done(_) | SettleEnd::HandBack(_) => None,
        }
    }

    /// The number of bytes of its text.
    pub(super) fn bytes(&self) -> usize {
        match &self.end {
            SettleEnd::Done(result) => result.len(),
            SettleEnd::Retry(_, error) | SettleEnd::Fail(error) => error.len(),
            SettleEnd::HandBack(_) => 0,
        }
    }

    pub(super) fn settle(&self) -> Settle {
        Settle { delivery: self.delivery, end: self.end.clone() }
    }

    /// Whether its lease is extended while it waits. One that is never answered must not keep its element for ever.
    pub(super) fn is_extended(&self) -> bool {
        self.unanswered <= MAX_UNANSWERED
    }

    /// The same delivery, as one that has failed because the store takes neither its result nor another text of it.
    pub(super) fn refused(mut self, error: &Error) -> Self {
        let error = shortened(format!("the handler has ended, but the store refuses its result: {error}"));
        (self.end, self.counts) = (SettleEnd::Fail(error), End::Failed);
        self.is_refused = true;
        self
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Answers the call that waits.
    pub(super) fn answer(self, result: Result<()>) {
        if let Some(reply) = self.reply {
            // If the receiver is dropped, no caller waits for the answer.
            let _ = reply.send(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use bandog_core::{Fence, queues::ElementId};

    use super::*;

    #[test]
    fn the_answer_of_the_store_says_how_a_delivery_has_ended() {
        let delivery = DeliveryId { id: ElementId { client: 1, number: 1 }, fence: Fence::new(1) };
        let until = Moment::from_nanos(1);
        let ending = |end: HandlerEnd| Ending::new(delivery, end, until, until);
        let ends = |ending: &Ending| {
            assert_eq!(ending.ended(Settled::Busy), None);
            [Settled::Applied, Settled::Absent, Settled::Lost].map(|by| ending.ended(by).unwrap())
        };
        let mut failed = ending(SettleEnd::Fail("no".into()).into());
        assert_eq!(ends(&failed), [End::Failed, End::Lost, End::Lost]);
        failed.unanswered = 1;
        assert_eq!(ends(&failed), [End::Failed, End::Failed, End::Lost]);
        let retry = || SettleEnd::Retry(Duration::ZERO, "not committed".into());
        assert_eq!(ends(&ending(retry().into())), [End::Retried, End::Lost, End::Lost]);
        let committed = ending(HandlerEnd { end: retry(), is_in_transaction: true });
        assert_eq!(ends(&committed), [End::Retried, End::Done, End::Lost]);
    }
}
