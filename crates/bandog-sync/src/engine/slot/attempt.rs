//! The attempt of this client to get a key. An attempt consists of a claim that the store has not granted yet, and of
//! what this client remembers about that claim.
//!
//! A client *starves* if it has waited for [`STARVES_AFTER`] while the lock changed hands. The claims of a starving
//! client contain this fact (`Claim::offers`). The store then writes a note that a client starves, and keeps the note
//! while the key is held. The next release removes the note and *offers* the key: for at most [`bandog_core::OFFER`],
//! the store grants the key only to starving clients. So a claim of a starving client *asks for an offer*.

use std::time::Duration;

use bandog_core::{Claim, Moment, PLACE, Step};

use super::{
    policy::{Joins, Offers, Policy, PollRule},
    polls::{MAX_POLL_INTERVAL, Polls, slow_interval},
    queue::Queue,
    streak::Streak,
};
use crate::{engine::backoff::jittered, lane::Lane, terms::Terms};

/// Time after which a waiting client starves.
const STARVES_AFTER: Duration = Duration::from_secs(1);
/// A client asks for an offer only if its round trip (the duration of a request and its answer) is shorter than this.
/// With a longer round trip, the offer could expire before the client's next claim reaches the store.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(100);

/// Places are renewed at multiples of this time on the client's clock, in nanoseconds: a sixth of their validity.
const PLACE_ROUND: u64 = PLACE.as_secs() * 1_000_000_000 / 6;

/// Maximum interval between two polls of a claim that is not the next one in the queue of a fair mutex.
const MAX_QUEUED_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// The place of a claim for a fair mutex, as far as this client knows it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Queued {
    /// The store has not refused the claim yet.
    NotYet,
    /// The first request of the claim got the place, and the claim has kept it. `ahead`: number of claims before it.
    InOrder { ahead: u32 },
    /// The claim may have got its place later than claims that were sent after it.
    OutOfOrder,
}

/// A hold that an attempt passes to its claim.
#[derive(Debug, Clone)]
pub(super) struct OldHold {
    pub(super) claim: Claim,
    /// Whether the store may still apply a request of that claim, because the request had no answer.
    pub(super) unsure: bool,
}

/// What the requests of a claim have asked for, and the store may still have for the claim.
#[derive(Debug, Default, Clone, Copy)]
struct AskedFor {
    /// An offer: the store may have the note that this client starves.
    offer: bool,
    /// A place ([`Claim::joins`]).
    place: bool,
}

/// A claim that is not granted yet. The claim belongs to no particular call. When the grant arrives, the call that is
/// first in the queue gets the hold (what the store gives for a claim).
pub(super) struct Attempt {
    pub(super) claim: Claim,
    /// When this client began to wait for the key.
    since: Moment,
    pub(super) terms: Terms,
    policy: &'static Policy,
    /// The old hold of this client, if one request releases it and claims the key again (a *pass*, [`Step::Pass`]).
    /// `None` for an ordinary claim, and after the store has reported another holder.
    pub(super) from: Option<OldHold>,
    /// The streak that a grant would continue. `None` after the store has reported another holder.
    pub(super) streak: Option<Streak>,
    /// Decides when this client claims again although no notification arrived.
    pub(super) polls: Polls,
    /// Whether a notification has reported a release of the key since this client began to wait. If so, the lock
    /// changes hands while this client waits.
    is_contended: bool,
    asked_for: AskedFor,
    /// The place of a claim for a fair mutex.
    pub(super) queued: Queued,
    /// When the place of this claim must be renewed. `None` if it is not renewed: the polls of the other kinds are
    /// frequent enough to keep their places.
    pub(super) place_due: Option<Moment>,
    /// Whether a request of this claim had no answer. The store may have applied that request, or may still apply it.
    /// The flag stays set until the claim ends, because the answer to a later request says nothing about an earlier
    /// request.
    pub(super) unsure: bool,
    /// Number of requests of this claim.
    requests: u32,
    /// Number of consecutive requests without an answer.
    pub(super) faults: u32,
}

impl Attempt {
    pub(super) fn new(claim: Claim, terms: Terms, now: Moment) -> Self {
        Self {
            policy: Policy::of(Lane::of(claim.kind, claim.id.number)),
            claim,
            since: now,
            terms,
            from: None,
            streak: None,
            polls: Polls::default(),
            is_contended: false,
            asked_for: AskedFor::default(),
            queued: Queued::NotYet,
            place_due: None,
            unsure: false,
            requests: 0,
            faults: 0,
        }
    }

    /// Records that the store does not have the old hold any more. Returns its claim if it must be released, because the store
    /// may still apply one of its requests. It must not be released earlier: until now, the hold has kept other clients out.
    pub(super) fn old_hold_has_ended(&mut self) -> Option<Claim> {
        self.from.take().filter(|old| old.unsure).map(|old| old.claim)
    }

    /// Continues the wait of an earlier claim, which had different terms. The time for which that claim has waited also
    /// counts for this claim.
    pub(super) fn continues_wait_of(&mut self, earlier: &Self) {
        (self.since, self.is_contended) = (earlier.since, earlier.is_contended);
    }

    /// The next request of the claim, for the calls of this queue. It asks for an offer and a place as the policy of
    /// its lane says. `expects_notifications`: whether this client expects to be notified of releases.
    pub(super) fn next_step(
        &mut self,
        now: Moment,
        queue: &Queue,
        expects_notifications: bool,
        round_trip: Duration,
    ) -> Step {
        self.claim.offers = self.asks_for_offer(now, expects_notifications, round_trip);
        self.claim.joins = match self.policy.joins {
            Joins::Never => false,
            Joins::ForPatientCalls => queue.has_patient_calls(),
            Joins::WithOffer => self.claim.offers,
        };
        self.asked_for.offer |= self.claim.offers;
        self.asked_for.place |= self.claim.joins;
        self.plain_step()
    }

    /// The next request of the claim, for an attempt that asks for neither an offer nor a place.
    pub(super) fn plain_step(&mut self) -> Step {
        self.requests = self.requests.saturating_add(1);
        self.place_due = None;
        match &self.from {
            Some(old) => Step::Pass { from: Box::new(old.claim.clone()), to: self.claim.clone() },
            None => Step::Claim(self.claim.clone()),
        }
    }

    /// Records that the store has reported another holder. `ahead`: number of claims before this claim in the store's
    /// queue.
    pub(super) fn refused(&mut self, asked_at: Moment, now: Moment, retry_after: Duration, ahead: Option<u32>) {
        let is_first_request = self.faults == 0 && !self.unsure;
        self.queued = match (self.queued, ahead) {
            (Queued::NotYet, Some(ahead)) if is_first_request => Queued::InOrder { ahead },
            // No claim can get a place before this claim, so this claim still has its place.
            (Queued::InOrder { ahead: before }, Some(ahead)) if ahead <= before => Queued::InOrder { ahead },
            (Queued::NotYet, None) => Queued::NotYet,
            (Queued::NotYet | Queued::InOrder { .. } | Queued::OutOfOrder, _) => Queued::OutOfOrder,
        };
        self.streak = None;
        self.faults = 0;
        match self.policy.polls {
            PollRule::Adaptive => self.polls.refused(asked_at, now, retry_after),
            PollRule::ByPlace => self.place_due = self.claim.joins.then(|| renewal_of_place(now)),
            PollRule::Slow => {}
        }
    }

    /// Whether the claim was sent only once.
    pub(super) fn is_first_request(&self) -> bool {
        self.requests == 1
    }

    /// The delay before the next poll after a refusal. `ahead`: number of claims before this claim in the store's queue.
    pub(super) fn poll_interval(&self, now: Moment, expects_notifications: bool, ahead: Option<u32>) -> Duration {
        match self.policy.polls {
            PollRule::Adaptive => self.polls.interval(now, expects_notifications),
            PollRule::Slow => slow_interval(now),
            // The claims before this claim are granted first. So a claim far back in the queue polls rarely.
            PollRule::ByPlace => {
                jittered(MAX_QUEUED_POLL_INTERVAL.min(MAX_POLL_INTERVAL * ahead.unwrap_or(0).saturating_add(1)))
            }
        }
    }

    /// Records that the store does not have the place of this claim any more.
    pub(super) fn has_lost_place(&mut self) {
        self.queued = Queued::OutOfOrder;
    }

    /// Whether the place of this claim must be renewed now. If so, plans the next renewal.
    pub(super) fn keep_place(&mut self, now: Moment) -> bool {
        let is_due = self.place_due.is_some_and(|due| due <= now);
        if is_due {
            self.place_due = Some(renewal_of_place(now));
        }
        is_due
    }

    /// Records a notification that the key was released.
    pub(super) fn notified(&mut self) {
        self.is_contended = true;
    }

    /// The claim to release when the attempt ends without a grant. `None` if no release is necessary. A release is
    /// necessary in three cases: the store may have applied a request, or it may have a place for the claim, or it may
    /// have the note that this client starves. The release removes the place and the note.
    pub(super) fn claim_to_release(&self) -> Option<Claim> {
        let AskedFor { offer: offers, place: joins } = self.asked_for;
        (self.unsure || offers || joins).then(|| Claim { offers, joins, ..self.claim.clone() })
    }

    /// Whether the next request says that this client starves. This client has waited for [`STARVES_AFTER`], and the policy
    /// of its lane ([`Offers`]) is fulfilled: the round trip is so short that the next claim reaches the store before the
    /// offer expires, and the lock changes hands, because this client was notified of a release while it waited, or polls
    /// quickly (see `polls`). The request is no pass, in which this client still has its old hold.
    fn asks_for_offer(&self, now: Moment, expects_notifications: bool, round_trip: Duration) -> bool {
        let has_waited = self.from.is_none() && now.since(self.since) >= STARVES_AFTER;
        let sees_releases = self.is_contended && expects_notifications;
        let is_near = round_trip < MAX_ROUND_TRIP;
        let asks = match self.policy.offers {
            Offers::IfNearAndContended => is_near && (sees_releases || self.polls.polls_quickly(now)),
            Offers::IfNear => is_near,
            Offers::Never => false,
            Offers::Always => true,
        };
        has_waited && asks
    }
}

/// When a place that is valid since `now` must be renewed: after a third of its time, or a little earlier, at a multiple of
/// [`PLACE_ROUND`]. So the places of a client are renewed together, in few requests.
fn renewal_of_place(now: Moment) -> Moment {
    let due = (now + PLACE / 3).as_nanos();
    Moment::from_nanos(due - due % PLACE_ROUND)
}
