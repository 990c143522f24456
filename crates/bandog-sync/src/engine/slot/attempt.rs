//! A claim that the store has not granted yet.

use std::time::Duration;

use bandog_core::{Claim, Moment, Step};

use super::{polls::Polls, streak::Streak};
use crate::engine::msg::Terms;

/// Time after which a waiting client starves, and goes before others.
const STARVES_AFTER: Duration = Duration::from_secs(1);
/// Round trip up to which a waiter can take an offer before the offer expires.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(100);

/// A claim that is not granted yet. It is not bound to one waiter: the first in the queue when the grant comes gets the
/// hold.
pub(super) struct Attempt {
    pub(super) claim: Claim,
    /// When this client began to wait for a grant.
    since: Moment,
    pub(super) terms: Terms,
    /// The hold that this claim exchanges, until the store reports another holder.
    pub(super) from: Option<Claim>,
    /// The streak that continues, unless the store reports another holder.
    pub(super) streak: Option<Streak>,
    pub(super) polls: Polls,
    /// Whether a client has released the key since this client began to wait, and another client got it.
    is_contended: bool,
    /// Whether a request of this claim has asked for an offer, so that the store may have noted it.
    has_asked_for_offer: bool,
    /// Whether the store may have applied, or may still apply, a request of this claim that had no answer. It stays set
    /// until the claim ends: a later answer to another request does not clear it.
    pub(super) unsure: bool,
    /// Number of consecutive requests without an answer.
    pub(super) faults: u32,
}

impl Attempt {
    pub(super) fn new(claim: Claim, terms: Terms, now: Moment) -> Self {
        Self {
            claim,
            since: now,
            terms,
            from: None,
            streak: None,
            polls: Polls::default(),
            is_contended: false,
            has_asked_for_offer: false,
            unsure: false,
            faults: 0,
        }
    }

    /// This claim also continues the wait of an earlier claim, which had other terms.
    pub(super) fn continues_wait_of(&mut self, earlier: &Self) {
        (self.since, self.is_contended) = (earlier.since, earlier.is_contended);
    }

    /// The next request of the claim. `hears_releases`: whether a release wakes this client.
    pub(super) fn next_step(&mut self, now: Moment, hears_releases: bool, round_trip: Duration) -> Step {
        self.claim.offers = self.asks_for_offer(now, hears_releases, round_trip);
        self.has_asked_for_offer |= self.claim.offers;
        match &self.from {
            Some(from) => Step::Pass { from: from.clone(), to: self.claim.clone() },
            None => Step::Claim(self.claim.clone()),
        }
    }

    /// The store has reported another holder.
    pub(super) fn refused(&mut self, asked_at: Moment, now: Moment, retry_after: Duration) {
        self.from = None; // The hold to exchange is lost.
        self.streak = None;
        self.faults = 0;
        self.polls.refused(asked_at, now, retry_after);
    }

    /// The client was notified that the key is free.
    pub(super) fn notified(&mut self) {
        self.is_contended = true;
    }

    /// The claim to release when the attempt is given up, if a release is necessary: the store may have applied a
    /// request, or may have noted that this client starves. The release clears that note.
    pub(super) fn claim_to_release(&self) -> Option<Claim> {
        (self.unsure || self.has_asked_for_offer)
            .then(|| Claim { offers: self.has_asked_for_offer, ..self.claim.clone() })
    }

    /// Whether the claim asks for an offer: only if the lock changes hands beside this waiter, and if the waiter would
    /// notice the offer in time. A waiter for one long hold does not.
    fn asks_for_offer(&self, now: Moment, hears_releases: bool, round_trip: Duration) -> bool {
        let has_waited = self.from.is_none() && now.since(self.since) >= STARVES_AFTER;
        let is_woken = self.is_contended && hears_releases;
        has_waited && round_trip < MAX_ROUND_TRIP && (is_woken || self.polls.is_quick(now))
    }
}
