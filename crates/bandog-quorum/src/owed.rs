//! The releases that a node has not answered yet.

use std::collections::{BTreeMap, HashMap};

use bandog_core::{Answer, Claim, ClaimId, Moment, Result};

use crate::{repairs::has_failed, reuse::Reuses};

/// Maximum number of releases of one node that are repeated. If there are more, the claims whose holds expire first are
/// not released at this node. Such a hold expires after its ttl at the latest.
const MAX_OWED: usize = 10_000;
/// Maximum number of releases in one request.
const BATCH: usize = 32;

/// The claims that a node must release, in the order in which their holds expire.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    by_end: BTreeMap<(Moment, ClaimId), Claim>,
    states: HashMap<ClaimId, State>,
    /// The claims whose release can still be on its way.
    reuses: Reuses,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// The time at which the hold of the claim has expired at the latest.
    until: Moment,
    /// The number of requests that the node might have received, or might still receive.
    sent: u32,
}

impl Owed {
    /// Adds a claim. `until`: its hold has expired at this time at the latest.
    pub(crate) fn add(&mut self, claim: Claim, until: Moment) {
        let id = claim.id;
        let sent = self.states.get(&id).map_or(0, |state| {
            self.by_end.remove(&(state.until, id));
            state.sent
        });
        self.states.insert(id, State { until, sent });
        self.by_end.insert((until, id), claim);
        if self.by_end.len() > MAX_OWED {
            self.remove_first();
        }
    }

    /// Records that the releases of these claims are sent.
    pub(crate) fn sent(&mut self, claims: &[Claim]) {
        for claim in claims {
            if let Some(state) = self.states.get_mut(&claim.id) {
                state.sent += 1;
            }
        }
    }

    /// Records the answer to the release of the claim with this id. A release that the store refuses is not repeated. The
    /// hold expires after its ttl.
    pub(crate) fn answered(&mut self, id: ClaimId, answer: &Result<Answer>) {
        let Some(state) = self.states.get_mut(&id) else { return };
        let is_over = answer.is_ok() || answer.as_ref().is_err_and(|error| !error.maybe_applied());
        state.sent = state.sent.saturating_sub(u32::from(is_over));
        if !has_failed(answer) {
            self.remove(id);
        }
    }

    pub(crate) fn contains(&self, id: ClaimId) -> bool {
        self.states.contains_key(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Records that this claim is renewed.
    pub(crate) fn renewed(&mut self, id: ClaimId) {
        self.reuses.used(id);
    }

    /// The claims that have another id at this node.
    pub(crate) fn reuses(&self) -> &Reuses {
        &self.reuses
    }

    /// The next claims to release. Several of them can have the same key.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<Claim> {
        while self.by_end.first_key_value().is_some_and(|((until, _), _)| *until <= now) {
            self.remove_first();
        }
        self.by_end.values().take(BATCH).cloned().collect()
    }

    fn remove_first(&mut self) {
        if let Some((_, id)) = self.by_end.first_key_value().map(|(end, _)| *end) {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: ClaimId) {
        let Some(state) = self.states.remove(&id) else { return };
        self.by_end.remove(&(state.until, id));
        if state.sent > 0 {
            self.reuses.add(id);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails panics")]

    use std::{num::NonZeroU32, time::Duration};

    use bandog_core::{ClientId, Error, ErrorKind, Key, Kind, Released};

    use super::*;

    fn claim(client: ClientId, number: u64) -> Claim {
        let (key, id) = (Key::new(format!("key-{number}")).unwrap(), ClaimId { client, number });
        let (kind, ttl, fences) = (Kind::Mutex, Duration::from_secs(1), NonZeroU32::MIN);
        Claim { fences, ..Claim::new(key, id, kind, ttl) }
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
        owed.answered(ClaimId { client, number: 2 }, &Ok(Answer::Released(Released::NotHeld)));
        assert!(owed.due(Moment::from_nanos(9)).is_empty() && owed.is_empty());
    }

    /// A claim of a contended lock is handed back many times, each time with another id.
    #[test]
    fn a_request_releases_several_claims_of_one_key() {
        let (mut owed, client) = (Owed::default(), ClientId::random());
        for number in 1..=40 {
            let key = claim(client, 1).key;
            owed.add(Claim { key, ..claim(client, number) }, Moment::from_nanos(9 + number));
        }
        let due: Vec<_> = owed.due(Moment::from_nanos(1)).iter().map(|claim| claim.id.number).collect();
        assert_eq!(due, (1..=32).collect::<Vec<_>>());
    }

    /// The number of the claim at the node, after these answers to releases. None: the release has no answer.
    fn number_after(answers: &[Option<Result<Answer>>]) -> u64 {
        let (mut owed, claim) = (Owed::default(), claim(ClientId::random(), 7));
        owed.add(claim.clone(), Moment::from_nanos(9));
        for answer in answers {
            assert_eq!(owed.reuses().claim(&claim), claim, "all releases are of the same hold");
            owed.sent(std::slice::from_ref(&claim));
            if let Some(answer) = answer {
                owed.answered(claim.id, answer);
            }
            owed.add(claim.clone(), Moment::from_nanos(8));
        }
        assert!(owed.due(Moment::from_nanos(9)).is_empty());
        owed.reuses().claim(&claim).id.number
    }

    #[test]
    fn after_a_release_that_may_still_arrive_the_claim_has_another_id() {
        let (released, unsent) = (Ok(Answer::Released(Released::NotHeld)), Err(Error::unavailable("no connection")));
        let lost = Err(Error::unavailable("no answer").ambiguous());
        let denied = Err(Error::new(ErrorKind::Denied, "no right"));
        let renamed = 7 | (1 << 44);
        assert_eq!(number_after(&[]), 7);
        assert_eq!(number_after(&[Some(released.clone())]), 7);
        assert_eq!(number_after(&[Some(unsent.clone()), Some(released.clone())]), 7);
        assert_eq!(number_after(&[Some(unsent), Some(denied)]), 7);
        assert_eq!(number_after(&[None]), renamed);
        assert_eq!(number_after(&[Some(lost.clone())]), renamed);
        assert_eq!(number_after(&[Some(lost.clone()), Some(lost.clone())]), renamed);
        let mut owed = Owed::default();
        let claim = claim(ClientId::random(), 7);
        owed.add(claim.clone(), Moment::from_nanos(9));
        for answer in [lost, released] {
            owed.sent(std::slice::from_ref(&claim));
            owed.answered(claim.id, &answer);
        }
        assert!(owed.is_empty());
        assert_eq!(owed.reuses().claim(&claim).id.number, renamed, "the first release can still arrive");
    }
}
