//! The local queues, and claims until the store grants them.
//!
//! Calls of one key wait in one queue, and the slot has at most one claim at the store on their behalf. The claim
//! outlives its waiters while it is in flight; see "A dropped future" in [`super`].

use std::{collections::BTreeMap, mem, time::Duration};

use bandog_core::{Claim, Error, ErrorKind, Key, Moment, Result, Subscription, Verdict};

use super::{
    Engine,
    calls::FIRST_ANSWER,
    msg::{LockReply, LockRequest, Patience, Terms, Ticket, TurnGrant},
    polls::Polls,
    slot::{Attempt, Slot, Stage, Streak, Waiter, WakeUps},
    timers::Timer,
};

/// Maximum interval between two claims of a waiter that no notification wakes; half of it is the minimum.
pub(super) const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum delay before a request without an answer is repeated.
const MAX_BACKOFF: Duration = Duration::from_millis(200);

impl Engine {
    /// A call waits for a lock from now on.
    pub(super) fn lock(&mut self, request: LockRequest) {
        if self.closing.is_some() {
            // The caller may have gone.
            let _ = request.reply.send(Err(Error::closed().during("lock").at(&request.key)));
            return;
        }
        if self.waiting >= self.max_waiting {
            let error = Error::new(
                ErrorKind::Overloaded,
                format!(
                    "{} calls of this client wait for locks already, which is its limit (ClientOptions::max_waiting)",
                    self.waiting
                ),
            );
            // The caller may have gone.
            let _ = request.reply.send(Err(error.during("lock").at(&request.key)));
            return;
        }
        let slot = self.slots.entry(request.key.clone()).or_default();
        let once = matches!(request.patience, Patience::Once);
        match slot.stage {
            Stage::Held(hold) => {
                if request.owner.as_ref().is_some_and(|owner| owner.share(&request.key, request.ticket)) {
                    // The caller may have gone.
                    let _ = request.reply.send(Ok(Some(TurnGrant::Shared)));
                } else if once {
                    self.refuse(request.reply);
                } else if self.is_own_turn(hold, request.caller) {
                    let (key, ticket) = (request.key.clone(), request.ticket);
                    self.enqueue(request);
                    self.watch_for_deadlock(&key, ticket);
                } else {
                    self.enqueue(request);
                }
            }
            Stage::Resting if once => self.refuse(request.reply),
            Stage::Claiming(_) | Stage::Resting => self.enqueue(request),
            Stage::Idle => self.enqueue_and_claim(request),
            Stage::Releasing(streak) => {
                let (key, patience) = (request.key.clone(), request.patience);
                self.enqueue(request);
                self.lock_while_releasing(&key, streak, patience);
            }
            // The call may give up before the next poll, so it claims now.
            Stage::Waiting(_) if request.patience.ends_within(MAX_POLL_INTERVAL * 2) => self.enqueue_and_claim(request),
            Stage::Waiting(_) => self.enqueue(request),
        }
    }

    /// Answers a call that the lock is held.
    fn refuse(&self, reply: LockReply) {
        self.metrics.refused();
        // The caller may have gone.
        let _ = reply.send(Ok(None));
    }

    fn enqueue_and_claim(&mut self, request: LockRequest) {
        let key = request.key.clone();
        self.enqueue(request);
        self.claim_next(&key);
    }

    fn enqueue(&mut self, request: LockRequest) {
        let LockRequest { key, ticket, owner, caller, terms, patience, reply } = request;
        let since = self.now;
        let until = match patience {
            Patience::Once => Some(since + self.timeout),
            Patience::For(wait) => Some(since + wait),
            Patience::Forever => None,
        };
        // Until the store has answered for the first time, no call waits longer than for a first answer.
        let first_answer = (!self.answered).then(|| since + FIRST_ANSWER);
        let wake = [until, first_answer].into_iter().flatten().min();
        let slot = self.slots.entry(key.clone()).or_default();
        let mut waiter = Box::new(Waiter {
            owner,
            caller,
            deadlock_timer: None,
            terms,
            refusals_before: slot.refusals,
            since,
            until,
            timer: None,
            reply,
        });
        if wake.is_some() {
            self.timers.set(Timer::Waiter(key, ticket), &mut waiter.timer, wake);
        }
        slot.queue.insert(ticket, waiter);
        self.waiting += 1;
        if matches!(patience, Patience::Once) {
            slot.try_locks.insert(ticket);
        }
    }

    /// The caller has dropped its future. A claim in flight stays, for other waiters or until its answer ends it.
    pub(super) fn cancel(&mut self, key: &Key, ticket: Ticket) {
        if self.dequeue(key, ticket).is_some() {
            self.clean_up_if_unwanted(key);
        }
    }

    /// A waiter's time limit has passed, or its limit for the store's first answer.
    pub(super) fn waiter_is_due(&mut self, key: &Key, ticket: Ticket, now: Moment) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let Some(waiter) = slot.queue.get_mut(&ticket) else { return };
        waiter.timer = None;
        let expired = waiter.until.is_some_and(|until| now >= until);
        if !expired && self.answered {
            let until = waiter.until;
            self.timers.set(Timer::Waiter(key.clone(), ticket), &mut waiter.timer, until);
            return;
        }
        if waiter.deadlock_timer.is_some() {
            self.warn_of_deadlock(key, ticket);
        }
        let Some(waiter) = self.dequeue(key, ticket) else { return };
        match self.slots[key].timeout_answer(&waiter) {
            Ok(()) => self.refuse(waiter.reply),
            // The caller may have gone.
            Err(error) => drop(waiter.reply.send(Err(error.during("lock").at(key)))),
        }
        self.clean_up_if_unwanted(key);
    }

    /// Removes a waiter from its queue.
    pub(super) fn dequeue(&mut self, key: &Key, ticket: Ticket) -> Option<Box<Waiter>> {
        let slot = self.slots.get_mut(key)?;
        let mut waiter = slot.queue.remove(&ticket)?;
        slot.try_locks.remove(&ticket);
        self.waiting -= 1;
        if slot.queue.is_empty() {
            slot.queue = BTreeMap::new(); // An empty map keeps its last node, and many holds would keep one each.
        }
        if waiter.timer.is_some() {
            self.timers.set(Timer::Waiter(key.clone(), ticket), &mut waiter.timer, None);
        }
        if waiter.deadlock_timer.is_some() {
            self.timers.set(Timer::SelfDeadlock(key.clone(), ticket), &mut waiter.deadlock_timer, None);
        }
        Some(waiter)
    }

    /// If no call waits for the key: gives up its claim, unless it is in flight, and removes the slot, if it has no
    /// hold. A claim in flight is ended by its answer.
    pub(super) fn clean_up_if_unwanted(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if !slot.queue.is_empty() {
            return;
        }
        match mem::take(&mut slot.stage) {
            Stage::Waiting(attempt) => self.abandon(*attempt),
            stage @ (Stage::Claiming(_) | Stage::Held(_) | Stage::Releasing(_)) => slot.stage = stage,
            Stage::Idle | Stage::Resting => {}
        }
        self.remove_if_unused(key);
    }

    fn remove_if_unused(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.queue.is_empty() {
            slot.wake_ups = WakeUps::Off;
        }
        if slot.is_unused() {
            self.timers.set(Timer::Slot(key.clone()), &mut slot.timer, None);
            self.slots.remove(key);
        }
    }

    /// Answers all waiters of the key with this error.
    pub(super) fn fail_all(&mut self, key: &Key, error: &Error) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let tickets: Vec<_> = slot.queue.keys().copied().collect();
        for ticket in tickets {
            let Some(waiter) = self.dequeue(key, ticket) else { continue };
            // The caller may have gone.
            let _ = waiter.reply.send(Err(error.clone()));
        }
        self.clean_up_if_unwanted(key);
    }

    /// Claims the key on the terms of the first waiter. Without a waiter it only cleans up.
    pub(super) fn claim_next(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let Some(terms) = slot.queue.first_key_value().map(|(_, waiter)| waiter.terms) else {
            return self.clean_up_if_unwanted(key);
        };
        let attempt = match mem::take(&mut slot.stage) {
            Stage::Waiting(attempt) if attempt.terms == terms => attempt,
            Stage::Waiting(attempt) => {
                let Attempt { since, is_contended, .. } = *attempt;
                self.abandon(*attempt);
                Box::new(Attempt { since, is_contended, ..*self.new_attempt(key, terms, None, None) })
            }
            Stage::Releasing(streak) => self.new_attempt(key, terms, None, Some(streak)),
            Stage::Idle | Stage::Resting => self.new_attempt(key, terms, None, None),
            stage @ (Stage::Claiming(_) | Stage::Held(_)) => {
                slot.stage = stage;
                return;
            }
        };
        self.send_claim(key, attempt);
    }

    pub(super) fn new_attempt(
        &mut self,
        key: &Key,
        terms: Terms,
        from: Option<Claim>,
        streak: Option<Streak>,
    ) -> Box<Attempt> {
        let (claim, since, polls) = (self.new_claim(key, terms), self.now, Polls::default());
        Box::new(Attempt {
            claim,
            since,
            terms,
            from,
            streak,
            polls,
            is_contended: false,
            has_asked_for_offer: false,
            unsure: false,
            faults: 0,
        })
    }

    pub(super) fn send_claim(&mut self, key: &Key, mut attempt: Box<Attempt>) {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(key) else { return };
        attempt.claim.offers = attempt.asks_for_offer(now, &slot.wake_ups, self.round_trip);
        attempt.has_asked_for_offer |= attempt.claim.offers;
        self.timers.set(Timer::Slot(key.clone()), &mut slot.timer, None);
        slot.notified = false;
        slot.last_covered = slot.try_locks.last().copied();
        self.outgoing.push(attempt.step());
        slot.stage = Stage::Claiming(attempt);
    }

    /// Gives up a claim that is not in flight. If the store may have applied it, it is released.
    fn abandon(&mut self, mut attempt: Attempt) {
        attempt.claim.offers = attempt.has_asked_for_offer;
        if !attempt.unsure {
            // An exchange that was surely not applied has left the old hold as it was.
            if let Some(from) = attempt.from {
                self.release_claim(from, false, None);
            }
            // The store may have noted that this waiter starves, and would offer the key to it. The release clears the
            // note.
            if attempt.claim.offers {
                self.release_claim(attempt.claim, false, None);
            }
            return;
        }
        if let Some(from) = attempt.from {
            self.release_claim(from, true, None);
        }
        self.release_claim(attempt.claim, true, None);
    }

    /// The store has answered a claim.
    pub(super) fn claim_answered(&mut self, asked_at: Moment, claim: &Claim, verdict: Verdict) {
        let Some(attempt) = self.take_attempt(claim) else { return };
        match verdict {
            Verdict::Granted { fences, valid_for } => self.granted(asked_at, *attempt, fences, valid_for),
            Verdict::Busy { retry_after } => self.claim_refused(asked_at, attempt, retry_after),
        }
    }

    /// Removes the attempt of this claim from its slot, which is `Idle` then.
    fn take_attempt(&mut self, claim: &Claim) -> Option<Box<Attempt>> {
        let slot = self.slots.get_mut(&claim.key)?;
        match mem::take(&mut slot.stage) {
            Stage::Claiming(attempt) if attempt.claim.id == claim.id => Some(attempt),
            stage => {
                slot.stage = stage;
                None
            }
        }
    }

    fn claim_refused(&mut self, asked_at: Moment, mut attempt: Box<Attempt>, retry_after: Duration) {
        let key = attempt.claim.key.clone();
        let now = self.now;
        attempt.from = None; // Another holder means that the hold to exchange is lost.
        attempt.streak = None;
        attempt.faults = 0;
        attempt.polls.refused(asked_at, now, retry_after);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.refusals += 1;
        slot.fault = None;
        let notified = mem::take(&mut slot.notified);
        slot.stage = Stage::Waiting(attempt);
        let covered = slot.last_covered.take();
        self.refuse_try_locks(&key, covered);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        if slot.queue.is_empty() {
            return self.clean_up_if_unwanted(&key);
        }
        // The answer may be older than the notification, and than calls that came while the claim was in flight.
        if notified || !slot.try_locks.is_empty() {
            return self.claim_next(&key);
        }
        let had_subscribed = !matches!(slot.wake_ups, WakeUps::Off);
        if let Stage::Waiting(attempt) = &slot.stage
            && !had_subscribed
        {
            slot.wake_ups = WakeUps::Subscribing;
            self.calls.subscribe(attempt.claim.clone(), self.notifications.notifier(&key));
        }
        let subscribed = slot.wake_ups.is_subscribed();
        let poll = if let Stage::Waiting(attempt) = &slot.stage {
            attempt.polls.interval(now, subscribed)
        } else {
            MAX_POLL_INTERVAL
        };
        let delay = (retry_after + Duration::from_millis(1)).min(poll);
        self.timers.set(Timer::Slot(key), &mut slot.timer, Some(now + delay));
        if !had_subscribed {
            self.register_for_wait();
        }
    }

    /// Refuses the calls up to a ticket that want a single answer.
    pub(super) fn refuse_try_locks(&mut self, key: &Key, last: Option<Ticket>) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let Some(last) = last else { return };
        for ticket in slot.try_locks.range(..=last).copied().collect::<Vec<_>>() {
            let Some(waiter) = self.dequeue(key, ticket) else { continue };
            self.refuse(waiter.reply);
        }
    }

    /// The store has refused a claim, or not answered.
    pub(super) fn claim_failed(&mut self, claim: &Claim, error: Error) {
        let Some(mut attempt) = self.take_attempt(claim) else { return };
        let key = claim.key.clone();
        attempt.unsure |= error.maybe_applied();
        attempt.faults += 1;
        let delay = backoff_after(attempt.faults);
        let retryable = error.is_retryable();
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.stage = Stage::Waiting(attempt);
        if !retryable {
            return self.fail_all(&key, &error);
        }
        slot.fault = Some(error);
        if slot.queue.is_empty() {
            return self.clean_up_if_unwanted(&key);
        }
        let retry_at = self.now + delay;
        self.timers.set(Timer::Slot(key), &mut slot.timer, Some(retry_at));
    }

    /// A notification: a client has released the key.
    pub(super) fn notified(&mut self, key: &Key) {
        if let Some(slot) = self.slots.get_mut(key)
            && let Stage::Waiting(attempt) | Stage::Claiming(attempt) = &mut slot.stage
        {
            attempt.is_contended = true;
        }
        self.may_be_free(key);
    }

    /// A waiter claims at once, because the key may be free.
    pub(super) fn may_be_free(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        match slot.stage {
            Stage::Waiting(ref mut attempt) => {
                attempt.polls.notified();
                self.claim_next(key);
            }
            Stage::Claiming(ref mut attempt) => {
                attempt.polls.notified();
                slot.notified = true;
            }
            // A resting client lets others go first. A holder has caused the notification itself.
            Stage::Idle | Stage::Held(_) | Stage::Resting | Stage::Releasing(_) => {}
        }
    }

    /// The backend has answered a subscription.
    pub(super) fn subscribed(&mut self, key: &Key, subscription: Result<Subscription>) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.queue.is_empty() {
            slot.wake_ups = WakeUps::Off;
            return;
        }
        match subscription {
            Ok(subscription) => {
                slot.wake_ups = WakeUps::On(subscription);
                self.may_be_free(key); // A release may have come before the subscription.
            }
            Err(error) => {
                slot.wake_ups = WakeUps::Off;
                if error.kind() == ErrorKind::Denied {
                    tracing::warn!(%key, %error, "cannot subscribe to releases; polling every second");
                    // No further attempt while calls wait.
                    slot.wake_ups = WakeUps::On(Subscription::silent());
                }
            }
        }
    }

    /// The slot's timer: time to poll, to retry, or to end a rest.
    pub(super) fn slot_is_due(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.timer = None;
        self.claim_next(key);
    }

    /// After the key's hold was lost: the next in the queue claims.
    pub(super) fn reclaim(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.stage = Stage::Idle;
        self.claim_next(key);
    }

    pub(super) fn slot(&self, key: &Key) -> Option<&Slot> {
        self.slots.get(key)
    }
}

/// A random time between half of this and all of it.
pub(super) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// The delay before the next attempt: short at first, since most faults are short, then longer, so that clients do not
/// overload a store that is down.
pub(super) fn backoff_after(faults: u32) -> Duration {
    let delay = Duration::from_millis(1) * 2u32.saturating_pow(faults.min(16));
    delay.min(MAX_BACKOFF).mul_f64(0.75 + fastrand::f64() / 2.0)
}
