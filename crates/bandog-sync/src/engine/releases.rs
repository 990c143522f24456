//! The reaper: repeats releases until the store has answered them.
//!
//! A release starts in four cases:
//! - the last guard of a hold has gone;
//! - a grant came too late, or no call waits for it any more;
//! - a claim was given up that the store may have applied, or of which it has noted that its waiter starves;
//! - a hold was exchanged while its first request may still be applied ([`Releases::start_later`]).
//!
//! A claim is *unsure* if one of its requests had no answer: the store may have applied that request, or may still do
//! so. It does so no later than one request timeout after the request's error, or after the answer to a later request
//! of the same claim. So the release of an unsure claim is sent twice: immediately, and again one timeout after its
//! answer. The second release finds everything that was applied late.
//!
//! Like a slot, this is a state machine without I/O.

use std::{collections::BTreeSet, time::Duration};

use bandog_core::{Claim, Error, ErrorKind, Key, Moment, Released, Result, Step};

use super::{Map, backoff::backoff_after, msg::HoldId, slot::Report};

/// A claim whose release the store has not finally answered.
struct PendingRelease {
    claim: Claim,
    report: Option<Report>,
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
    /// When the release is sent again.
    due: Option<Moment>,
}

/// What the answer to a release means.
pub(super) struct ReleaseAnswer {
    pub(super) key: Key,
    /// The result for the caller of the release, if it is known now.
    pub(super) report: Option<(Report, Result<()>)>,
    /// A release that the store refused. The hold expires after its ttl.
    pub(super) refused: Option<Error>,
}

/// All releases that the store has not finally answered.
pub(super) struct Releases {
    pending: Map<HoldId, PendingRelease>,
    due: BTreeSet<(Moment, HoldId)>,
    /// Timeout of a request.
    timeout: Duration,
}

impl Releases {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { pending: Map::default(), due: BTreeSet::new(), timeout }
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Releases a claim with the step that it returns. `report` gets the result, at the latest after the request
    /// timeout. `unsure`: a request of the claim may still be applied.
    pub(super) fn start(&mut self, claim: Claim, unsure: bool, report: Option<Report>, now: Moment) -> Step {
        let (id, step) = (claim.id.number, Step::Release(claim.clone()));
        let (repeated, answered, faults, due) = (false, false, 0, None);
        let mut pending = PendingRelease { claim, report, since: now, unsure, repeated, answered, faults, due };
        if let Some(earlier) = self.pending.remove(&id) {
            // The claim has a later release already, which is replaced. What was unsure then still is.
            if let Some(moment) = earlier.due {
                self.due.remove(&(moment, id));
            }
            pending.unsure |= earlier.unsure;
            pending.repeated |= earlier.repeated;
        }
        self.pending.insert(id, pending);
        step
    }

    /// Releases a claim that was exchanged, after the last moment at which an unsure request may be applied.
    pub(super) fn start_later(&mut self, claim: Claim, now: Moment) {
        let id = claim.id.number;
        let (report, unsure, repeated, answered, faults) = (None, true, true, true, 0);
        self.pending
            .insert(id, PendingRelease { claim, report, since: now, unsure, repeated, answered, faults, due: None });
        self.schedule(id, now + self.timeout);
    }

    /// The store has answered a release.
    pub(super) fn answered(&mut self, id: HoldId, released: Released, now: Moment) -> Option<ReleaseAnswer> {
        let pending = self.pending.get_mut(&id)?;
        let key = pending.claim.key.clone();
        let is_gone = matches!(released, Released::NotHeld) && !pending.repeated;
        let result = if is_gone { Err(Error::lost(&key)) } else { Ok(()) };
        let report = pending.report.take().map(|report| (report, result));
        if pending.unsure && !pending.answered {
            pending.answered = true;
            self.schedule(id, now + self.timeout);
        } else {
            self.pending.remove(&id);
        }
        Some(ReleaseAnswer { key, report, refused: None })
    }

    /// The store has refused a release, or has not answered it.
    pub(super) fn failed(&mut self, id: HoldId, error: Error, now: Moment) -> Option<ReleaseAnswer> {
        let pending = self.pending.get_mut(&id)?;
        let key = pending.claim.key.clone();
        pending.unsure |= error.maybe_applied();
        pending.repeated |= error.maybe_applied();
        pending.faults += 1;
        let age = now.since(pending.since);
        // If no request may still be applied, the hold has expired after its ttl.
        let has_expired = !pending.unsure && age > pending.claim.ttl;
        let repeats = error.is_retryable() && !has_expired;
        let report = pending.report.take_if(|_| !repeats || age >= self.timeout);
        let report = report.map(|report| (report, Err(error.clone())));
        if repeats {
            let delay = backoff_after(pending.faults);
            self.schedule(id, now + delay);
            return Some(ReleaseAnswer { key, report, refused: None });
        }
        self.pending.remove(&id);
        let refused = (error.kind() != ErrorKind::Unavailable).then_some(error);
        Some(ReleaseAnswer { key, report, refused })
    }

    /// When [`Releases::take_due`] has a release to send again.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(moment, _)| *moment)
    }

    /// The next release that is sent again.
    pub(super) fn take_due(&mut self, now: Moment) -> Option<Step> {
        let (moment, id) = *self.due.first()?;
        if moment > now {
            return None;
        }
        self.due.pop_first();
        let pending = self.pending.get_mut(&id)?;
        pending.due = None;
        Some(Step::Release(pending.claim.clone()))
    }

    fn schedule(&mut self, id: HoldId, moment: Moment) {
        if let Some(pending) = self.pending.get_mut(&id) {
            let earlier = pending.due.replace(moment);
            self.due.extend([(moment, id)]);
            if let Some(earlier) = earlier.filter(|earlier| *earlier != moment) {
                self.due.remove(&(earlier, id));
            }
        }
    }
}
