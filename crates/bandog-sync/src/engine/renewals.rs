//! Renewals: the watchdog's, and those that only ask whether the store still knows a hold.
//!
//! A renewal that has no answer yet does not hold up the next one: a request that hangs for the request timeout would
//! lose every hold with a shorter ttl. Both name the same claim, so they may be applied in any order. The answer that
//! was asked for last decides when to renew next; every good answer moves the deadline.

use std::time::Duration;

use bandog_core::{Key, Moment, Renewal};

use super::{Engine, RENEWALS, Renewed, margin, msg::HoldId, slot::Stage};

/// Longest pause before a renewal that has failed is sent again.
const RENEW_AGAIN: Duration = Duration::from_millis(200);

/// When a hold's next renewal goes out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    At(Moment),
    /// It waits for its place among the calls in flight.
    Queued,
    /// One was sent at `asked_at`. If it has no answer by `again`, another one goes out.
    Flying {
        asked_at: Moment,
        again: Moment,
    },
    /// The lease is a fixed one, or lost.
    Never,
}

impl Next {
    /// When the hold's timer is needed for it.
    pub(super) fn wake(self) -> Option<Moment> {
        match self {
            Self::At(moment) | Self::Flying { again: moment, .. } => Some(moment),
            Self::Queued | Self::Never => None,
        }
    }
}

impl Engine {
    /// Queues the renewal of a hold, if it is due.
    pub(super) fn renew_if_due(&mut self, id: HoldId, now: Moment) {
        let Some(held) = self.holds.get_mut(&id) else { return };
        if held.renewal.wake().is_some_and(|moment| now >= moment) {
            held.renewal = Next::Queued;
            self.renewals.push(id);
        }
    }

    /// Asks the store about a hold out of turn.
    pub(super) fn renew_now(&mut self, id: HoldId) {
        let now = self.now;
        let Some(held) = self.holds.get_mut(&id) else { return };
        match held.renewal {
            // The answer of the one on its way will say.
            Next::Queued | Next::Flying { .. } => return,
            Next::Never if held.lost => return,
            Next::At(_) | Next::Never => held.renewal = Next::At(now),
        }
        self.arm(id, now);
    }

    /// Asks the store about the hold of a key.
    pub(super) fn recheck(&mut self, key: &Key) {
        if let Some(Stage::Held(id)) = self.slot(key).map(|slot| &slot.stage) {
            self.renew_now(*id);
        }
    }

    pub(super) fn send_renewals(&mut self) {
        let some = self.renewals.len().min(RENEWALS);
        let ids: Vec<_> = self.renewals.drain(..some).collect();
        let now = self.clock.now();
        let mut claims = Vec::with_capacity(ids.len());
        for id in ids {
            // A hold that has been given back since, or lost, is not renewed any more.
            let Some(held) = self.holds.get_mut(&id).filter(|held| !held.lost) else { continue };
            let claim = held.renewal_of(now);
            if claim.ttl.is_zero() {
                continue;
            }
            let patience = (claim.ttl / 6).max(self.trip * 2);
            held.renewal = Next::Flying { asked_at: now, again: now + patience };
            claims.push(claim);
            self.arm(id, now);
        }
        if !claims.is_empty() {
            self.now = now;
            self.calls.renew(now, claims);
        }
    }

    /// The store has answered a renewal.
    pub(super) fn renewed(&mut self, asked_at: Moment, id: HoldId, answer: Renewed) {
        let now = self.now;
        let Some(held) = self.holds.get_mut(&id) else { return };
        let next = match answer {
            Ok(Renewal::Extended { .. }) if !held.terms.watchdog => Next::Never,
            Ok(Renewal::Extended { valid_for }) => {
                self.metrics.renewed();
                let until = asked_at + valid_for - margin(held.terms.ttl);
                held.until = held.until.max(until);
                if !held.status.extend(held.deadline()) {
                    return self.lose(id); // Somebody has read it as lost already, so lost it stays.
                }
                Next::At(asked_at + held.terms.ttl / 3)
            }
            Ok(Renewal::Gone) => return self.lose(id),
            Err(error) => {
                tracing::debug!(key = %held.claim.key, %error, "a renewal had no answer");
                Next::At(now + RENEW_AGAIN.min(held.terms.ttl / 10))
            }
        };
        // An answer to an earlier one says nothing about the one that was sent last.
        if matches!(held.renewal, Next::Flying { asked_at: last, .. } if last == asked_at) {
            held.renewal = next;
        }
        self.arm(id, now);
    }
}
