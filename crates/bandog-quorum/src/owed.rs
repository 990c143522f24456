//! The releases that a node has not answered yet.

use std::collections::{BTreeMap, HashMap, HashSet};

use bandog_core::{Claim, ClaimId, Moment};

/// Maximum number of releases of one node that are repeated. If there are more, the claims whose holds expire first are
/// not released at this node. Such a hold expires after its ttl at the latest.
const MAX_OWED: usize = 10_000;
/// Maximum number of releases in one request.
const BATCH: usize = 32;

/// The claims that a node must release, in the order in which their holds expire.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    by_end: BTreeMap<(Moment, ClaimId), Claim>,
    /// The time at which the hold of each claim has expired at the latest.
    ends: HashMap<ClaimId, Moment>,
}

impl Owed {
    /// Adds a claim. `until`: its hold has expired at this time at the latest.
    pub(crate) fn add(&mut self, claim: Claim, until: Moment) {
        self.remove(claim.id);
        self.ends.insert(claim.id, until);
        self.by_end.insert((until, claim.id), claim);
        if self.by_end.len() > MAX_OWED {
            self.remove_first();
        }
    }

    pub(crate) fn remove(&mut self, id: ClaimId) {
        if let Some(until) = self.ends.remove(&id) {
            self.by_end.remove(&(until, id));
        }
    }

    pub(crate) fn contains(&self, id: ClaimId) -> bool {
        self.ends.contains_key(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The next claims to release, with at most one claim of each key.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<Claim> {
        while self.by_end.first_key_value().is_some_and(|((until, _), _)| *until <= now) {
            self.remove_first();
        }
        let mut keys = HashSet::new();
        self.by_end.values().filter(|claim| keys.insert(&claim.key)).take(BATCH).cloned().collect()
    }

    fn remove_first(&mut self) {
        if let Some(((_, id), _)) = self.by_end.pop_first() {
            self.ends.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails panics")]

    use std::{num::NonZeroU32, time::Duration};

    use bandog_core::{ClientId, Key, Kind};

    use super::*;

    fn claim(client: ClientId, number: u64) -> Claim {
        let (key, id) = (Key::new(format!("key-{number}")).unwrap(), ClaimId { client, number });
        let (kind, ttl, fences) = (Kind::Mutex, Duration::from_secs(1), NonZeroU32::MIN);
        Claim { key, id, kind, ttl, fences, above: None, joins: false, offers: false }
    }

    #[test]
    fn if_there_are_too_many_the_hold_that_expires_first_is_not_released() {
        let (mut owed, client) = (Owed::default(), ClientId::random());
        let max = u64::try_from(MAX_OWED).unwrap();
        // The claims with greater numbers expire earlier.
        for number in 0..=max {
            owed.add(claim(client, number), Moment::from_nanos(1_000_000 - number));
        }
        let has = |owed: &Owed, number| owed.contains(ClaimId { client, number });
        assert!(has(&owed, 0) && has(&owed, max - 1) && !has(&owed, max));
        assert_eq!(owed.by_end.len(), MAX_OWED);
    }

    #[test]
    fn expired_holds_are_forgotten_and_a_release_is_due_until_it_is_removed() {
        let (mut owed, client) = (Owed::default(), ClientId::random());
        for number in 1..=3 {
            owed.add(claim(client, number), Moment::from_nanos(number));
        }
        owed.add(claim(client, 3), Moment::from_nanos(9));
        for _ in 0..2 {
            assert_eq!(owed.due(Moment::from_nanos(1)), [2, 3].map(|number| claim(client, number)));
        }
        owed.remove(ClaimId { client, number: 2 });
        assert!(owed.due(Moment::from_nanos(9)).is_empty() && owed.is_empty());
    }
}
