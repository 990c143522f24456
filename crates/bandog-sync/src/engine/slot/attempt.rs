//! A claim that the store has not granted yet, and whether it reports that this client starves.
//!
//! A client *starves* if it has waited for [`STARVES_AFTER`] while the lock changed hands. Its claims say so
//! (`Claim::offers`), and the store keeps a note of that while the key is held. The next release then removes the note
//! and *offers* the key: for at most [`bandog_core::OFFER`], the store grants it only to clients that starve.

use std::time::Duration;

use bandog_core::{Claim, Moment, Step};

use super::{polls::Polls, streak::Streak};
use crate::engine::msg::Terms;

/// Minimum wait after which a client starves and is served before others.
const STARVES_AFTER: Duration = Duration::from_secs(1);
/// Maximum round trip at which a client asks for an offer. With a longer one, the offer could expire before the
/// client's next claim arrives.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(100);

/// A claim that is not granted yet. It belongs to no particular call: the call that is first in the queue when the
/// grant arrives gets the hold.
pub(super) struct Attempt {
    pub(super) claim: Claim,
    /// When this client began to wait for the key.
    since: Moment,
    pub(super) terms: Terms,
    /// The claim of the hold that this claim replaces, if it is an exchange. `None` after the store has reported
    /// another holder.
    pub(super) from: Option<Claim>,
    /// The streak that a grant would continue. `None` after the store has reported another holder.
    pub(super) streak: Option<Streak>,
    pub(super) polls: Polls,
    /// Whether a release of the key was notified since this client began to wait. The lock then changes hands, and this
    /// client did not get it.
    is_contended: bool,
    /// Whether a request of this claim has asked for an offer. The store may then still have the note that this client
    /// starves.
    has_asked_for_offer: bool,
    /// Whether a request of this claim had no answer, so that the store may have applied it or may still apply it. The
    /// flag stays set until the claim ends, because the answer to a later request says nothing about an earlier one.
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

    /// Counts the wait of an earlier claim, which had other terms, as part of this claim's wait.
    pub(super) fn continues_wait_of(&mut self, earlier: &Self) {
        (self.since, self.is_contended) = (earlier.since, earlier.is_contended);
    }

    /// The next request of the claim. `expects_notifications`: whether this client is notified of releases.
    pub(super) fn next_step(&mut self, now: Moment, expects_notifications: bool, round_trip: Duration) -> Step {
        self.claim.offers = self.asks_for_offer(now, expects_notifications, round_trip);
        self.has_asked_for_offer |= self.claim.offers;
        match &self.from {
            Some(from) => Step::Pass { from: from.clone(), to: self.claim.clone() },
            None => Step::Claim(self.claim.clone()),
        }
    }

    /// Records that the store has reported another holder.
    pub(super) fn refused(&mut self, asked_at: Moment, now: Moment, retry_after: Duration) {
        self.from = None; // If another client holds the key, this client's old hold does not exist any more.
        self.streak = None;
        self.faults = 0;
        self.polls.refused(asked_at, now, retry_after);
    }

    /// Records a notification that the key was released.
    pub(super) fn notified(&mut self) {
        self.is_contended = true;
    }

    /// The claim to release when the attempt ends without a grant. `None` if no release is necessary. A release is
    /// necessary in two cases: the store may have applied a request, or it may have the note that this client starves.
    /// The release removes that note.
    pub(super) fn claim_to_release(&self) -> Option<Claim> {
        (self.unsure || self.has_asked_for_offer)
            .then(|| Claim { offers: self.has_asked_for_offer, ..self.claim.clone() })
    }

    /// Whether the next request asks for an offer. Two conditions must be true besides the long wait: the lock changes
    /// hands (so a client that waits for one long hold does not ask), and this client will notice the offer before it
    /// expires.
    fn asks_for_offer(&self, now: Moment, expects_notifications: bool, round_trip: Duration) -> bool {
        let has_waited = self.from.is_none() && now.since(self.since) >= STARVES_AFTER;
        let is_woken = self.is_contended && expects_notifications;
        has_waited && round_trip < MAX_ROUND_TRIP && (is_woken || self.polls.is_quick(now))
    }
}
