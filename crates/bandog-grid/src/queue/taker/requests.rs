//! The requests of a taker, and their answers.

use std::{collections::VecDeque, time::Duration};

use bandog_core::{
    Error, Moment, Notifier, Portion, Result, Subscription,
    structures::{Op, Reply, Source, TakeEnd, TakeOp, TakenElement},
};
use tokio::sync::watch;

use super::{POLL, POP_LEASE, SILENT_POLL, Taker};
use crate::{
    queue::message::{Caller, End, Popped, lost},
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
    Take { portion: Portion, exact: Exact, done: Vec<u64>, is_repeated: bool },
}

impl Taker {
    /// Makes one request with all that is due.
    pub(super) async fn request(&mut self) {
        let begin = self.now();
        let parts = self.parts(begin);
        if parts.is_empty() {
            return; // A request without an answer was forgotten. Nothing was sent, so nothing is known of the store.
        }
        let take = parts.iter().any(|part| matches!(part, Part::Take { .. })).then(|| self.begin_take());
        let ops: Vec<Op> = parts.iter().map(|part| Op::new(&self.object.key, self.op(part))).collect();
        let replies = self.object.store.run_always(&ops).await;
        let mut failure = None;
        for (part, reply) in parts.into_iter().zip(replies) {
            let failed = match part {
                Part::Ends(ends) => self.ended(ends, reply),
                Part::Done(ids) => self.reported(ids, reply),
                Part::Renewal(ids) => self.renewed(&ids, begin, reply),
                Part::Take { portion, exact, done, is_repeated } => {
                    self.took((portion, exact, done), is_repeated, begin, reply)
                }
            };
            failure = failed.or(failure);
        }
        self.record(take, failure);
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
            self.renew_at = now + self.lease / 3;
        }
        let done: Vec<u64> = self.done.drain(..self.done.len().min(MAX_IDS)).collect();
        // A request that is old is not made again, because the store may have forgotten it. It only gives back what it may have
        // got, until the leases are over.
        let lease = self.first_lease();
        let is_over = |exact: &Exact| exact.is_old(now) && now >= exact.begin + lease;
        let unanswered = self.unanswered.take().filter(|exact| !is_over(exact));
        let is_repeated = unanswered.is_some();
        if self.asks(now) || is_repeated {
            let portion = self.portions.next(self.callers.len().clamp(1, MAX_ELEMENTS));
            let portion = match &unanswered {
                Some(exact) if exact.is_old(now) => Portion::new(0, 0),
                _ => portion,
            };
            let exact = unanswered.unwrap_or_else(|| self.object.store.exact());
            parts.push(Part::Take { portion, exact, done, is_repeated });
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
            Part::Take { portion, exact, done, .. } => {
                let [at_most, bytes] = portion.limits();
                let (lease, once) = (self.first_lease(), exact.once());
                TakeOp::Take { from, at_most, bytes, lease, once, done: done.clone() }
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
                    let until = belongs.then(|| begin + known(self.lease));
                    if let Some(held) = self.held.get(id) {
                        held.send_replace(until);
                    }
                    if !belongs {
                        self.held.remove(id);
                    }
                }
                None
            }
            Err(error) => {
                self.renew_at = self.renew_at.min(begin + self.first_lease() / 20);
                Some(error)
            }
        }
    }

    /// The lease of a new delivery. If the answer does not arrive, no program can use the elements during this lease, so it is short
    /// also in a queue with long leases. Elements that have arrived get their whole lease at once.
    fn first_lease(&self) -> Duration {
        self.lease.min(POP_LEASE)
    }

    /// Handles the answer to a request for elements.
    fn took(
        &mut self,
        (portion, mut exact, done): (Portion, Exact, Vec<u64>),
        is_repeated: bool,
        begin: Moment,
        reply: Result<Reply>,
    ) -> Option<Error> {
        match reply.and_then(Reply::taken) {
            Ok((elements, is_cut)) => {
                self.portions.answered();
                // A repeated request has the elements of its first attempt only: the store may have more.
                self.must_ask = is_repeated || is_cut || elements.len() >= portion.left().0;
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
                if error.maybe_applied() {
                    self.portions.failed();
                    exact.maybe_applied = true;
                }
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
        let end = leased_at + known(self.first_lease());
        if self.now() >= end {
            // The answer came so late that another program may have the element.
            self.ends.push(End::new(element.id, TakeEnd::Undelivered, end, None));
            self.must_ask = true;
            return;
        }
        let (until, lease) = watch::channel(Some(end));
        let renew_at = if self.first_lease() < self.lease { leased_at } else { leased_at + self.lease / 3 };
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

    /// The number of the request for elements that begins.
    fn begin_take(&mut self) -> u64 {
        self.takes += 1;
        self.status.send_modify(|status| status.begun = self.takes);
        self.takes
    }

    /// Records the success or the failure of a request, and of the request for elements that is part of it.
    fn record(&mut self, take: Option<u64>, failure: Option<Error>) {
        let Some(error) = failure else {
            self.failures = 0;
            self.status.send_modify(|status| {
                status.answered = take.unwrap_or(status.answered);
                status.error = None;
            });
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

/// A lease, without the time by which the clock of this machine may be slower than that of the store.
fn known(lease: Duration) -> Duration {
    lease - lease / 100
}

/// Takes out the callers that do not wait.
fn not_waiting(callers: &mut VecDeque<Caller>) -> Vec<Caller> {
    let (waiting, others) = callers.drain(..).partition(|caller| caller.waits);
    *callers = waiting;
    Vec::from_iter::<VecDeque<Caller>>(others)
}
