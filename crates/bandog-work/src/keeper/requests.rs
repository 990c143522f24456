//! The requests of the keeper, and their answers.

use std::{collections::HashSet, time::Duration};

use bandog_core::{
    Error, ErrorKind, Moment, Notifier, PORTION, Portion, Result, Subscription,
    queues::{Bell, Change, DeliveryId, Extend, Extended, LAYOUT, Settled, Take, TakeId, Taken, WorkerRow},
};

use super::{
    CROWD, Ending, Extensions, Held, Keeper, MAX_POLL, MAX_SILENT_POLL, MAX_WAIT, POLL, REPORT, SILENT_POLL,
    held::certain, is_final,
};
use crate::{
    delivery::{Event, Until, lost},
    meters::End,
};

/// Maximum number of settlements of one request.
const MAX_SETTLES: usize = 1000;
/// Maximum number of extensions of one request.
const MAX_EXTENSIONS: usize = 10_000;
/// The longest time until a request that failed is repeated.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The time until the settlement of a locked element is repeated for the first time: most locks are those of other requests, and
/// last for a moment.
const BUSY_PAUSE: Duration = Duration::from_millis(4);
/// Maximum time until the settlement of a locked element is repeated.
const MAX_BUSY_PAUSE: Duration = Duration::from_millis(250);

impl Keeper {
    /// Begins the requests that are due.
    pub(super) fn begin_requests(&mut self, now: Moment) {
        self.hand_waiting_back(|since| now.since(since) >= MAX_WAIT);
        self.begin_settling(now);
        self.begin_extending(now);
        if self.taking.is_none() && now >= self.take_at {
            let wanted = self.wanted(now) as usize;
            let room = wanted.saturating_sub(self.running.len() + self.waiting.len());
            // With many slots, half of them make a request worth its cost.
            if room > 0 && (room * 4 >= wanted || self.waiting.is_empty()) {
                self.begin_taking(now, u32::try_from(room).unwrap_or(u32::MAX));
            }
        }
        if self.subscription.is_none() && self.subscribing.is_none() && self.has_begun && self.failures == 0 {
            let (queues, bell) = (self.shared.queues.clone(), self.bell.clone());
            let which = Bell::Ready { queue: self.shared.key.clone(), taker: self.taker };
            let notifier = Notifier::new(move || bell.notify_one());
            self.subscribing = Some(Box::pin(async move { queues.subscribe_bell(&which, notifier).await }));
        }
        if now >= self.report_at && self.has_begun {
            self.report_at = now + REPORT;
            let report = self.report(REPORT * 3);
            drop(tokio::spawn(report));
        }
    }

    fn begin_taking(&mut self, now: Moment, at_most: u32) {
        let [at_most, bytes] = self.takes_portions.next(at_most as usize).limits();
        let lease = self.options.lease;
        let (take, first) = match self.unanswered.take() {
            Some((take, first)) if now.since(first) < lease => {
                // Later, little is left of the leases, so all is given back: it was not delivered. An element that was asked for
                // alone is too large for the wire, and must not hold up the others.
                let gives_back = now.since(first) >= lease / 2;
                let rest_after = if gives_back && take.at_most == 1 { lease } else { Duration::ZERO };
                let at_most = if gives_back { 0 } else { at_most.min(take.at_most) };
                (Take { is_repeated: true, at_most, bytes: bytes.min(take.bytes), rest_after, ..take }, first)
            }
            forgotten => {
                if let Some((take, _)) = forgotten {
                    self.late.add(&self.shared.queues, take);
                }
                self.takes += 1;
                let take = Take {
                    queue: self.shared.key.clone(),
                    id: TakeId { taker: self.taker, number: self.takes },
                    is_repeated: false,
                    at_most,
                    bytes,
                    rest_after: Duration::ZERO,
                    lease,
                    deliveries: self.options.deliveries,
                };
                (take, now)
            }
        };
        self.unanswered = Some((take.clone(), first));
        let queues = self.shared.queues.clone();
        self.taking = Some(Box::pin(async move {
            let missing = || Err(Error::new(ErrorKind::Corrupt, "the backend did not answer the take"));
            (first, queues.take(&[take]).await.pop().unwrap_or_else(missing))
        }));
    }

    /// The answer to a take that was sent first at this time.
    pub(super) fn taken(&mut self, begun: Moment, taken: Result<Taken>) -> Result<()> {
        self.taking = None;
        let now = self.now();
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) if is_final(&error) && !self.has_begun => return Err(error.at(&self.shared.key)),
            Err(error) => {
                if self.failures == 0 {
                    tracing::warn!(queue = self.shared.name(), %error, "workers cannot take elements; they try again");
                }
                if error.maybe_applied() {
                    self.takes_portions.failed();
                }
                self.failures = self.failures.saturating_add(1);
                self.take_at = now + pause(self.failures);
                self.subscription = None;
                return Ok(());
            }
        };
        if self.failures > 0 {
            tracing::info!(queue = self.shared.name(), "workers take elements again");
        }
        // There may be more than it has asked for: the next one is sent as soon as there is room.
        let answered = self.unanswered.take();
        if let Some((take, _)) = &answered
            && take.is_repeated
            && taken.elements.is_empty()
            && (take.at_most > 0 || !taken.has_more)
        {
            self.late.add(&self.shared.queues, take.clone());
        }
        let is_full = answered.as_ref().is_some_and(|(take, _)| taken.elements.len() >= take.at_most as usize);
        if answered.is_some_and(|(take, _)| take.at_most == 0) && taken.has_more {
            tracing::warn!(
                queue = self.shared.name(),
                timeout = ?self.shared.timeout(),
                "elements did not arrive within the timeout of a request, and went back to the queue uncounted; a longer one \
                 (`timeout` in the URL of the store) or smaller payloads help"
            );
        }
        self.takes_portions.answered();
        let is_first = !self.has_begun;
        (self.failures, self.has_begun) = (0, true);
        self.meters.died(taken.died);
        if taken.died > 0 {
            tracing::warn!(
                queue = self.shared.name(),
                elements = taken.died,
                "elements were delivered too often, and are dead"
            );
        }
        let until = certain(begun, self.options.lease);
        for mut delivered in taken.elements {
            delivered.age += now.since(begun);
            self.held.insert(delivered.delivery(), Held::new(&delivered, until));
            self.waiting.push_back((delivered, now));
        }
        self.extend_at = self.extend_at.min(begun + self.options.lease / 3);
        let is_silent = self.subscription.as_ref().is_none_or(Subscription::is_silent);
        let poll = poll(is_silent, self.crowd, self.options.lease).mul_f64(0.9 + fastrand::f64() / 5.0);
        // A push between the first take and the subscription is found by another take.
        self.take_at = match taken.has_more || is_first || is_full {
            true => now,
            // All programs know the same time, and should not come together.
            false => {
                let next = taken.next.map(|next| next + Duration::from_millis(1 + fastrand::u64(0..10)));
                now + next.unwrap_or(poll).min(poll)
            }
        };
        self.start_waiting();
        Ok(())
    }

    pub(super) fn subscribed(&mut self, subscribed: Result<Subscription>) {
        self.subscribing = None;
        // Without notifications, the workers poll.
        self.subscription = Some(subscribed.unwrap_or_else(|_| Subscription::silent()));
        self.take_at = self.now();
    }

    pub(super) fn begin_settling(&mut self, now: Moment) {
        if self.settling.is_some() || self.endings.is_empty() || now < self.settle_at {
            return;
        }
        // A request settles each element once: an earlier delivery may still wait for its answer.
        let mut elements = HashSet::new();
        let mut portion = self.settles_portions.next(MAX_SETTLES);
        let is_next = |ending: &mut Ending| {
            let is_due = ending.at <= now && !elements.contains(&ending.delivery.id);
            let fits = is_due && portion.takes(ending.bytes());
            fits && elements.insert(ending.delivery.id)
        };
        let endings: Vec<Ending> = self.endings.extract_if(.., is_next).collect();
        if endings.is_empty() {
            return;
        }
        let settles: Vec<_> = endings.iter().map(Ending::settle).collect();
        let (queues, key) = (self.shared.queues.clone(), self.shared.key.clone());
        self.settling = Some((endings, Box::pin(async move { queues.settle(&key, &settles).await })));
    }

    pub(super) fn settled(&mut self, answer: Result<Vec<Settled>>) {
        let Some((mut endings, _)) = self.settling.take() else { return };
        if answer.is_err() {
            endings.iter_mut().for_each(|ending| ending.unanswered += 1);
        }
        match answer {
            Ok(answers) => {
                self.settles_portions.answered();
                for (ending, settled) in endings.into_iter().zip(answers) {
                    let Some(end) = ending.ended(settled) else {
                        self.repeat_later(ending);
                        continue;
                    };
                    self.log_failure(&ending, end);
                    self.count(end);
                    ending.answer(if end == End::Lost { Err(lost()) } else { Ok(()) });
                }
                // The room of the settled ones.
                self.settle_at = self.now();
            }
            Err(error) if error.is_retryable() => {
                if error.maybe_applied() {
                    self.settles_portions.failed();
                }
                self.settle_at = self.now() + pause(1);
                for ending in endings {
                    if ending.until > self.settle_at {
                        self.endings.push(ending);
                        continue;
                    }
                    tracing::warn!(queue = self.shared.name(), id = %ending.delivery.id, %error, "an element may come again");
                    self.count(End::Lost);
                    ending.answer(Err(error.clone().ambiguous()));
                }
            }
            // Each is settled alone, so that one that the store refuses holds up no other.
            Err(error) if endings.len() > 1 => {
                tracing::debug!(queue = self.shared.name(), %error, "settlements are refused together; each is sent alone");
                self.settles_portions.one_by_one();
                self.endings.extend(endings);
            }
            Err(error) if error.kind() == ErrorKind::Misused && !endings.iter().any(Ending::is_refused) => {
                tracing::warn!(queue = self.shared.name(), %error, "the result of an element is refused; the element is dead");
                self.endings.extend(endings.into_iter().map(|ending| ending.refused(&error)));
            }
            Err(error) => {
                tracing::warn!(queue = self.shared.name(), %error, "elements cannot be settled; they come again");
                for ending in endings {
                    self.count(End::Lost);
                    ending.answer(Err(error.clone()));
                }
            }
        }
    }

    /// The element of a settlement is locked. No other worker gets it before the lock ends.
    fn repeat_later(&mut self, mut ending: Ending) {
        let now = self.now();
        if ending.reply.is_none() {
            ending.until = now + self.options.lease;
        } else if ending.until <= now {
            self.count(End::Lost);
            let error = Error::unavailable("a transaction has kept the element locked while the lease lasted");
            let error = if ending.unanswered > 0 { error.ambiguous() } else { error };
            ending.answer(Err(error));
            return;
        }
        ending.at = now + BUSY_PAUSE.saturating_mul(1 << ending.was_busy.min(10)).min(MAX_BUSY_PAUSE);
        ending.was_busy += 1;
        self.endings.push(ending);
    }

    pub(super) fn begin_extending(&mut self, now: Moment) {
        if self.extending.is_some() || now < self.extend_at {
            return;
        }
        self.extend_at = now + self.options.lease / 3;
        self.lose_expired(now);
        let held = self.held.iter().filter(|(_, held)| matches!(*held.until.borrow(), Until::Time(_)));
        let held = held.map(|(id, held)| (*id, held.progress.clone()));
        // What is done is not delivered again because its settlement waits behind others.
        let in_flight = self.settling.iter().flat_map(|(endings, _)| endings);
        let ending = self.endings.iter().chain(in_flight).filter(|ending| ending.is_extended());
        let deliveries: Vec<_> = held.chain(ending.map(|ending| (ending.delivery, None))).collect();
        if deliveries.is_empty() {
            return;
        }
        // Those without a text come first: texts may need long on a slow wire.
        let (mut deliveries, with_text): (Vec<_>, Vec<_>) =
            deliveries.into_iter().partition(|(_, text)| text.is_none());
        deliveries.extend(with_text);
        let (queue, lease, queues) = (self.shared.key.clone(), self.options.lease, self.shared.queues.clone());
        self.extending = Some(Box::pin(async move {
            let (mut answered, mut left) = (Vec::new(), deliveries);
            while !left.is_empty() {
                let bytes = |(_, text): &(DeliveryId, Option<String>)| text.as_ref().map_or(0, String::len);
                let number = Portion::new(MAX_EXTENSIONS, PORTION).first(&left, bytes).len();
                let rest = left.split_off(number);
                let extend = Extend { queue: queue.clone(), deliveries: std::mem::replace(&mut left, rest), lease };
                let answer = queues.extend(&extend).await;
                answered.push((extend.deliveries, answer));
            }
            (now, answered)
        }));
    }

    /// Deliveries whose lease may be over are lost.
    fn lose_expired(&mut self, now: Moment) {
        for held in self.held.values().filter(|held| held.is_over(now)) {
            held.until.send_if_modified(|until| {
                let is_time = matches!(until, Until::Time(_));
                if is_time {
                    *until = Until::Lost;
                }
                is_time
            });
        }
    }

    pub(super) fn extended(&mut self, (begun, answers): Extensions) {
        self.extending = None;
        for (deliveries, answer) in answers {
            self.extended_part(begun, &deliveries, answer);
        }
    }

    /// The answer to an extension that began at this time.
    fn extended_part(
        &mut self,
        begun: Moment,
        deliveries: &[(DeliveryId, Option<String>)],
        answer: Result<Vec<Extended>>,
    ) {
        let now = self.now();
        let answers = match answer {
            Ok(answers) => answers,
            Err(error) => {
                tracing::debug!(queue = self.shared.name(), %error, "leases cannot be extended; they are tried again");
                self.extend_at = now + (self.options.lease / 12).min(MAX_PAUSE);
                return;
            }
        };
        let until = certain(begun, self.options.lease);
        let mut settles = HashSet::new();
        for ((id, progress), extended) in deliveries.iter().zip(answers) {
            let Some(held) = self.held.get_mut(id) else {
                if matches!(extended, Extended::Held | Extended::Busy) {
                    settles.insert(*id);
                }
                continue;
            };
            if extended != Extended::Busy && held.progress == *progress {
                held.progress = None; // It is written.
            }
            let next = match extended {
                Extended::Busy if !held.is_in_transaction => {
                    self.extend_at = self.extend_at.min(now + (self.options.lease / 12).min(MAX_PAUSE));
                    continue;
                }
                // No other worker gets the element before the transaction of the handler ends.
                Extended::Held | Extended::Busy if until > now => Until::Time(until),
                Extended::Held | Extended::Busy | Extended::Lost => Until::Lost,
                Extended::Cancelled => Until::Cancelled,
            };
            held.until.send_if_modified(|until| {
                let changes = matches!(until, Until::Time(_)) && *until != next;
                if changes {
                    *until = next;
                }
                changes
            });
        }
        let in_flight = self.settling.iter_mut().flat_map(|(endings, _)| endings);
        for ending in self.endings.iter_mut().chain(in_flight).filter(|ending| settles.contains(&ending.delivery)) {
            ending.until = ending.until.max(until);
        }
    }

    /// Writes the row of these workers.
    pub(super) fn report(&self, keep: Duration) -> impl Future<Output = ()> + Send + use<> {
        let row = WorkerRow {
            id: self.taker,
            place: format!("{}/{}", self.shared.client.identity(), std::process::id()),
            slots: self.options.slots,
            running: u32::try_from(self.running.len()).unwrap_or(u32::MAX),
            done: self.done,
            failed: self.failed,
            layout: LAYOUT,
        };
        let (queues, key, events) = (self.shared.queues.clone(), self.shared.key.clone(), self.events.clone());
        async move {
            // It is written again later.
            if let Ok(workers) = queues.change(&key, &Change::Worker(row, keep)).await {
                let _ = events.send(Event::Workers(workers));
            }
        }
    }
}

/// The interval of polls, if this number of workers has a free slot. It is at most half a lease, unless the lease is short: so a
/// worker sees the end of each lease of this length in time.
fn poll(is_silent: bool, workers: u32, lease: Duration) -> Duration {
    let (one, most) = if is_silent { (SILENT_POLL, MAX_SILENT_POLL) } else { (POLL, MAX_POLL) };
    (one.saturating_mul(workers) / CROWD).min(most).min(lease / 2).max(one)
}

/// The time until a request is repeated, after this number of failures.
fn pause(failures: u32) -> Duration {
    let pause = Duration::from_millis(25).saturating_mul(1 << failures.min(6)).min(MAX_PAUSE);
    pause.mul_f64(0.75 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_workers_poll_together_as_often_as_a_few() {
        let lease = Duration::from_secs(30);
        let polls = |is_silent, workers| poll(is_silent, workers, lease).as_millis();
        assert_eq!(
            [0, 1, 10, 20, 100, u32::MAX].map(|workers| polls(false, workers)),
            [1000, 1000, 1000, 2000, 10_000, 10_000]
        );
        assert_eq!([0, 10, 20, 100].map(|workers| polls(true, workers)), [250, 250, 500, 1000]);
    }

    #[test]
    fn a_poll_comes_before_the_end_of_a_lease_that_began_after_the_last_one() {
        for seconds in 2..60 {
            let lease = Duration::from_secs(seconds);
            assert!(poll(false, 100, lease) <= lease / 2, "{lease:?}");
        }
    }
}
