//! The claims that are being renewed, and the votes about each of them. A claim that is released meanwhile must not be
//! repaired: see [`crate::repairs::Repairs`].

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bandog_core::{Claim, ClaimId, Error, Moment, QuorumNode, Renewal, Result};

use crate::{
    gather::Progress,
    node::Node,
    rules::{self, Kept, Vote, failure},
    steps::valid_for,
};

/// The claims of all renewals in flight.
#[derive(Debug, Clone, Default)]
pub(crate) struct Renewals(Arc<Mutex<HashMap<ClaimId, InFlight>>>);

#[derive(Debug, Default)]
struct InFlight {
    /// The number of requests in flight that renew the claim.
    requests: usize,
    /// Whether the claim was released or passed since the first of them.
    has_ended: bool,
}

impl Renewals {
    /// Records that these claims are renewed, until the returned value is dropped.
    pub(crate) fn begin(&self, claims: &[Claim]) -> RenewalsInFlight {
        let ids: Vec<_> = claims.iter().map(|claim| claim.id).collect();
        let mut all = self.lock();
        for id in &ids {
            all.entry(*id).or_default().requests += 1;
        }
        drop(all);
        RenewalsInFlight { all: self.clone(), ids }
    }

    /// Records that this claim is released or passed.
    pub(crate) fn end(&self, id: ClaimId) {
        if let Some(renewal) = self.lock().get_mut(&id) {
            renewal.has_ended = true;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClaimId, InFlight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The claims of one renewal in flight.
#[derive(Debug)]
pub(crate) struct RenewalsInFlight {
    all: Renewals,
    ids: Vec<ClaimId>,
}

impl RenewalsInFlight {
    /// Whether this claim was released or passed since the renewal began.
    pub(crate) fn has_ended(&self, id: ClaimId) -> bool {
        self.all.lock().get(&id).is_some_and(|renewal| renewal.has_ended)
    }
}

impl Drop for RenewalsInFlight {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        for id in &self.ids {
            if let Some(renewal) = all.get_mut(id) {
                renewal.requests -= 1;
                if renewal.requests == 0 {
                    all.remove(id);
                }
            }
        }
    }
}

/// The votes about one renewal.
pub(crate) struct RenewalBallot {
    pub(crate) claim: Claim,
    pub(crate) votes: Vec<Vote<Kept>>,
}

impl RenewalBallot {
    pub(crate) fn progress(&self) -> Progress {
        if !self.votes.iter().any(|vote| matches!(vote, Vote::Awaited)) {
            return Progress::Done;
        }
        match rules::renewed(&self.votes, false) {
            Some(Ok(_)) => Progress::Enough,
            Some(Err(_)) | None => Progress::Wait,
        }
    }

    /// Ends the round of requests. `asked`: the moment before the renewal was sent.
    ///
    /// If a majority has the hold, the nodes that answer and do not have it claim it again. If too few nodes have the
    /// hold, they keep it: it must not be released before the guard knows that it is lost. The client releases the claim
    /// when the guard is dropped, and otherwise the hold expires. The repairs of a lost hold end.
    pub(crate) fn end<B: QuorumNode>(
        mut self,
        nodes: &[Arc<Node<B>>],
        asked: Moment,
        in_flight: &RenewalsInFlight,
        timeout: &Error,
    ) -> Result<Renewal> {
        for (vote, node) in self.votes.iter_mut().zip(nodes) {
            if matches!(vote, Vote::Awaited) {
                node.doubt();
                *vote = Vote::Missing(timeout.clone());
            }
        }
        let (votes, claim) = (&self.votes, &self.claim);
        let kept = rules::renewed(votes, true).unwrap_or_else(|| Err(failure(votes)));
        let lost = match kept.map_err(|error| error.during("renew").at(&claim.key))? {
            Kept::Hold(until) => Ok(until),
            Kept::Place => Err(Renewal::Waiting { is_next: false }),
            Kept::Nothing => Err(Renewal::Gone),
        };
        let until = match lost {
            Ok(until) => until,
            Err(answer) => {
                nodes.iter().for_each(|node| node.stop_repair(claim));
                return Ok(answer);
            }
        };
        let valid_for = valid_for(claim, asked, until);
        let has_lost = |(vote, _): &(&Vote<_>, _)| matches!(vote, Vote::Given(Kept::Place | Kept::Nothing));
        for (_, node) in votes.iter().zip(nodes).filter(has_lost).filter(|_| !valid_for.is_zero()) {
            node.repair(claim, asked + claim.ttl);
            // A release that comes from now on ends the repair itself.
            if in_flight.has_ended(claim.id) {
                node.end_repair(claim);
            }
        }
        Ok(Renewal::Extended { valid_for })
    }
}
