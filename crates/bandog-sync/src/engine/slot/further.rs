//! Further claims of a semaphore's slot. They are in flight together with the claim of the slot's attempt, so that many
//! free permits are claimed in one round trip.
//!
//! A further claim is sent once, for a call behind the first one, and asks for neither a place nor an offer. If the store
//! grants it, the call that is first in the queue at that time gets the hold. If the store refuses it, nothing remains of
//! it: the attempt of the slot decides when the slot claims again. If the store does not answer it, it is released.
//!
//! Further claims are sent only while the store answers, and has refused no claim since the last one that it granted at
//! once. While other clients hold all permits, they would only be refused.

use bandog_core::{Error, Kind, Moment, Result, Verdict};

use super::{
    attempt::Attempt,
    event::{Effect, SlotContext},
    state::{Claiming, Slot, Stage},
};
use crate::terms::{HoldId, Terms};

/// Maximum number of further claims in flight.
const MAX_FURTHER: usize = 31;

impl Slot {
    /// Whether the limit leaves room for a further claim with these terms.
    pub(super) fn has_room(&self, terms: Terms) -> bool {
        let Kind::Permits { take, of } = terms.kind else { return false };
        let attempted = match &self.stage {
            Stage::Claiming(Claiming { attempt, .. }) => u64::from(attempt.claim.kind.permits()),
            Stage::Idle | Stage::Waiting { .. } | Stage::Resting { .. } | Stage::Releasing(_) => 0,
        };
        let taken = self.holds.permits() + self.further.permits() + attempted;
        !self.further.is_contended() && taken + u64::from(take.get()) <= u64::from(of.get())
    }

    /// Sends further claims: one for each call behind the first one, as long as the calls have the terms of the attempt
    /// in flight, and the limit leaves room for them.
    pub(super) fn claim_further(&mut self, cx: &mut SlotContext) {
        let Stage::Claiming(Claiming { attempt, .. }) = &self.stage else { return };
        let terms = attempt.terms;
        let Kind::Permits { take, of } = terms.kind else { return };
        if self.further.is_contended() || attempt.from.is_some() || attempt.faults > 0 {
            return;
        }
        let take = u64::from(take.get());
        let taken = self.holds.permits() + self.further.permits() + take;
        let room = u64::from(of.get()).saturating_sub(taken) / take;
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(MAX_FURTHER.saturating_sub(self.further.len()));
        // The first call has the attempt, and the calls behind it have the further claims.
        let calls = self.queue.first_with_terms(terms, 1 + self.further.len() + room);
        for _ in 1 + self.further.len()..calls {
            let mut attempt = cx.new_attempt(&self.id, terms);
            cx.emit(Effect::Send(attempt.plain_step()));
            self.further.claims.push(*attempt);
        }
    }

    /// Handles the end of a further claim's request. Returns the answer if the claim is not a further claim.
    pub(super) fn further_claimed(
        &mut self,
        claim: HoldId,
        asked_at: Moment,
        answer: Result<Verdict>,
        cx: &mut SlotContext,
    ) -> Option<Result<Verdict>> {
        let Some(attempt) = self.further.take(claim) else { return Some(answer) };
        match answer {
            Ok(Verdict::Granted { fences, valid_for, .. }) => {
                self.granted(Box::new(attempt), fences, asked_at, valid_for, cx)
            }
            Ok(Verdict::Busy { .. }) => self.further.refused(),
            Err(error) => {
                self.further.refused();
                release_unsure(&attempt, &error, cx);
            }
        }
        None
    }
}

/// Releases a claim whose request had no answer, if the store may have applied that request, or may still apply it.
fn release_unsure(attempt: &Attempt, error: &Error, cx: &mut SlotContext) {
    if error.maybe_applied() {
        cx.emit(Effect::Release { claim: attempt.claim.clone(), unsure: true, report: None });
    }
}
