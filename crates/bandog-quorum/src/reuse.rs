//! Claims that are sent again to a node after a release that the node answered late or never.
//!
//! A claim without a majority is handed back, and sent again later. If the release got no answer, it can still be on its
//! way over a broken connection: in a proxy, or in the memory of a stopped server. If the node executed it after the new
//! request of the same claim, it would remove the new hold, and another client could get the lock. So this node gets the
//! claim with another id from then on.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use bandog_core::{Claim, ClaimId, Step};

/// Maximum number of claims of one node that have another id there. The claims are forgotten first that have been renewed
/// least recently.
const MAX_CLAIMS: usize = 10_000;
/// The bits of a claim's number that the client uses. The bits above them are the number of the reuse.
const NUMBER_BITS: u32 = 44;
/// Maximum number of reuses. With it, the number of a claim fits into the 53 bits that JSON readers keep.
const MAX_REUSES: u64 = (1 << 9) - 1;

/// The claims that have another id at one node.
#[derive(Debug, Default)]
pub(crate) struct Reuses {
    entries: HashMap<ClaimId, Reuse>,
    /// The same claims, in the order in which they were added or renewed.
    order: BTreeMap<u64, ClaimId>,
    /// The next place in the order.
    next: u64,
}

#[derive(Debug)]
struct Reuse {
    /// The number of the present id.
    count: u64,
    /// The place in the order.
    place: u64,
}

impl Reuses {
    /// Gives this claim another id. `id` is the id that the client uses.
    pub(crate) fn add(&mut self, id: ClaimId) {
        let entry = self.entries.entry(id).or_insert(Reuse { count: 0, place: self.next });
        entry.count = (entry.count + 1) % (MAX_REUSES + 1);
        self.used(id);
        if self.order.len() > MAX_CLAIMS
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    /// Records that this claim is renewed. It holds its lock under its other id, so this id must not be forgotten.
    pub(crate) fn used(&mut self, id: ClaimId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            self.order.remove(&entry.place);
            (entry.place, self.next) = (self.next, self.next + 1);
            self.order.insert(entry.place, id);
        }
    }

    /// The steps as the node knows them.
    pub(crate) fn steps<'s>(&self, steps: &'s [Step]) -> Cow<'s, [Step]> {
        if self.entries.is_empty() {
            return Cow::Borrowed(steps);
        }
        let step = |step: &Step| match step {
            Step::Claim(claim) => Step::Claim(self.claim(claim)),
            Step::Release(claim) => Step::Release(self.claim(claim)),
            Step::Pass { from, to } => Step::Pass { from: Box::new(self.claim(from)), to: self.claim(to) },
        };
        Cow::Owned(steps.iter().map(step).collect())
    }

    /// The claims as the node knows them.
    pub(crate) fn claims<'c>(&self, claims: &'c [Claim]) -> Cow<'c, [Claim]> {
        if self.entries.is_empty() {
            return Cow::Borrowed(claims);
        }
        Cow::Owned(claims.iter().map(|claim| self.claim(claim)).collect())
    }

    /// The claim as the node knows it.
    pub(crate) fn claim(&self, claim: &Claim) -> Claim {
        Claim { id: self.id(claim.id), ..claim.clone() }
    }

    fn id(&self, id: ClaimId) -> ClaimId {
        let count = self.entries.get(&id).map_or(0, |entry| entry.count);
        ClaimId { number: id.number | (count << NUMBER_BITS), ..id }
    }
}

/// The owner of a hold as its client knows it. `owner` is the text that the node has stored.
pub(crate) fn original(owner: &str) -> String {
    match owner.parse::<ClaimId>() {
        Ok(id) => ClaimId { number: id.number & ((1 << NUMBER_BITS) - 1), ..id }.to_string(),
        // The hold of another program.
        Err(_) => owner.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bandog_core::ClientId;

    use super::*;

    #[test]
    fn each_reuse_has_an_id_of_its_own_and_the_client_recognizes_all_of_them() {
        let (mut reuses, client) = (Reuses::default(), ClientId::random());
        let id = ClaimId { client, number: 1_234 };
        let mut ids = vec![id];
        for _ in 0..MAX_REUSES {
            reuses.add(id);
            ids.push(reuses.id(id));
        }
        assert!(ids.iter().all(|other| original(&other.to_string()) == id.to_string()));
        assert!(ids.iter().all(|other| other.number < 1 << 53), "readers of JSON keep such a number");
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert_eq!(original("957c1da6-54c9-4017-93c7-a4ef987df61c:1"), "957c1da6-54c9-4017-93c7-a4ef987df61c:1");
    }

    #[test]
    fn the_oldest_claims_are_forgotten_first() {
        let (mut reuses, client) = (Reuses::default(), ClientId::random());
        let max = u64::try_from(MAX_CLAIMS).unwrap_or(u64::MAX);
        for number in 0..=max {
            reuses.add(ClaimId { client, number });
        }
        let is_known = |number| reuses.id(ClaimId { client, number }).number != number;
        assert!(!is_known(0) && is_known(1) && is_known(max));
        assert_eq!((reuses.entries.len(), reuses.order.len()), (MAX_CLAIMS, MAX_CLAIMS));
    }

    /// The client holds a lock for a long time, and a node knows its claim by another id.
    #[test]
    fn a_claim_that_is_renewed_is_not_forgotten() {
        let (mut reuses, client) = (Reuses::default(), ClientId::random());
        let (held, max) = (ClaimId { client, number: 0 }, u64::try_from(MAX_CLAIMS).unwrap_or(u64::MAX));
        reuses.add(held);
        for number in 1..=3 * max {
            reuses.add(ClaimId { client, number });
            if number % 1000 == 0 {
                reuses.used(held);
            }
        }
        assert_ne!(reuses.id(held), held);
        assert_eq!((reuses.entries.len(), reuses.order.len()), (MAX_CLAIMS, MAX_CLAIMS));
    }
}
