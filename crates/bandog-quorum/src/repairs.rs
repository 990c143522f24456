//! The holds that a node has lost although a majority of the nodes has them. They are claimed again at this node.
//!
//! A repair never lets two claims hold a lock. The node grants it only if no other claim holds the lock there. So it is
//! one more promise of this node, and it takes no promise back. The repair can come late, when its claim no longer holds
//! the lock: then it is in the way of other claims at this node, until it is released or expires. It does not bring the
//! hold back, because a lost turn stays lost.
//!
//! The claim of a repair has the rest of the hold's ttl. It can arrive after a renewal that has given the hold more time.
//! So a node never shortens a hold because of a claim (`Step::Claim`).
//!
//! A node without a vote is repaired, too: it has not promised the lock to others since its start, and a claim that it
//! had promised the lock to before its start cannot hold the lock while a majority has our hold.

use std::collections::{HashMap, hash_map::Entry};

use bandog_core::{Answer, Claim, ClaimId, Error, Kind, Moment, Result, Verdict};

/// Maximum number of holds of one node that are repaired at the same time. The next renewal finds the others.
const MAX_REPAIRS: usize = 10_000;
/// Maximum number of claims in one request.
const BATCH: usize = 32;

/// The repairs of one node. Each one ends with the hold that the renewal gave to the other nodes.
#[derive(Debug, Default)]
pub(crate) struct Repairs(HashMap<ClaimId, Repair>);

#[derive(Debug)]
struct Repair {
    claim: Claim,
    /// The end of the hold.
    until: Moment,
    phase: Phase,
    /// Whether the node might have applied a request of this repair.
    maybe_applied: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// The claim must be sent.
    Due,
    /// The claim was sent, and has no answer.
    Sent,
    /// Another claim holds the lock at this node.
    Refused,
    /// The claim is not sent any more, because the hold is lost. The node might have applied an earlier request.
    Stopped,
}

impl Repairs {
    /// Adds a hold that the node does not have. `claim` is the claim of the renewal.
    pub(crate) fn add(&mut self, claim: &Claim, until: Moment) {
        let maybe_applied = self.0.get(&claim.id).is_some_and(|repair| repair.maybe_applied);
        if self.0.len() < MAX_REPAIRS || self.0.contains_key(&claim.id) {
            // A reader must pass the writers that wait, because it holds the lock already.
            let claim = Claim { joins: false, offers: matches!(claim.kind, Kind::Read), ..claim.clone() };
            self.0.insert(claim.id, Repair { claim, until, phase: Phase::Due, maybe_applied });
        }
    }

    /// Ends the repair of a claim that is released or passed. Returns true if the node might have applied the repair,
    /// or might still apply it: then the claim must be released after it.
    pub(crate) fn end(&mut self, id: ClaimId) -> bool {
        self.0.remove(&id).is_some_and(|repair| repair.maybe_applied)
    }

    /// Sends the claim of a lost hold no more. If the node has the hold again, it keeps it until the client releases it.
    pub(crate) fn stop(&mut self, id: ClaimId) {
        if let Entry::Occupied(mut repair) = self.0.entry(id) {
            if repair.get().maybe_applied {
                repair.get_mut().phase = Phase::Stopped;
            } else {
                repair.remove();
            }
        }
    }

    /// The next claims to send. None of them is in the list again before [`Repairs::retry`].
    pub(crate) fn due(&mut self, now: Moment) -> Vec<Claim> {
        self.0.retain(|_, repair| now < repair.until);
        let due = self.0.values_mut().filter(|repair| repair.phase == Phase::Due).take(BATCH);
        let send = |repair: &mut Repair| {
            (repair.phase, repair.maybe_applied) = (Phase::Sent, true);
            // The hold of a fixed lease must not become longer.
            Claim { ttl: repair.until.since(now), ..repair.claim.clone() }
        };
        due.map(send).collect()
    }

    /// Records the answer to the claim with this id. Without an answer, the next renewal adds the hold again if the node
    /// does not have it.
    pub(crate) fn answered(&mut self, id: ClaimId, answer: &Result<Answer>) {
        let Some(repair) = self.0.get_mut(&id) else { return };
        match answer {
            Ok(Answer::Claimed(Verdict::Busy { .. })) if repair.phase == Phase::Stopped => {}
            Ok(Answer::Claimed(Verdict::Busy { .. })) => repair.phase = Phase::Refused,
            Err(error) if error.is_retryable() => {}
            Ok(Answer::Claimed(Verdict::Granted { .. }) | Answer::Released(_)) | Err(_) => {
                self.0.remove(&id);
            }
        }
    }

    /// Lets the refused claims be sent again. The other claim is mostly one that has no majority, and that is handed
    /// back soon.
    pub(crate) fn retry(&mut self) {
        for repair in self.0.values_mut().filter(|repair| repair.phase == Phase::Refused) {
            repair.phase = Phase::Due;
        }
    }

    /// Whether no claim was refused.
    pub(crate) fn are_settled(&self) -> bool {
        self.0.values().all(|repair| repair.phase != Phase::Refused)
    }
}

/// An answer that is an error which a repetition may resolve.
pub(crate) fn has_failed<A>(answer: &Result<A>) -> bool {
    answer.as_ref().is_err_and(Error::is_retryable)
}
