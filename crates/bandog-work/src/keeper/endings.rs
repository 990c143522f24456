//! How deliveries end.

use std::{collections::HashSet, time::Duration};

use bandog_core::{
    Moment,
    queues::{DeliveryId, SettleEnd, Take},
};
use futures_util::future::OptionFuture;
use tokio::{
    task::{self, JoinError},
    time::{sleep, timeout},
};

use super::{ABORT, DEAD_LINES, Ending, Keeper};
use crate::{delivery::HandlerEnd, meters::End};

impl Keeper {
    /// Hands elements back that have waited for a slot for too long.
    pub(super) fn hand_waiting_back(&mut self, is_over: impl Fn(Moment) -> bool) {
        while self.waiting.front().is_some_and(|(_, since)| is_over(*since)) {
            if let Some((delivered, _)) = self.waiting.pop_front() {
                self.end(delivered.delivery(), SettleEnd::HandBack(Duration::ZERO).into());
            }
        }
    }

    /// The task of a handler has ended, in whatever way.
    pub(super) fn joined(&mut self, ended: Result<(task::Id, Option<HandlerEnd>), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some((delivery, _)) = self.tasks.remove(&id) else { return };
        match ended {
            Ok((_, end)) => self.handled(delivery, end),
            Err(error) if error.is_cancelled() => {} // These workers have ended it.
            Err(_) => {
                let Some(held) = self.held.get(&delivery) else { return };
                let failed = self.options.failed(held.attempt, "the handler has panicked".to_owned());
                self.handled(delivery, Some(failed.into()));
            }
        }
    }

    /// The handler of a delivery has ended.
    pub(super) fn handled(&mut self, delivery: DeliveryId, end: Option<HandlerEnd>) {
        self.receive_all();
        let now = self.now();
        if let Some(begun) = self.held.get(&delivery).and_then(|held| held.begun) {
            let (run, average) = (now.since(begun), self.average.unwrap_or_else(|| now.since(begun)));
            self.average = Some((average * 7 + run) / 8);
        }
        match end {
            Some(end) => self.end(delivery, end),
            None => {
                let Some(held) = self.held.remove(&delivery) else { return };
                match (held.lost(), held.begun) {
                    // A cancelled element is removed when its taker gives it up.
                    (End::Cancelled, _) => {
                        let ending = self.push_ending(delivery, SettleEnd::HandBack(Duration::ZERO).into());
                        ending.counts = End::Cancelled;
                    }
                    // No handler has seen it, so the delivery does not count.
                    (_, None) => _ = self.push_ending(delivery, SettleEnd::HandBack(Duration::ZERO).into()),
                    (end, Some(_)) => self.meters.ended(end),
                }
            }
        }
    }

    fn push_ending(&mut self, delivery: DeliveryId, end: HandlerEnd) -> &mut Ending {
        let (now, place) = (self.now(), self.endings.len());
        self.endings.push(Ending::new(delivery, end, now, now + self.options.lease));
        &mut self.endings[place]
    }

    /// A call or the end of a handler settles a delivery.
    pub(super) fn end(&mut self, delivery: DeliveryId, end: HandlerEnd) {
        if self.held.remove(&delivery).is_some() {
            self.push_ending(delivery, end);
        }
    }

    /// Logs a delivery that has failed. Elements that have become dead have a line in [`DEAD_LINES`], so a flood of them does
    /// not fill the log.
    pub(super) fn log_failure(&mut self, ending: &Ending, end: End) {
        let (queue, id) = (self.shared.name(), ending.delivery.id);
        match (end, ending.error()) {
            (End::Failed, Some(error)) if self.now() >= self.log_dead_at => {
                tracing::warn!(queue, %id, error, "an element is dead: the handler has failed, and it is not delivered again");
                self.log_dead_at = self.now() + DEAD_LINES;
            }
            (End::Failed, Some(error)) => tracing::debug!(queue, %id, error, "an element is dead"),
            (End::Retried, Some(error)) => {
                tracing::debug!(queue, %id, error, "a handler has failed, and its element comes again")
            }
            _ => {}
        }
    }

    /// Counts a delivery that has ended.
    pub(super) fn count(&mut self, end: End) {
        match end {
            End::Done => self.done += 1,
            End::Retried | End::Failed => self.failed += 1,
            End::HandedBack | End::Cancelled | End::Lost => {}
        }
        self.meters.ended(end);
    }

    /// Stops the handlers, and hands all elements back, as far as the store answers in time.
    pub(super) async fn hand_all_back(&mut self) {
        self.subscription = None;
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.joined(ended);
        }
        self.running.abort_all();
        let aborted = async {
            while let Some(ended) = self.running.join_next_with_id().await {
                match ended {
                    // The handler has panicked because it was dropped: that is no failure of it.
                    Err(error) if error.is_panic() => _ = self.tasks.remove(&error.id()),
                    ended => self.joined(ended),
                }
            }
        };
        let _ = timeout(ABORT, aborted).await;
        self.receive_all();
        // A handler that does not get to its next await keeps its element until the lease ends.
        let blocked: HashSet<_> = self.tasks.values().map(|(delivery, _)| *delivery).collect();
        let left = self.held.iter().filter(|(delivery, _)| !blocked.contains(delivery));
        let left: Vec<_> = left.map(|(delivery, held)| (*delivery, held.begun.is_some())).collect();
        for (delivery, was_begun) in left {
            let end = match was_begun && self.options.begins_once {
                true => SettleEnd::Fail("the program has ended while it worked on this".into()),
                false => SettleEnd::HandBack(Duration::ZERO),
            };
            self.end(delivery, end.into());
        }
        self.held.clear();
        let mut until = self.now() + self.shared.timeout() * 2;
        let mut is_answered = timeout(until.since(self.now()), self.hand_taken_back()).await.is_ok();
        is_answered &= self.settle_all(&mut until).await;
        let unanswered = self.unanswered.take().map(|(take, _)| Take { is_repeated: true, at_most: 0, ..take });
        let takes: Vec<Take> = self.late.end().into_iter().chain(unanswered).collect();
        let (queues, report) = (self.shared.queues.clone(), self.report(Duration::ZERO));
        let finish = async {
            if !takes.is_empty() {
                // The store may have elements for these, which did not arrive. Without an answer, their leases end.
                let _ = queues.take(&takes).await;
            }
            report.await;
        };
        is_answered &= timeout(until.since(self.now()), finish).await.is_ok();
        if !is_answered {
            tracing::warn!(
                queue = self.shared.name(),
                "the store does not answer, or transactions keep elements locked: the elements of this program come again \
                           when their leases end"
            );
        }
    }

    /// Hands the elements of the take back that is on its way.
    async fn hand_taken_back(&mut self) {
        let Some(taking) = self.taking.as_mut() else { return };
        let (_, taken) = taking.await;
        self.taking = None;
        if taken.is_ok() {
            self.unanswered = None;
        }
        for delivered in taken.map(|taken| taken.elements).unwrap_or_default() {
            self.push_ending(delivered.delivery(), SettleEnd::HandBack(Duration::ZERO).into());
        }
    }

    /// Settles what has ended. The time until which it tries grows while settlements are answered. Returns whether all is settled.
    async fn settle_all(&mut self, until: &mut Moment) -> bool {
        while !self.endings.is_empty() || self.settling.is_some() {
            let now = self.now();
            if now >= *until {
                return false;
            }
            self.settle_at = now;
            self.begin_settling(now);
            self.begin_extending(now);
            let number = self.endings.len() + self.settling.as_ref().map_or(0, |(endings, _)| endings.len());
            let settles = self.settling.is_some();
            let mut settling = OptionFuture::from(self.settling.as_mut().map(|(_, answer)| answer));
            let mut extending = OptionFuture::from(self.extending.as_mut());
            tokio::select! {
                biased;
                Some(answer) = &mut settling => {
                    let is_answered = answer.is_ok();
                    self.settled(answer);
                    if is_answered && self.endings.len() < number {
                        *until = self.now() + self.shared.timeout() * 2;
                    }
                    // A failed request.
                    if self.settle_at > self.now() {
                        sleep(Duration::from_millis(50)).await;
                    }
                }
                Some(answers) = &mut extending => self.extended(answers),
                // Locked elements.
                () = sleep(Duration::from_millis(50)), if !settles => {}
                () = sleep(until.since(now)) => {}
            }
        }
        true
    }
}
