//! The local queues, and claims until the store grants them.

use std::{collections::BTreeMap, mem, time::Duration};

use bandog_core::{Claim, Error, ErrorKind, Key, Moment, Result, Subscription, Verdict};

use super::{
    Engine,
    calls::FIRST_ANSWER,
    msg::{Given, Patience, Reply, Terms, Ticket, Want},
    polls::Polls,
    slot::{Attempt, Slot, Stage, Streak, Waiter, WakeUps},
    timers::Timer,
};

/// The head looks again after half of this to all of it, though no subscription rang.
pub(super) const RECHECK: Duration = Duration::from_secs(1);
/// The longest pause after a request without an answer.
const FAULT_PAUSE: Duration = Duration::from_millis(200);

impl Engine {
    /// A call wants a lock.
    pub(super) fn want(&mut self, want: Want) {
        if self.closing.is_some() {
            // The caller may have gone.
            let _ = want.reply.send(Err(Error::closed().during("lock").at(&want.key)));
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
            let _ = want.reply.send(Err(error.during("lock").at(&want.key)));
            return;
        }
        let slot = self.slots.entry(want.key.clone()).or_default();
        let once = matches!(want.patience, Patience::Once);
        match slot.stage {
            Stage::Held(held) => {
                if want.owner.as_ref().is_some_and(|owner| owner.share(&want.key, want.ticket)) {
                    // The caller may have gone.
                    let _ = want.reply.send(Ok(Some(Given::Part)));
                } else if once {
                    self.refuse(want.reply);
                } else if self.is_own_turn(held, want.caller) {
                    let (key, ticket) = (want.key.clone(), want.ticket);
                    self.enqueue(want);
                    self.suspect(&key, ticket);
                } else {
                    self.enqueue(want);
                }
            }
            Stage::Resting if once => self.refuse(want.reply),
            Stage::Claiming(_) | Stage::Resting => self.enqueue(want),
            Stage::Idle => self.enqueue_and_ask(want),
            Stage::Leaving(streak) => {
                let (key, patience) = (want.key.clone(), want.patience);
                self.enqueue(want);
                self.come_again(&key, streak, patience);
            }
            // Its patience may be over before the next look, so it asks now.
            Stage::Waiting(_) if want.patience.ends_within(RECHECK * 2) => self.enqueue_and_ask(want),
            Stage::Waiting(_) => self.enqueue(want),
        }
    }

    /// Somebody else has the key.
    fn refuse(&self, reply: Reply) {
        self.metrics.refused();
        // The caller may have gone.
        let _ = reply.send(Ok(None));
    }

    fn enqueue_and_ask(&mut self, want: Want) {
        let key = want.key.clone();
        self.enqueue(want);
        self.claim_next(&key);
    }

    fn enqueue(&mut self, want: Want) {
        let Want { key, ticket, owner, caller, terms, patience, reply } = want;
        let since = self.now;
        let until = match patience {
            Patience::Once => Some(since + self.timeout),
            Patience::For(wait) => Some(since + wait),
            Patience::Forever => None,
        };
        // Until the store has ever answered, nobody waits longer than for a first answer.
        let first_answer = (!self.answered).then(|| since + FIRST_ANSWER);
        let wake = [until, first_answer].into_iter().flatten().min();
        let slot = self.slots.entry(key.clone()).or_default();
        let mut waiter = Box::new(Waiter {
            owner,
            caller,
            suspect: None,
            terms,
            refusals_before: slot.refusals,
            since,
            until,
            timer: None,
            reply,
        });
        if wake.is_some() {
            self.timers.set(Timer::Ticket(key, ticket), &mut waiter.timer, wake);
        }
        slot.queue.insert(ticket, waiter);
        self.waiting += 1;
        if matches!(patience, Patience::Once) {
            slot.once.insert(ticket);
        }
    }

    /// The caller has gone.
    pub(super) fn quit(&mut self, key: &Key, ticket: Ticket) {
        if self.dequeue(key, ticket).is_some() {
            self.drop_if_unwanted(key);
        }
    }

    /// A waiter's time is up, or it is time for a first answer.
    pub(super) fn time_is_up(&mut self, key: &Key, ticket: Ticket, now: Moment) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let Some(waiter) = slot.queue.get_mut(&ticket) else { return };
        waiter.timer = None;
        let expired = waiter.until.is_some_and(|until| now >= until);
        if !expired && self.answered {
            let until = waiter.until;
            self.timers.set(Timer::Ticket(key.clone(), ticket), &mut waiter.timer, until);
            return;
        }
        if waiter.suspect.is_some() {
            self.warn_of_itself(key, ticket);
        }
        let Some(waiter) = self.dequeue(key, ticket) else { return };
        match self.slots[key].verdict(&waiter) {
            Ok(()) => self.refuse(waiter.reply),
            // The caller may have gone.
            Err(error) => drop(waiter.reply.send(Err(error.during("lock").at(key)))),
        }
        self.drop_if_unwanted(key);
    }

    /// Takes a waiter out of its queue.
    pub(super) fn dequeue(&mut self, key: &Key, ticket: Ticket) -> Option<Box<Waiter>> {
        let slot = self.slots.get_mut(key)?;
        let mut waiter = slot.queue.remove(&ticket)?;
        slot.once.remove(&ticket);
        self.waiting -= 1;
        if slot.queue.is_empty() {
            slot.queue = BTreeMap::new(); // An empty map keeps its last node, and many holds would keep one each.
        }
        if waiter.timer.is_some() {
            self.timers.set(Timer::Ticket(key.clone(), ticket), &mut waiter.timer, None);
        }
        if waiter.suspect.is_some() {
            self.timers.set(Timer::Suspect(key.clone(), ticket), &mut waiter.suspect, None);
        }
        Some(waiter)
    }

    /// Ends what nobody waits for any more. A claim on its way is ended by its answer.
    pub(super) fn drop_if_unwanted(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if !slot.queue.is_empty() {
            return;
        }
        match mem::take(&mut slot.stage) {
            Stage::Waiting(attempt) => self.abandon(*attempt),
            stage @ (Stage::Claiming(_) | Stage::Held(_) | Stage::Leaving(_)) => slot.stage = stage,
            Stage::Idle | Stage::Resting => {}
        }
        self.forget_if_over(key);
    }

    fn forget_if_over(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.queue.is_empty() {
            slot.wake_ups = WakeUps::Off;
        }
        if slot.is_over() {
            self.timers.set(Timer::Slot(key.clone()), &mut slot.timer, None);
            self.slots.remove(key);
        }
    }

    /// Answers everybody who waits for the key with this error.
    pub(super) fn refuse_all(&mut self, key: &Key, error: &Error) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let tickets: Vec<_> = slot.queue.keys().copied().collect();
        for ticket in tickets {
            let Some(waiter) = self.dequeue(key, ticket) else { continue };
            // The caller may have gone.
            let _ = waiter.reply.send(Err(error.clone()));
        }
        self.drop_if_unwanted(key);
    }

    /// Claims the key on the terms of the first in the queue. If nobody waits, it only cleans up.
    pub(super) fn claim_next(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let Some(terms) = slot.queue.first_key_value().map(|(_, waiter)| waiter.terms) else {
            return self.drop_if_unwanted(key);
        };
        let attempt = match mem::take(&mut slot.stage) {
            Stage::Waiting(attempt) if attempt.terms == terms => attempt,
            Stage::Waiting(attempt) => {
                let since = attempt.since;
                self.abandon(*attempt);
                Box::new(Attempt { since, ..*self.attempt(key, terms, None, None) })
            }
            Stage::Leaving(streak) => self.attempt(key, terms, None, Some(streak)),
            Stage::Idle | Stage::Resting => self.attempt(key, terms, None, None),
            stage @ (Stage::Claiming(_) | Stage::Held(_)) => {
                slot.stage = stage;
                return;
            }
        };
        self.send(key, attempt);
    }

    pub(super) fn attempt(
        &mut self,
        key: &Key,
        terms: Terms,
        from: Option<Claim>,
        streak: Option<Streak>,
    ) -> Box<Attempt> {
        let (claim, since, polls) = (self.new_claim(key, terms), self.now, Polls::default());
        Box::new(Attempt { claim, since, terms, from, streak, polls, unsure: false, faults: 0 })
    }

    pub(super) fn send(&mut self, key: &Key, mut attempt: Box<Attempt>) {
        let now = self.now;
        let Some(slot) = self.slots.get_mut(key) else { return };
        attempt.claim.offers = attempt.starves(now, &slot.wake_ups);
        self.timers.set(Timer::Slot(key.clone()), &mut slot.timer, None);
        slot.notified = false;
        slot.covered = slot.once.last().copied();
        self.out.push(attempt.step());
        slot.stage = Stage::Claiming(attempt);
    }

    /// Gives up a claim that is not on its way: if it may have been applied all the same, it is released.
    fn abandon(&mut self, attempt: Attempt) {
        if !attempt.unsure {
            // A pass that surely did not happen has left its hold where it was.
            if let Some(from) = attempt.from {
                self.release(from, false, None);
            }
            // It does not want an offer any more, which would keep the key from others.
            if attempt.claim.offers {
                self.release(attempt.claim, false, None);
            }
            return;
        }
        if let Some(from) = attempt.from {
            self.release(from, true, None);
        }
        self.release(attempt.claim, true, None);
    }

    /// The store has answered a claim.
    pub(super) fn claimed(&mut self, asked_at: Moment, claim: &Claim, verdict: Verdict) {
        let Some(attempt) = self.take_attempt(claim) else { return };
        match verdict {
            Verdict::Granted { fences, valid_for } => self.granted(asked_at, *attempt, fences, valid_for),
            Verdict::Busy { retry_after } => self.busy(asked_at, attempt, retry_after),
        }
    }

    /// The attempt that this claim is; its slot is idle then.
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

    fn busy(&mut self, asked_at: Moment, mut attempt: Box<Attempt>, retry_after: Duration) {
        let key = attempt.claim.key.clone();
        let now = self.now;
        attempt.from = None; // Whoever is told of another holder has lost the hold that it wanted to pass on.
        attempt.streak = None;
        attempt.faults = 0;
        attempt.polls.refused(asked_at, now, retry_after);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.refusals += 1;
        slot.fault = None;
        let notified = mem::take(&mut slot.notified);
        slot.stage = Stage::Waiting(attempt);
        let covered = slot.covered.take();
        self.refuse_once(&key, covered);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        if slot.queue.is_empty() {
            return self.drop_if_unwanted(&key);
        }
        // The answer may be older than the subscription, and than those who came while the claim was on its way.
        if notified || !slot.once.is_empty() {
            return self.claim_next(&key);
        }
        let had_subscribed = !matches!(slot.wake_ups, WakeUps::Off);
        if !had_subscribed {
            slot.wake_ups = WakeUps::Subscribing;
            self.calls.subscribe(key.clone(), self.notifications.notifier(&key));
        }
        let subscribed = slot.wake_ups.is_subscribed();
        let poll =
            if let Stage::Waiting(attempt) = &slot.stage { attempt.polls.pause(now, subscribed) } else { RECHECK };
        let pause = (retry_after + Duration::from_millis(1)).min(poll);
        self.timers.set(Timer::Slot(key), &mut slot.timer, Some(now + pause));
        if !had_subscribed {
            self.noticed_wait();
        }
    }

    /// Answers those up to a ticket who wanted one answer only: somebody else has the key.
    pub(super) fn refuse_once(&mut self, key: &Key, last: Option<Ticket>) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let Some(last) = last else { return };
        for ticket in slot.once.range(..=last).copied().collect::<Vec<_>>() {
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
        let pause = pause_after(attempt.faults);
        let retryable = error.is_retryable();
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.stage = Stage::Waiting(attempt);
        if !retryable {
            return self.refuse_all(&key, &error);
        }
        slot.fault = Some(error);
        if slot.queue.is_empty() {
            return self.drop_if_unwanted(&key);
        }
        let again = self.now + pause;
        self.timers.set(Timer::Slot(key), &mut slot.timer, Some(again));
    }

    /// The subscription has rung: the key may be free.
    pub(super) fn notified(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        match slot.stage {
            Stage::Waiting(ref mut attempt) => {
                attempt.polls.woken();
                self.claim_next(key);
            }
            Stage::Claiming(ref mut attempt) => {
                attempt.polls.woken();
                slot.notified = true;
            }
            // A client that rests lets others go first; one that holds has published the release itself.
            Stage::Idle | Stage::Held(_) | Stage::Resting | Stage::Leaving(_) => {}
        }
    }

    /// The backend listens, or says why not.
    pub(super) fn subscribed(&mut self, key: &Key, subscription: Result<Subscription>) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.queue.is_empty() {
            slot.wake_ups = WakeUps::Off;
            return;
        }
        match subscription {
            Ok(subscription) => {
                slot.wake_ups = WakeUps::On(subscription);
                self.notified(key); // A release may have slipped in before the subscription was armed.
            }
            Err(error) => {
                slot.wake_ups = WakeUps::Off;
                if error.kind() == ErrorKind::Denied {
                    tracing::warn!(%key, %error, "cannot listen for releases; looking again every second");
                    slot.wake_ups = WakeUps::On(Subscription::silent()); // It is not asked for again while somebody waits.
                }
            }
        }
    }

    /// A pause is over.
    pub(super) fn slot_is_due(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.timer = None;
        self.claim_next(key);
    }

    /// After a hold of the key has ended: the next in the queue asks the store.
    pub(super) fn reclaim(&mut self, key: &Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.stage = Stage::Idle;
        self.claim_next(key);
    }

    pub(super) fn slot(&self, key: &Key) -> Option<&Slot> {
        self.slots.get(key)
    }
}

/// Half of this to all of it.
pub(super) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Short at first, since most faults are over at once; then longer, so that nobody hammers a store that is down.
pub(super) fn pause_after(faults: u32) -> Duration {
    let pause = Duration::from_millis(1) * 2u32.saturating_pow(faults.min(16));
    pause.min(FAULT_PAUSE).mul_f64(0.75 + fastrand::f64() / 2.0)
}
