//! Renewals by the watchdog, and those that only check whether the store still has a hold.
//!
//! A renewal without an answer does not delay the next one: otherwise a request that hangs for the request timeout
//! would lose every hold with a shorter ttl. Both name the same claim, so the store may apply them in any order. The
//! answer to the renewal that was sent last decides when to renew next. Every good answer moves the deadline.

use std::time::Duration;

use bandog_core::{Key, Moment, Renewal, Result};

use super::{Engine, MAX_RENEWALS, margin, msg::HoldId, slot::Stage};

/// Maximum delay before a failed renewal is repeated.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(200);

/// When a hold's next renewal is sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum NextRenewal {
    At(Moment),
    /// It waits until fewer renewal calls are in flight.
    Queued,
    /// A renewal was sent at `asked_at`. If it has no answer by `repeat_at`, another one is sent.
    InFlight {
        asked_at: Moment,
        repeat_at: Moment,
    },
    /// The lease is fixed, or the hold is lost.
    Never,
}

impl NextRenewal {
    /// When the hold's timer must wake up for the renewal.
    pub(super) fn wake(self) -> Option<Moment> {
        match self {
            Self::At(moment) | Self::InFlight { repeat_at: moment, .. } => Some(moment),
            Self::Queued | Self::Never => None,
        }
    }
}

impl Engine {
    /// Queues the renewal of a hold, if it is due.
    pub(super) fn queue_renewal_if_due(&mut self, id: HoldId, now: Moment) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        if hold.renewal.wake().is_some_and(|moment| now >= moment) {
            hold.renewal = NextRenewal::Queued;
            self.renewals.push(id);
        }
    }

    /// Renews a hold at once.
    pub(super) fn renew_now(&mut self, id: HoldId) {
        let now = self.now;
        let Some(hold) = self.holds.get_mut(&id) else { return };
        match hold.renewal {
            // The renewal that is queued or in flight reports whether the store still has the hold.
            NextRenewal::Queued | NextRenewal::InFlight { .. } => return,
            NextRenewal::Never if hold.lost => return,
            NextRenewal::At(_) | NextRenewal::Never => hold.renewal = NextRenewal::At(now),
        }
        self.set_hold_timer(id, now);
    }

    /// Renews the hold of a key at once, to learn whether the store still has it.
    pub(super) fn recheck(&mut self, key: &Key) {
        if let Some(Stage::Held(id)) = self.slot(key).map(|slot| &slot.stage) {
            self.renew_now(*id);
        }
    }

    pub(super) fn send_renewals(&mut self) {
        let count = self.renewals.len().min(MAX_RENEWALS);
        let ids: Vec<_> = self.renewals.drain(..count).collect();
        let now = self.clock.now();
        let mut claims = Vec::with_capacity(ids.len());
        for id in ids {
            // A hold that was released or lost meanwhile is not renewed.
            let Some(hold) = self.holds.get_mut(&id).filter(|hold| !hold.lost) else { continue };
            let claim = hold.renewal_of(now);
            if claim.ttl.is_zero() {
                continue;
            }
            let patience = (claim.ttl / 6).max(self.round_trip * 2);
            hold.renewal = NextRenewal::InFlight { asked_at: now, repeat_at: now + patience };
            claims.push(claim);
            self.set_hold_timer(id, now);
        }
        if !claims.is_empty() {
            self.now = now;
            self.calls.renew(now, claims);
        }
    }

    /// The store has answered a renewal.
    pub(super) fn renewed(&mut self, asked_at: Moment, id: HoldId, answer: Result<Renewal>) {
        let now = self.now;
        let Some(hold) = self.holds.get_mut(&id) else { return };
        let next = match answer {
            Ok(Renewal::Extended { .. }) if !hold.terms.watchdog => NextRenewal::Never,
            Ok(Renewal::Extended { valid_for }) => {
                self.metrics.renewed();
                let until = asked_at + valid_for - margin(hold.terms.ttl);
                hold.until = hold.until.max(until);
                if !hold.status.extend(hold.deadline()) {
                    return self.lose(id); // A guard has already read it as lost, so it stays lost.
                }
                NextRenewal::At(asked_at + hold.terms.ttl / 3)
            }
            Ok(Renewal::Gone) => return self.lose(id),
            Err(error) => {
                tracing::debug!(key = %hold.claim.key, %error, "a renewal had no answer");
                NextRenewal::At(now + MAX_RETRY_DELAY.min(hold.terms.ttl / 10))
            }
        };
        // An answer to an earlier renewal does not schedule the next one.
        if matches!(hold.renewal, NextRenewal::InFlight { asked_at: last, .. } if last == asked_at) {
            hold.renewal = next;
        }
        self.set_hold_timer(id, now);
    }
}
