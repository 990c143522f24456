//! The requests of a taker, and their answers.

use std::{collections::VecDeque, time::Duration};

use bandog_core::{
    Error, Moment, Notifier, Result, Subscription,
    structures::{Op, Reply, Source, TakeEnd, TakeOp, TakenElement},
};
use tokio::sync::watch;

use super::{POLL, SILENT_POLL, Taker};
use crate::{
    queue::message::{Caller, End, Popped, Status, lost},
    store::Exact,
};

/// Maximum number of elements of one request.
const MAX_ELEMENTS: usize = 256;
/// Maximum number of ids in one operation.
const MAX_IDS: usize = 1_000;
/// Maximum number of requests for the end of an element that a call waits for.
const MAX_ATTEMPTS: u32 = 3;
/// The pauses after requests that fail.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
];

/// What an operation of a request is for.
enum Part {
    Ends(Vec<End>),
    Done(Vec<u64>),
    Renewal(Vec<u64>),
    Take { at_most: usize, exact: Exact, done: Vec<u64> },
}

impl Taker {
    /// Makes one request with all that is due.
    pub(super) async fn request(&mut self) {
        let begin = self.now();
        let parts = self.parts(begin);
        let ops: Vec<Op> = parts.iter().map(|part| Op::new(&self.object.key, self.op(part))).collect();
        let replies = self.object.store.run(&ops, 0).await;
        let mut failure = None;
        for (part, reply) in parts.into_iter().zip(replies) {
            let failed = match part {
                Part::Ends(ends) => self.ended(ends, reply),
                Part::Done(ids) => self.reported(ids, reply),
                Part::Renewal(ids) => self.renewed(&ids, begin, reply),
                Part::Take { at_most, exact, done } => self.took((at_most, exact, done), begin, reply),
            };
            failure = failed.or(failure);
        }
        self.record(begin, failure);
        let waits = self.callers.iter().any(|caller| caller.waits);
        if waits && !self.must_ask && self.subscription.is_none() && self.subscribing.is_none() {
            self.subscribe();
        }
    }

    /// The operations that are due.
    fn parts(&mut self, now: Moment) -> Vec<Part> {
        let mut parts = Vec::new();
        for end in [TakeEnd::Done, TakeEnd::Undelivered, TakeEnd::Again] {
            let mut ends: Vec<End> = self.ends.extract_if(.., |each| each.end == end).collect();
            // The store puts the last one back first.
            ends.sort_by_key(|each| each.id);
            while !ends.is_empty() {
                parts.push(Part::Ends(ends.split_off(ends.len().saturating_sub(MAX_IDS))));
            }
        }
        if !self.held.is_empty() && now >= self.renew_at {
            let ids: Vec<u64> = self.held.keys().copied().collect();
            parts.extend(ids.chunks(MAX_IDS).map(|ids| Part::Renewal(ids.to_vec())));
        }
        let done: Vec<u64> = self.done.drain(..self.done.len().min(MAX_IDS)).collect();
        let unanswered = self.unanswered.take_if(|exact| !exact.is_old(now));
        if self.asks(now) || unanswered.is_some() {
            let at_most = self.callers.len().clamp(1, MAX_ELEMENTS);
            let exact = unanswered.unwrap_or_else(|| self.object.store.exact());
            parts.push(Part::Take { at_most, exact, done });
        } else if !done.is_empty() {
            parts.push(Part::Done(done));
        }
        parts
    }

    fn op(&self, part: &Part) -> TakeOp {
        let (from, lease) = (self.from.clone(), self.lease);
        match part {
            Part::Ends(ends) => TakeOp::Settle {
                from,
                ids: ends.iter().map(|end| end.id).collect(),
                end: ends.first().map_or(TakeEnd::Again, |end| end.end),
            },
            Part::Done(ids) => TakeOp::Settle { from, ids: ids.clone(), end: TakeEnd::Done },
            Part::Renewal(ids) => TakeOp::Extend { from, ids: ids.clone(), lease },
            Part::Take { at_most, exact, done } => {
                let at_most = u32::try_from(*at_most).unwrap_or(1);
                TakeOp::Take { from, at_most, lease, once: exact.once(), done: done.clone() }
            }
        }
    }

    /// Handles the answer to ends. Returns the error of the request.
    fn ended(&mut self, ends: Vec<End>, reply: Result<Reply>) -> Option<Error> {
        let error = match reply.and_then(Reply::flags) {
            Ok(flags) => {
                let now = self.now();
                for (end, belonged) in ends.into_iter().zip(flags) {
                    let Some(reply) = end.reply else { continue };
                    let answer = match (belonged, end.maybe_applied) {
                        (true, _) => Ok(()),
                        (false, false) => Err(lost()),
                        // The answer to an earlier request was lost. Within the lease, only that request can have ended the
                        // element; an entry of a journal can have been claimed.
                        (false, true) if now < end.until && !matches!(self.from, Source::Group(_)) => Ok(()),
                        (false, true) => Err(Error::unavailable(
                            "the answer to an earlier request was lost: the element is removed, or the lease was over",
                        )
                        .ambiguous()),
                    };
                    let _ = reply.send(answer.map_err(|error| error.at(&self.object.key)));
                }
                return None;
            }
            Err(error) => error,
        };
        for mut end in ends {
            end.attempts += 1;
            end.maybe_applied |= error.maybe_applied();
            let is_last = match &end.reply {
                Some(_) => end.attempts >= MAX_ATTEMPTS,
                None => self.now() >= end.until,
            };
            if (error.is_retryable() || end.reply.is_none()) && !is_last {
                self.ends.push(end);
            } else if let Some(reply) = end.reply {
                let error = if end.maybe_applied { error.clone().ambiguous() } else { error.clone() };
                let _ = reply.send(Err(error));
            }
        }
        Some(error)
    }

    /// Handles the answer to ends that nobody waits for.
    fn reported(&mut self, ids: Vec<u64>, reply: Result<Reply>) -> Option<Error> {
        let error = reply.err()?;
        self.report_again(ids, &error);
        Some(error)
    }

    /// Reports these elements again after this error. A right may be missing only for a while.
    fn report_again(&mut self, ids: Vec<u64>, error: &Error) {
        if error.is_retryable() {
            self.done.extend(ids);
        } else {
            let until = self.now() + self.lease;
            self.ends.extend(ids.into_iter().map(|id| End::new(id, TakeEnd::Done, until, None)));
        }
    }

    fn renewed(&mut self, ids: &[u64], begin: Moment, reply: Result<Reply>) -> Option<Error> {
        match reply.and_then(Reply::flags) {
            Ok(flags) => {
                for (id, belongs) in ids.iter().zip(flags) {
                    let until = belongs.then(|| begin + self.known_lease());
                    if let Some(held) = self.held.get(id) {
                        held.send_replace(until);
                    }
                    if !belongs {
                        self.held.remove(id);
                    }
                }
                self.renew_at = begin + self.lease / 3;
                None
            }
            Err(error) => {
                self.renew_at = begin + self.lease / 20;
                Some(error)
            }
        }
    }

    /// The lease, without the time by which the clock of this machine may be slower than that of the store.
    pub(super) fn known_lease(&self) -> Duration {
        self.lease - self.lease / 100
    }

    /// Handles the answer to a request for elements.
    fn took(
        &mut self,
        (at_most, mut exact, done): (usize, Exact, Vec<u64>),
        begin: Moment,
        reply: Result<Reply>,
    ) -> Option<Error> {
        match reply.and_then(Reply::taken) {
            Ok(elements) => {
                self.must_ask = elements.len() >= at_most;
                let polls_often = self.subscription.as_ref().is_none_or(Subscription::is_silent);
                self.poll_at = begin + if polls_often { SILENT_POLL } else { POLL };
                for element in elements {
                    // The lease of a repeated request began with the first one.
                    self.deliver(element, exact.begin);
                }
                exact.answered();
                if !self.must_ask {
                    for caller in not_waiting(&mut self.callers) {
                        let _ = caller.reply.send(Ok(None));
                    }
                }
                None
            }
            Err(error) => {
                exact.maybe_applied |= error.maybe_applied();
                match exact.maybe_applied {
                    true => self.unanswered = Some(exact),
                    false => exact.answered(), // The store has taken nothing.
                }
                self.report_again(done, &error);
                let callers = match error.is_retryable() {
                    true => not_waiting(&mut self.callers),
                    false => self.callers.drain(..).collect(),
                };
                for caller in callers {
                    let _ = caller.reply.send(Err(error.clone()));
                }
                Some(error)
            }
        }
    }

    /// Gives an element to the first caller that still exists. Without one, the element goes back.
    fn deliver(&mut self, element: TakenElement, leased_at: Moment) {
        let end = leased_at + self.known_lease();
        if self.now() >= end {
            // The answer came so late that another program may have the element.
            self.ends.push(End::new(element.id, TakeEnd::Undelivered, end, None));
            self.must_ask = true;
            return;
        }
        let (until, lease) = watch::channel(Some(end));
        let renew_at = leased_at + self.lease / 3;
        if self.held.is_empty() || renew_at < self.renew_at {
            self.renew_at = renew_at;
        }
        self.held.insert(element.id, until);
        let about = (self.object.key.clone(), self.object.store.clock());
        let mut popped = Some(Popped::new(element, about, lease, self.own.clone()));
        while popped.is_some() {
            let Some(caller) = self.callers.pop_front() else { return };
            popped = match caller.reply.send(Ok(popped)) {
                Ok(()) => None,
                Err(returned) => returned.ok().flatten(),
            };
        }
    }

    /// Records the success or the failure of a request.
    fn record(&mut self, begin: Moment, failure: Option<Error>) {
        let Some(error) = failure else {
            self.failures = 0;
            self.status.send_replace(Status { answered: Some(begin), error: None });
            return;
        };
        let at = usize::try_from(self.failures).unwrap_or(usize::MAX).min(PAUSES.len() - 1);
        self.retry_at = self.now() + PAUSES[at].mul_f64(0.5 + fastrand::f64() / 2.0);
        self.failures = self.failures.saturating_add(1);
        self.must_ask = true;
        if self.failures == 1 && !error.is_retryable() {
            tracing::warn!(queue = %self.object.key, %error, "the store refuses a request of the queue");
        } else if self.failures == 3 {
            tracing::warn!(queue = %self.object.key, %error, "the store does not answer; the queue retries");
        }
        self.status.send_modify(|status| status.error = Some(error));
    }

    /// Subscribes in the background.
    fn subscribe(&mut self) {
        let (changed, from) = (self.changed.clone(), self.from.clone());
        let (structures, key) = (self.object.store.structures.clone(), self.object.key.clone());
        self.subscribing = Some(Box::pin(async move {
            let notifier = Notifier::new(move || changed.notify_one());
            structures.subscribe_elements(&key, from, notifier).await
        }));
    }

    /// Handles the result of a subscription.
    pub(super) fn subscribed(&mut self, subscribed: Result<Subscription>) {
        self.subscribing = None;
        match subscribed {
            Ok(subscription) => {
                self.subscription = Some(subscription);
                // Elements may have come before.
                self.must_ask = true;
            }
            Err(error) => {
                tracing::debug!(queue = %self.object.key, %error, "no notifications; the queue polls");
            }
        }
    }
}

/// Takes out the callers that do not wait.
fn not_waiting(callers: &mut VecDeque<Caller>) -> Vec<Caller> {
    let (waiting, others) = callers.drain(..).partition(|caller| caller.waits);
    *callers = waiting;
    Vec::from_iter::<VecDeque<Caller>>(others)
}
