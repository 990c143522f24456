//! Claims of a slot, until the store grants them: requests, refusals, notifications.

use std::{mem, time::Duration};

use bandog_core::{Error, ErrorKind, Moment, Result, Subscription, Verdict};

use super::{Call, Claiming, Effect, Slot, SlotContext, Stage, WakeUps, attempt::Attempt};
use crate::engine::{backoff::backoff_after, msg::HoldId};

impl<C: Call> Slot<C> {
    /// Claims the key on the terms of the first waiter. Without a waiter it only cleans up.
    pub(super) fn claim_next(&mut self, cx: &mut SlotContext<C>) {
        let Some(terms) = self.queue.first().map(|waiter| waiter.terms) else {
            return self.clean_up_if_unwanted(cx);
        };
        let attempt = match mem::take(&mut self.stage) {
            Stage::Waiting { attempt, .. } if attempt.terms == terms => attempt,
            Stage::Waiting { attempt: earlier, .. } => {
                abandon(&earlier, cx);
                let mut attempt = cx.new_attempt(&self.key, terms);
                attempt.continues_wait_of(&earlier);
                attempt
            }
            Stage::Releasing(streak) => {
                let mut attempt = cx.new_attempt(&self.key, terms);
                attempt.streak = Some(streak);
                attempt
            }
            Stage::Idle | Stage::Resting { .. } => cx.new_attempt(&self.key, terms),
            stage @ (Stage::Claiming(_) | Stage::Held(_)) => {
                self.stage = stage;
                return;
            }
        };
        self.send_claim(attempt, cx);
    }

    pub(super) fn send_claim(&mut self, mut attempt: Box<Attempt>, cx: &mut SlotContext<C>) {
        cx.emit(Effect::Send(attempt.next_step(cx.now, self.wake_ups.hears_releases(), cx.round_trip)));
        let last_covered = self.queue.last();
        self.stage = Stage::Claiming(Claiming { attempt, last_covered, is_notified: false });
    }

    pub(super) fn claimed(
        &mut self,
        claim: HoldId,
        asked_at: Moment,
        answer: Result<Verdict>,
        cx: &mut SlotContext<C>,
    ) {
        let claiming = match mem::take(&mut self.stage) {
            Stage::Claiming(claiming) if claiming.attempt.claim.id.number == claim => claiming,
            stage => {
                self.stage = stage;
                return;
            }
        };
        match answer {
            Ok(Verdict::Granted { fences, valid_for }) => {
                self.granted(&claiming.attempt, fences, asked_at, valid_for, cx)
            }
            Ok(Verdict::Busy { retry_after }) => self.refused(claiming, asked_at, retry_after, cx),
            Err(error) => self.claim_failed(claiming.attempt, error, cx),
        }
    }

    /// Another client holds the key.
    pub(super) fn refused(
        &mut self,
        claiming: Claiming,
        asked_at: Moment,
        retry_after: Duration,
        cx: &mut SlotContext<C>,
    ) {
        let Claiming { mut attempt, last_covered, is_notified } = claiming;
        let now = cx.now;
        attempt.refused(asked_at, now, retry_after);
        self.refusals += 1;
        self.fault = None;
        let subscribes = matches!(self.wake_ups, WakeUps::Off);
        let hears_releases = subscribes || self.wake_ups.hears_releases();
        let poll = attempt.polls.interval(now, hears_releases);
        let claim = subscribes.then(|| attempt.claim.clone());
        let retry_at = now + (retry_after + Duration::from_millis(1)).min(poll);
        self.stage = Stage::Waiting { attempt, retry_at };
        self.queue.discount_refusal(last_covered);
        while let Some(waiter) = last_covered.and_then(|last| self.queue.remove_try_lock(last)) {
            cx.emit(Effect::Refuse(waiter.call));
        }
        if self.queue.is_empty() {
            return self.clean_up_if_unwanted(cx);
        }
        // The answer may be older than the notification, and than calls that came while the claim was in flight.
        if is_notified || self.queue.has_try_locks() {
            return self.claim_next(cx);
        }
        if let Some(claim) = claim {
            self.wake_ups = WakeUps::Subscribing;
            cx.emit(Effect::Subscribe(claim));
            cx.emit(Effect::WaitBegan);
        }
    }

    /// The store has refused the request, or has not answered.
    pub(super) fn claim_failed(&mut self, mut attempt: Box<Attempt>, error: Error, cx: &mut SlotContext<C>) {
        attempt.unsure |= error.maybe_applied();
        attempt.faults += 1;
        let retry_at = cx.now + backoff_after(attempt.faults);
        self.stage = Stage::Waiting { attempt, retry_at };
        if !error.is_retryable() {
            return self.fail_all(&error, cx);
        }
        self.fault = Some(error);
        self.clean_up_if_unwanted(cx);
    }

    /// A client has released the key.
    pub(super) fn notified(&mut self, cx: &mut SlotContext<C>) {
        if let Stage::Waiting { attempt, .. } | Stage::Claiming(Claiming { attempt, .. }) = &mut self.stage {
            attempt.notified();
        }
        self.may_be_free(cx);
    }

    /// A waiter claims immediately, because the key may be free.
    pub(super) fn may_be_free(&mut self, cx: &mut SlotContext<C>) {
        match &mut self.stage {
            Stage::Waiting { attempt, .. } => {
                attempt.polls.notified();
                self.claim_next(cx);
            }
            Stage::Claiming(claiming) => {
                claiming.attempt.polls.notified();
                claiming.is_notified = true;
            }
            // A resting client lets others go first. A holder has caused the notification itself.
            Stage::Idle | Stage::Held(_) | Stage::Resting { .. } | Stage::Releasing(_) => {}
        }
    }

    pub(super) fn subscribed(&mut self, subscription: Result<Subscription>, cx: &mut SlotContext<C>) {
        if self.queue.is_empty() {
            self.wake_ups = WakeUps::Off;
            return;
        }
        match subscription {
            Ok(subscription) => {
                self.wake_ups = WakeUps::On(subscription);
                self.may_be_free(cx); // A release may have come before the subscription.
            }
            Err(error) if error.kind() == ErrorKind::Denied => {
                // No further attempt while calls wait.
                self.wake_ups = WakeUps::On(Subscription::silent());
                cx.emit(Effect::SubscriptionDenied(error));
            }
            Err(_) => self.wake_ups = WakeUps::Off,
        }
    }

    pub(super) fn released(&mut self, woke_no_client: bool, cx: &mut SlotContext<C>) {
        match &self.stage {
            Stage::Resting { .. } if woke_no_client => self.claim_next(cx),
            // This client's own old claim may have been in the way.
            Stage::Waiting { .. } => self.may_be_free(cx),
            Stage::Releasing(_) => self.release_ended(cx),
            Stage::Idle | Stage::Claiming(_) | Stage::Held(_) | Stage::Resting { .. } => {}
        }
    }

    /// The release of a key without waiters was answered, or has failed.
    pub(super) fn release_ended(&mut self, cx: &mut SlotContext<C>) {
        if matches!(self.stage, Stage::Releasing(_)) {
            self.stage = Stage::Idle;
            self.clean_up_if_unwanted(cx);
        }
    }
}

/// Gives up a claim that is not in flight. If the store may have applied it, it is released.
pub(super) fn abandon<C>(attempt: &Attempt, cx: &mut SlotContext<C>) {
    let unsure = attempt.unsure;
    // An exchange that was surely not applied has left the old hold as it was.
    let claims = attempt.from.clone().into_iter().chain(attempt.claim_to_release());
    for claim in claims {
        cx.emit(Effect::Release { claim, unsure, report: None });
    }
}
