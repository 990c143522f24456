//! The requests that wait to be sent: renewals and steps. Steps are claims, releases, and passes (one request that
//! releases a hold and claims a new one).
//!
//! Steps are sent in batches. Renewals of many holds are sent in one request.

use std::{collections::VecDeque, time::Duration};

use bandog_core::{Kind, Moment, Profile, Step};

use crate::{lane::SlotId, terms::HoldId};

/// If at least this many steps are in flight and the store is near, a batch that is not full waits for more steps. Many
/// small batches would cost the client and the store more than the short wait.
const GATHER_ABOVE: usize = Profile::MAX_STEPS / 2;
/// A store counts as near if its round trip (a request and its answer) is shorter than this. This is also the maximum
/// time for which a batch waits for more steps.
const MAX_GATHER_TIME: Duration = Duration::from_millis(1);
/// Maximum number of holds in one renewal request.
const MAX_RENEWALS: usize = 512;
/// Maximum number of renewal requests in flight, so that renewals do not delay claims too much.
const MAX_RENEWAL_CALLS: usize = 2;

pub(super) struct Outbox {
    steps: Vec<Step>,
    /// Maximum number of steps in one batch ([`Profile::max_steps`]).
    max_batch: usize,
    renewals: VecDeque<(SlotId, HoldId)>,
    /// When the last batch was sent.
    sent_at: Moment,
}

impl Outbox {
    pub(super) fn new(now: Moment, max_batch: usize) -> Self {
        Self { steps: Vec::new(), max_batch: max_batch.max(1), renewals: VecDeque::new(), sent_at: now }
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    pub(super) fn push_renewal(&mut self, slot: SlotId, hold: HoldId) {
        self.renewals.push_back((slot, hold));
    }

    /// Whether no step waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Maximum time for which the steps wait for more steps. `None` if no step waits.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        (!self.steps.is_empty()).then_some(MAX_GATHER_TIME)
    }

    /// Whether a batch must be sent now. A batch that is not full waits for more steps if the store is near and at
    /// least [`GATHER_ABOVE`] steps are in flight.
    pub(super) fn is_ready(&self, steps_in_flight: usize, round_trip: Duration, now: Moment) -> bool {
        let can_wait = self.steps.len() < self.max_batch && steps_in_flight >= GATHER_ABOVE;
        let waits = can_wait && round_trip < MAX_GATHER_TIME && now.since(self.sent_at) < MAX_GATHER_TIME;
        !self.steps.is_empty() && !waits
    }

    /// Takes the next batch. The caller must send the batch immediately.
    pub(super) fn take_batch(&mut self, now: Moment) -> Vec<Step> {
        self.sent_at = now;
        let end = after_next_claim(&self.steps).unwrap_or(self.max_batch).min(self.max_batch);
        let rest = self.steps.split_off(self.steps.len().min(end));
        std::mem::replace(&mut self.steps, rest)
    }

    /// Takes the holds of the next renewal request. `None` if no renewal waits, or too many renewal requests are in
    /// flight.
    pub(super) fn take_renewals(&mut self, calls_in_flight: usize) -> Option<Vec<(SlotId, HoldId)>> {
        if self.renewals.is_empty() || calls_in_flight >= MAX_RENEWAL_CALLS {
            return None;
        }
        let count = self.renewals.len().min(MAX_RENEWALS);
        Some(self.renewals.drain(..count).collect())
    }
}

/// The end of the batch, if this client releases a fair mutex and its next call claims it, and further claims of it
/// follow. The further claims only wait in the queue. So they are in the next batch, because the caller that gets the
/// mutex would wait for their answers, too.
fn after_next_claim(steps: &[Step]) -> Option<usize> {
    let is_next_claim = |pair: &[Step]| match pair {
        [Step::Release(from), Step::Claim(to)] => to.kind == Kind::Fair && from.key == to.key,
        _ => false,
    };
    let end = steps.windows(2).take(Profile::MAX_STEPS - 1).position(is_next_claim)? + 2;
    let key = steps[end - 1].key();
    let is_further = |step: &Step| matches!(step, Step::Claim(claim) if claim.key == *key);
    steps[end..].iter().any(is_further).then_some(end)
}

#[cfg(test)]
mod tests {
    use bandog_core::{Claim, ClaimId, ClientId, Key};

    use super::*;

    fn claim(name: &str, number: u64) -> Claim {
        Claim {
            joins: true,
            ..Claim::new(
                Key::new(name).unwrap(),
                ClaimId { client: ClientId::random(), number },
                Kind::Fair,
                Duration::from_secs(30),
            )
        }
    }

    /// The sizes of the batches that these steps are sent in.
    fn batches(steps: impl IntoIterator<Item = Step>) -> Vec<usize> {
        let mut outbox = Outbox::new(Moment::from_nanos(1), Profile::MAX_STEPS);
        steps.into_iter().for_each(|step| outbox.push(step));
        let mut sizes = Vec::new();
        while !outbox.is_empty() {
            sizes.push(outbox.take_batch(Moment::from_nanos(1)).len());
        }
        sizes
    }

    #[test]
    fn the_next_turn_of_a_fair_mutex_does_not_wait_for_further_claims() {
        let (release, take) = (|name| Step::Release(claim(name, 1)), |name, number| Step::Claim(claim(name, number)));
        assert_eq!(batches([release("a"), take("a", 2), take("a", 3), take("a", 4)]), [2, 2]);
        assert_eq!(batches([take("b", 1), release("a"), take("a", 2), take("b", 2), take("a", 3)]), [3, 2]);
        // Without further claims of the name, the batch does not end.
        assert_eq!(batches([release("a"), take("a", 2), release("b"), take("b", 2), take("c", 1)]), [5]);
        assert_eq!(batches((1..=40).map(|number| take("a", number))), [32, 8]);
    }
}
