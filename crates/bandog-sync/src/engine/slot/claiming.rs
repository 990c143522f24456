//! How a slot sends claims, and what it does with answers, notifications and subscriptions until a claim is granted.

use std::{mem, time::Duration};

use bandog_core::{Error, ErrorKind, Moment, Result, Subscription, Verdict};

use super::{
    attempt::{Attempt, OldHold, Queued},
    event::{Effect, SlotContext},
    state::{Claiming, Slot, Stage, WakeUps},
};
use crate::{engine::backoff::backoff_after, lane::Lane, terms::HoldId};

impl Slot {
    /// Claims the key on the terms of the first waiting call, unless a claim is in flight, or that call waits for a hold
    /// of this client. If no call waits, this function only cleans up.
    pub(super) fn claim_next(&mut self, cx: &mut SlotContext) {
        let Some(terms) = self.queue.first().map(|call| call.terms) else {
            return self.clean_up_without_waiters(cx);
        };
        if !self.fits(terms) {
            return self.wait_for_own_hold(cx);
        }
        let attempt = match mem::take(&mut self.stage) {
            Stage::Waiting { attempt, .. } if attempt.terms == terms => attempt,
            Stage::Waiting { attempt: earlier, .. } => {
                end_attempt(&earlier, cx);
                let mut attempt = cx.new_attempt(&self.id, terms);
                attempt.continues_wait_of(&earlier);
                attempt
            }
            Stage::Releasing(streak) => {
                let mut attempt = cx.new_attempt(&self.id, terms);
                attempt.streak = Some(streak);
                attempt
            }
            Stage::Idle | Stage::Resting { .. } => cx.new_attempt(&self.id, terms),
            stage @ Stage::Claiming(_) => {
                self.stage = stage;
                return;
            }
        };
        self.send_claim(attempt, cx);
    }

    /// Ends a rest, or an attempt that is not in flight, because the first waiting call waits for a hold of this client.
    fn wait_for_own_hold(&mut self, cx: &mut SlotContext) {
        match mem::take(&mut self.stage) {
            Stage::Waiting { attempt, .. } => end_attempt(&attempt, cx),
            stage @ (Stage::Claiming(_) | Stage::Releasing(_)) => self.stage = stage,
            Stage::Idle | Stage::Resting { .. } => {}
        }
    }

    /// Sends the next request of an attempt, and enters [`Stage::Claiming`].
    pub(super) fn send_claim(&mut self, mut attempt: Box<Attempt>, cx: &mut SlotContext) {
        let step = attempt.next_step(cx.now, &self.queue, self.wake_ups.expects_notifications(), cx.round_trip);
        cx.emit(Effect::Send(step));
        let last_covered = self.queue.last();
        self.stage = Stage::Claiming(Claiming { attempt, last_covered, is_notified: false });
    }

    /// Handles the end of a claim's request. Does nothing if the slot has no such claim in flight.
    pub(super) fn claimed(
        &mut self,
        claim: HoldId,
        asked_at: Moment,
        answer: Result<Verdict>,
        has_older_call: bool,
        cx: &mut SlotContext,
    ) {
        if self.downgrades_to(claim) {
            return self.downgrade_answered(asked_at, answer, cx);
        }
        let Some(answer) = self.further_claimed(claim, asked_at, answer, cx) else { return };
        let mut claiming = match mem::take(&mut self.stage) {
            Stage::Claiming(claiming) if claiming.attempt.claim.id.number == claim => claiming,
            stage => {
                self.stage = stage;
                return;
            }
        };
        // The store has passed the old hold, or another client holds the key.
        if answer.is_ok()
            && let Some(old) = claiming.attempt.old_hold_has_ended()
        {
            cx.emit(Effect::ReleaseLater(old));
        }
        match answer {
            Ok(Verdict::Granted { fences, valid_for, .. }) => {
                if claiming.attempt.is_first_request() {
                    self.further.granted_at_once();
                }
                self.granted(claiming.attempt, fences, asked_at, valid_for, cx);
            }
            Ok(Verdict::Busy { retry_after, ahead }) => {
                self.refused(claiming, asked_at, retry_after, ahead, has_older_call, cx);
            }
            Err(error) => self.claim_failed(claiming.attempt, error, cx),
        }
    }

    /// Handles the answer that another client holds the key.
    pub(super) fn refused(
        &mut self,
        claiming: Claiming,
        asked_at: Moment,
        retry_after: Duration,
        ahead: Option<u32>,
        has_older_call: bool,
        cx: &mut SlotContext,
    ) {
        let Claiming { mut attempt, last_covered, is_notified } = claiming;
        let now = cx.now;
        attempt.refused(asked_at, now, retry_after, ahead);
        self.refusals += 1;
        self.further.refused();
        self.fault = None;
        let is_off = matches!(self.wake_ups, WakeUps::Off);
        let expects_notifications = is_off || self.wake_ups.expects_notifications();
        let poll = attempt.poll_interval(now, expects_notifications, ahead);
        // The end of an older call of this client for the same fair mutex wakes this call, so no subscription is needed
        // before that.
        let is_woken = has_older_call && matches!(attempt.queued, Queued::InOrder { .. });
        let claim = (is_off && !is_woken).then(|| attempt.claim.clone());
        let is_next = ahead.is_none_or(|ahead| ahead == 0);
        let retry_at = now + if is_next { poll.min(retry_after + Duration::from_millis(1)) } else { poll };
        self.stage = Stage::Waiting { attempt, retry_at };
        let first_end = self.queue.ignore_last_refusal(last_covered);
        while let Some(call) = last_covered.and_then(|last| self.queue.remove_try_lock(last)) {
            cx.emit(Effect::Refuse(call));
        }
        self.refuse_too_many(ahead, cx);
        if self.queue.is_empty() {
            return;
        }
        // If a notification or a `try_lock` call arrived after the claim was sent, the store may have made its decision
        // earlier. So the answer may be outdated, and the key is claimed again. This also holds for a call that arrived then
        // and ends before the next poll: it would end without any answer.
        if is_notified || self.queue.has_try_locks() || first_end.is_some_and(|end| end <= retry_at) {
            return self.claim_next(cx);
        }
        if let Some(claim) = claim {
            self.wake_ups = WakeUps::Subscribing;
            cx.emit(Effect::Subscribe(claim));
        }
        if is_off {
            cx.emit(Effect::WaitBegan);
        }
    }

    /// Ends the call of a fair mutex at its first refusal, if more claims are before it in the store's queue than the
    /// call allows. Its place is released, because then no call needs the claim.
    fn refuse_too_many(&mut self, ahead: Option<u32>, cx: &mut SlotContext) {
        let (Lane::Fair(_), 1, Some(ahead)) = (self.id.lane, self.refusals, ahead) else { return };
        let max = self.queue.first().and_then(|call| call.max_waiters);
        let Some(max) = max.filter(|max| ahead >= max.get()) else { return };
        if let Some(call) = self.queue.remove_first() {
            let message = format!(
                "the number of calls before this call in the queue of the lock is {ahead}, and the limit is {max} (max_waiters)"
            );
            let error = Error::new(ErrorKind::Overloaded, message).during("lock").at(self.key());
            cx.emit(Effect::Fail(call, error));
        }
    }

    /// Handles a claim that was refused with an error, or that the store did not answer. An error that is not retryable
    /// ends the calls of the same kind as the claim.
    pub(super) fn claim_failed(&mut self, mut attempt: Box<Attempt>, error: Error, cx: &mut SlotContext) {
        let kind = attempt.terms.kind;
        attempt.unsure |= error.maybe_applied();
        // The store may still apply an earlier request of this claim.
        let error = if attempt.unsure { error.ambiguous() } else { error };
        attempt.faults += 1;
        let retry_at = cx.now + backoff_after(attempt.faults);
        self.stage = Stage::Waiting { attempt, retry_at };
        if !error.is_retryable() {
            // The store refuses, for example, a claim of more permits than its limit. Another call can succeed.
            for ticket in self.queue.of_kind(kind) {
                if let Some(call) = self.queue.remove(ticket) {
                    cx.emit(Effect::Fail(call, error.clone()));
                }
            }
            return self.claim_next(cx);
        }
        self.fault = Some(error);
    }

    /// Handles a notification that a client has released the key.
    pub(super) fn notified(&mut self, cx: &mut SlotContext) {
        if let Stage::Waiting { attempt, .. } | Stage::Claiming(Claiming { attempt, .. }) = &mut self.stage {
            attempt.notified();
        }
        self.may_be_free(cx);
    }

    /// Claims the key for the waiting calls immediately, because the key may be free now.
    pub(super) fn may_be_free(&mut self, cx: &mut SlotContext) {
        match &mut self.stage {
            Stage::Waiting { attempt, .. } => {
                attempt.polls.notified();
                self.claim_next(cx);
            }
            Stage::Claiming(claiming) => {
                claiming.attempt.polls.notified();
                claiming.is_notified = true;
            }
            // A resting client does not claim the key, so that other clients can get it. In the other two stages, no
            // call waits for an answer of the store.
            Stage::Idle | Stage::Resting { .. } | Stage::Releasing(_) => {}
        }
    }

    /// Handles the backend's answer to a subscription.
    pub(super) fn subscribed(&mut self, subscription: Result<Subscription>, cx: &mut SlotContext) {
        if self.queue.is_empty() {
            self.wake_ups = WakeUps::Off;
            return;
        }
        match subscription {
            Ok(subscription) => {
                self.wake_ups = WakeUps::On(subscription);
                self.may_be_free(cx); // The key may have been released before the subscription began.
            }
            Err(error) if error.kind() == ErrorKind::Denied => {
                // With a silent subscription (one that never notifies), the slot does not try to subscribe again.
                self.wake_ups = WakeUps::On(Subscription::silent());
                cx.emit(Effect::SubscriptionDenied(error));
            }
            Err(_) => self.wake_ups = WakeUps::Off,
        }
    }

    /// Handles the store's answer to a release. `woke_no_client`: the release has notified no other client.
    pub(super) fn released(&mut self, woke_no_client: bool, cx: &mut SlotContext) {
        match &self.stage {
            Stage::Resting { .. } if woke_no_client => self.claim_next(cx),
            // An old claim of this client may have held the key until now. The store has just released that claim.
            Stage::Waiting { .. } => self.may_be_free(cx),
            Stage::Releasing(_) => self.release_ended(),
            Stage::Idle | Stage::Claiming(_) | Stage::Resting { .. } => {}
        }
    }

    /// Leaves [`Stage::Releasing`] after the release was answered or has failed.
    pub(super) fn release_ended(&mut self) {
        if matches!(self.stage, Stage::Releasing(_)) {
            self.stage = Stage::Idle;
        }
    }
}

/// Ends an attempt to get the key. Its claim must not be in flight. The claim is released if the store may
/// have applied it, may have a place for it, or may have a note that this client starves (has waited for a long time).
pub(super) fn end_attempt(attempt: &Attempt, cx: &mut SlotContext) {
    let unsure = attempt.unsure;
    // If the claim was sent in a pass that the store has not applied, the store still has the old hold. So the old
    // hold is released, too.
    if let Some(OldHold { claim, unsure: is_old_unsure }) = attempt.from.clone() {
        cx.emit(Effect::Release { claim, unsure: unsure || is_old_unsure, report: None });
    }
    if let Some(claim) = attempt.claim_to_release() {
        cx.emit(Effect::Release { claim, unsure, report: None });
    }
}
