//! The reaper: releases until the store has answered them.
//!
//! Four ways lead here: a guard has gone ([`Engine::give_back`]), a grant came too late or for nobody, a claim was
//! given up that may have been applied (`abandon` in `queue`), and a hold was exchanged whose first request may yet be
//! applied ([`Engine::release_later`]). What makes it safe: a request is not applied later than the request timeout after
//! its error, or after the answer to a later request of the same claim. So whatever is unsure is released again then.

use bandog_core::{Claim, Error, ErrorKind, Moment, Released, Result, Step};
use tokio::sync::oneshot;

use super::{Engine, msg::HoldId, queue::pause_after, slot::Stage, timers::Timer};

/// A claim that has to be released.
pub(super) struct PendingRelease {
    claim: Claim,
    report: Option<oneshot::Sender<Result<()>>>,
    since: Moment,
    /// A request of the claim or of its release may yet be applied: the release is repeated after a timeout.
    unsure: bool,
    /// An earlier release may have been applied, so that a later one finds nothing to free.
    repeated: bool,
    /// The store has answered a release, so the next one is the repetition, and the last.
    answered: bool,
    faults: u32,
    timer: Option<Moment>,
}

impl Engine {
    /// Releases a claim. `report` is told how it went.
    pub(super) fn release(&mut self, claim: Claim, unsure: bool, report: Option<oneshot::Sender<Result<()>>>) {
        let since = self.now;
        let id = claim.id.number;
        self.out.push(Step::Release(claim.clone()));
        let mut pending =
            PendingRelease { report, since, unsure, repeated: false, answered: false, faults: 0, timer: None, claim };
        if let Some(mut before) = self.releases.remove(&id) {
            // It was owed for later, and is due now as well: what was unsure then is so still.
            self.timers.set(Timer::PendingRelease(id), &mut before.timer, None);
            pending.unsure |= before.unsure;
            pending.repeated |= before.repeated;
        }
        self.releases.insert(id, pending);
    }

    /// Releases a claim that is not held any more, when the last request of it that may yet be applied has been.
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
        let unheard = matches!(released, Released::Freed { others: Some(0) });
        match self.slot(&key).map(|slot| &slot.stage) {
            Some(Stage::Resting) if unheard => self.claim_next(&key),
            // Our own old claim may have been in the way.
            Some(Stage::Waiting(_)) => self.notified(&key),
            Some(Stage::Leaving(_)) => self.left(&key),
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
        // Without a request that may yet be applied, the key has ended by itself when its ttl is over.
        let over = !pending.unsure && now.since(pending.since) > pending.claim.ttl;
        let again = error.is_retryable() && !over;
        let waited_enough = now.since(pending.since) >= self.timeout;
        if let Some(report) = pending.report.take_if(|_| !again || waited_enough) {
            // The caller may have gone.
            let _ = report.send(Err(error.clone()));
        }
        if again {
            let pause = pause_after(pending.faults);
            self.timers.set(Timer::PendingRelease(id), &mut pending.timer, Some(now + pause));
            return self.left(&key);
        }
        if error.kind() != ErrorKind::Unavailable {
            tracing::warn!(key = %pending.claim.key, %error, "a lock could not be given back; it ends with its ttl");
        }
        self.releases.remove(&id);
        self.left(&key);
    }

    /// It is time to release again.
    pub(super) fn release_is_due(&mut self, id: HoldId) {
        let Some(pending) = self.releases.get_mut(&id) else { return };
        pending.timer = None;
        self.metrics.reaped();
        self.out.push(Step::Release(pending.claim.clone()));
    }
}
