//! The reaper: releases until the store has answered them.

use bandog_core::{Claim, Error, ErrorKind, Moment, Released, Result, Step};
use tokio::sync::oneshot;

use super::{Engine, msg::HoldId, slot::Stage, timers::Timer, wait::pause_after};

/// A claim that has to be released.
pub(super) struct Owed {
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
    pub(super) fn owe(&mut self, claim: Claim, unsure: bool, report: Option<oneshot::Sender<Result<()>>>) {
        let since = self.now;
        self.out.push(Step::Release(claim.clone()));
        let owed = Owed { report, since, unsure, repeated: false, answered: false, faults: 0, timer: None, claim };
        self.owed.insert(owed.claim.id.number, owed);
    }

    /// Releases a claim that is not held any more, when the last request of it that may yet be applied has been.
    pub(super) fn owe_later(&mut self, claim: Claim) {
        let since = self.now;
        let id = claim.id.number;
        let (report, timer) = (None, None);
        let mut owed = Owed { claim, report, since, unsure: true, repeated: true, answered: true, faults: 0, timer };
        self.timers.set(Timer::Owed(id), &mut owed.timer, Some(since + self.timeout));
        self.owed.insert(id, owed);
    }

    /// The store has answered a release.
    pub(super) fn released(&mut self, id: HoldId, released: Released) {
        let now = self.now;
        let Some(owed) = self.owed.get_mut(&id) else { return };
        let key = owed.claim.key.clone();
        if let Some(report) = owed.report.take() {
            let gone = matches!(released, Released::NotHeld) && !owed.repeated;
            // The caller may have gone.
            let _ = report.send(if gone { Err(Error::lost(&key)) } else { Ok(()) });
        }
        if owed.unsure && !owed.answered {
            owed.answered = true;
            self.timers.set(Timer::Owed(id), &mut owed.timer, Some(now + self.timeout));
        } else {
            self.owed.remove(&id);
        }
        let unheard = matches!(released, Released::Freed { others: Some(0) });
        match self.slot(&key).map(|slot| &slot.stage) {
            Some(Stage::Resting) if unheard => self.ask(&key),
            // Our own old claim may have been in the way.
            Some(Stage::Waiting(_)) => self.rang(&key),
            Some(Stage::Idle | Stage::Asking(_) | Stage::Held(_) | Stage::Resting) | None => {}
        }
    }

    /// The store has refused a release, or not answered.
    pub(super) fn release_failed(&mut self, id: HoldId, error: Error) {
        let now = self.now;
        let Some(owed) = self.owed.get_mut(&id) else { return };
        owed.unsure |= error.maybe_applied();
        owed.repeated |= error.maybe_applied();
        owed.faults += 1;
        // Without a request that may yet be applied, the key has ended by itself when its ttl is over.
        let over = !owed.unsure && now.since(owed.since) > owed.claim.ttl;
        let again = error.is_retryable() && !over;
        let waited_enough = now.since(owed.since) >= self.timeout;
        if let Some(report) = owed.report.take_if(|_| !again || waited_enough) {
            // The caller may have gone.
            let _ = report.send(Err(error.clone()));
        }
        if again {
            let pause = pause_after(owed.faults);
            self.timers.set(Timer::Owed(id), &mut owed.timer, Some(now + pause));
            return;
        }
        if error.kind() != ErrorKind::Unavailable {
            tracing::warn!(key = %owed.claim.key, %error, "a lock could not be given back; it ends with its ttl");
        }
        self.owed.remove(&id);
    }

    /// It is time to release again.
    pub(super) fn debt_is_due(&mut self, id: HoldId) {
        let Some(owed) = self.owed.get_mut(&id) else { return };
        owed.timer = None;
        self.out.push(Step::Release(owed.claim.clone()));
    }
}
