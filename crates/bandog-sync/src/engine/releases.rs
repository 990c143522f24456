//! The reaper: repeats releases until the store has answered them.
//!
//! A release starts in four cases:
//! - the last guard of a hold has gone ([`Engine::release_hold`]);
//! - a grant came too late, or no call waits for it any more (`granted` in `hold`);
//! - a claim was given up that the store may have applied, or of which it has noted that its waiter starves (`abandon`
//!   in `queue`);
//! - a hold was exchanged while its first request may still be applied ([`Engine::release_later`]).
//!
//! A claim is *unsure* if one of its requests had no answer: the store may have applied that request, or may still do
//! so. It does so no later than one request timeout after the request's error, or after the answer to a later request
//! of the same claim. So the release of an unsure claim is sent twice: at once, and again one timeout after its answer.
//! The second release finds everything that was applied late.

use bandog_core::{Claim, Error, ErrorKind, Moment, Released, Result, Step};
use tokio::sync::oneshot;

use super::{Engine, msg::HoldId, queue::backoff_after, slot::Stage, timers::Timer};

/// A claim whose release the store has not finally answered.
pub(super) struct PendingRelease {
    claim: Claim,
    report: Option<oneshot::Sender<Result<()>>>,
    /// When the release was requested.
    since: Moment,
    /// Whether a request of the claim or of its release may still be applied: the release is sent again after a
    /// timeout.
    unsure: bool,
    /// Whether an earlier release may have been applied. Then it is no loss if a later one finds nothing to release.
    repeated: bool,
    /// The store has answered a release. The next one is the repetition, and the last.
    answered: bool,
    /// Number of releases without an answer.
    faults: u32,
    timer: Option<Moment>,
}

impl Engine {
    /// Releases a claim at once. `report` gets the result, at the latest after the request timeout.
    pub(super) fn release_claim(&mut self, claim: Claim, unsure: bool, report: Option<oneshot::Sender<Result<()>>>) {
        let since = self.now;
        let id = claim.id.number;
        self.outgoing.push(Step::Release(claim.clone()));
        let mut pending =
            PendingRelease { report, since, unsure, repeated: false, answered: false, faults: 0, timer: None, claim };
        if let Some(mut before) = self.releases.remove(&id) {
            // The claim has a later release already, which is replaced. What was unsure then still is.
            self.timers.set(Timer::PendingRelease(id), &mut before.timer, None);
            pending.unsure |= before.unsure;
            pending.repeated |= before.repeated;
        }
        self.releases.insert(id, pending);
    }

    /// Releases a claim that was exchanged, after the last moment at which an unsure request may be applied.
    pub(super) fn release_later(&mut self, claim: Claim) {
        let since = self.now;
        let id = claim.id.number;
        let (report, timer) = (None, None);
        let mut pending =
            PendingRelease { claim, report, since, unsure: true, repeated: true, answered: true, faults: 0, timer };
        self.timers.set(Timer::PendingRelease(id), &mut pending.timer, Some(since + self.timeout));
        self.releases.insert(id, pending);
    }

    /// The store has answered a release.
    pub(super) fn released(&mut self, id: HoldId, released: Released) {
        let now = self.now;
        let Some(pending) = self.releases.get_mut(&id) else { return };
        let key = pending.claim.key.clone();
        if let Some(report) = pending.report.take() {
            let gone = matches!(released, Released::NotHeld) && !pending.repeated;
            // The caller may have gone.
            let _ = report.send(if gone { Err(Error::lost(&key)) } else { Ok(()) });
        }
        if pending.unsure && !pending.answered {
            pending.answered = true;
            self.timers.set(Timer::PendingRelease(id), &mut pending.timer, Some(now + self.timeout));
        } else {
            self.releases.remove(&id);
        }
        let woke_no_client = matches!(released, Released::Freed { others: Some(0) });
        match self.slot(&key).map(|slot| &slot.stage) {
            Some(Stage::Resting) if woke_no_client => self.claim_next(&key),
            // This client's own old claim may have been in the way.
            Some(Stage::Waiting(_)) => self.may_be_free(&key),
            Some(Stage::Releasing(_)) => self.release_ended(&key),
            Some(Stage::Idle | Stage::Claiming(_) | Stage::Held(_) | Stage::Resting) | None => {}
        }
    }

    /// The store has refused a release, or not answered.
    pub(super) fn release_failed(&mut self, id: HoldId, error: Error) {
        let now = self.now;
        let Some(pending) = self.releases.get_mut(&id) else { return };
        let key = pending.claim.key.clone();
        pending.unsure |= error.maybe_applied();
        pending.repeated |= error.maybe_applied();
        pending.faults += 1;
        // If no request may still be applied, the hold has expired after its ttl.
        let has_expired = !pending.unsure && now.since(pending.since) > pending.claim.ttl;
        let repeats = error.is_retryable() && !has_expired;
        let waited_enough = now.since(pending.since) >= self.timeout;
        if let Some(report) = pending.report.take_if(|_| !repeats || waited_enough) {
            // The caller may have gone.
            let _ = report.send(Err(error.clone()));
        }
        if repeats {
            let delay = backoff_after(pending.faults);
            self.timers.set(Timer::PendingRelease(id), &mut pending.timer, Some(now + delay));
            return self.release_ended(&key);
        }
        if error.kind() != ErrorKind::Unavailable {
            tracing::warn!(key = %pending.claim.key, %error, "a lock could not be released; it expires after its ttl");
        }
        self.releases.remove(&id);
        self.release_ended(&key);
    }

    /// The timer: the release is sent again.
    pub(super) fn release_is_due(&mut self, id: HoldId) {
        let Some(pending) = self.releases.get_mut(&id) else { return };
        pending.timer = None;
        self.metrics.reaped();
        self.outgoing.push(Step::Release(pending.claim.clone()));
    }
}
