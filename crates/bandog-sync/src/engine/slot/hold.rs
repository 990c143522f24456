//! A *hold* is what the store gives to this client for a claim. This module handles the deadline, the renewals and the
//! turns of a hold.
//!
//! A hold serves the calls of the local queue one after another. A *turn* begins when a call gets the hold, and ends
//! when the last guard of the turn is dropped. Calls of one owner can share a turn. The grant reserves several fences
//! (fencing tokens). These fences are a block, and each turn gets the next fence of the block.
//!
//! # Two renewals in flight
//! If a renewal has no answer for some time, the next renewal is sent without waiting for that answer. Without this
//! rule, a single request that hangs for the whole request timeout would cause the loss of every hold whose ttl is
//! shorter than that timeout. Both renewals contain the same claim, so it does not matter in which order the store
//! applies them. The answer to the renewal that was sent last decides when to renew next. Of the renewals that have
//! succeeded, the one that was sent last sets the deadline.

use std::{sync::Arc, time::Duration};

use bandog_core::{Claim, Fence, Fences, Moment};

use super::{attempt::Attempt, streak::Streak};
use crate::{
    caller::Caller,
    engine::msg::{HoldId, Terms},
    turn_status::{TurnState, TurnStatus},
};

/// Maximum delay before a failed renewal is repeated.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Time between the end of a hold in this client and its end in the store. This time covers the drift of the clocks,
/// and lets the user stop in time.
fn margin(valid_for: Duration) -> Duration {
    (valid_for / 100).max(Duration::from_millis(5))
}

/// What is planned for the next renewal of a hold.
#[derive(Debug, Clone, Copy)]
enum NextRenewal {
    At(Moment),
    /// The renewal is in the outbox. It is sent when the number of renewal requests in flight is below its limit.
    Queued,
    /// A renewal was sent at `asked_at`. If there is no answer by `repeat_at`, another renewal is sent.
    InFlight {
        asked_at: Moment,
        repeat_at: Moment,
    },
    /// The lease is fixed, or the hold is lost.
    Never,
}

impl NextRenewal {
    /// When the hold's timer must fire for the renewal.
    fn wake(self) -> Option<Moment> {
        match self {
            Self::At(moment) | Self::InFlight { repeat_at: moment, .. } => Some(moment),
            Self::Queued | Self::Never => None,
        }
    }
}

/// How long the store keeps a hold. The time counts from the claim, or from the successful renewal that was sent last.
#[derive(Debug, Clone, Copy)]
struct Validity {
    /// When the request was sent. `valid_for` counts from this moment, not from the arrival of the answer.
    asked_at: Moment,
    /// How long the store keeps the hold. This time can be shorter than the ttl that the client asked for.
    valid_for: Duration,
}

impl Validity {
    /// The end of the hold in this client. This moment is earlier than the end of the hold in the store.
    fn until(self) -> Moment {
        self.asked_at + self.valid_for - margin(self.valid_for)
    }

    /// The end of the hold in the store.
    fn store_until(self) -> Moment {
        self.asked_at + self.valid_for
    }
}

/// What must be done when a hold's timer fires.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HoldDue {
    /// The deadline has passed.
    Lost,
    /// A renewal is due.
    Renewal,
    Nothing,
}

/// What a successful renewal has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RenewalEffect {
    /// The deadline has moved, unless a renewal that was sent later has already set it.
    Renewed,
    /// Nothing has changed, because the hold has a fixed lease. The store still has the hold.
    Unchanged,
    /// The renewal succeeded, but a guard had already seen that the deadline had passed. So the turn stays lost.
    TooLate,
}

/// A hold that the store granted.
pub(super) struct Hold {
    claim: Claim,
    terms: Terms,
    /// The fences that no turn has got yet.
    fences: Fences,
    /// How long the store keeps this hold.
    validity: Validity,
    /// When the present turn reaches its `max_hold` (the maximum duration of a turn).
    max_hold_end: Option<Moment>,
    /// What is planned for the next renewal.
    renewal: NextRenewal,
    /// For each of these times, the futures of the present turn are woken when only that time is left before the
    /// deadline.
    warnings: Vec<Duration>,
    /// When the hold's timer is due.
    wake_at: Moment,
    /// The streak to which the turns of this hold belong.
    streak: Streak,
    /// Whether the hold has had no turn yet. The first turn always gets the hold, even if little of the ttl is left.
    before_first_turn: bool,
    /// Whether the store may still apply a request of the claim. If so, the release is sent twice.
    unsure: bool,
    /// When the present turn began.
    turn_since: Moment,
    /// The fence of the present turn. `None` before the first turn.
    fence: Option<Fence>,
    /// The task or thread that took the present turn.
    caller: Option<Caller>,
    /// The status that the guards of the present turn read.
    status: Arc<TurnStatus>,
}

impl Hold {
    /// The hold of a granted claim. Returns `None` if the answer arrived so late that the hold has already expired in
    /// this client.
    pub(super) fn granted(
        attempt: &Attempt,
        fences: Fences,
        asked_at: Moment,
        valid_for: Duration,
        now: Moment,
    ) -> Option<Self> {
        let validity = Validity { asked_at, valid_for };
        let until = validity.until();
        if until <= now {
            return None;
        }
        let terms = attempt.terms;
        let mut hold = Self {
            claim: attempt.claim.clone(),
            terms,
            fences,
            validity,
            max_hold_end: None,
            renewal: if terms.watchdog { NextRenewal::At(asked_at + valid_for / 3) } else { NextRenewal::Never },
            warnings: Vec::new(),
            wake_at: until,
            streak: attempt.streak.unwrap_or_else(|| Streak::begin(now)),
            before_first_turn: true,
            unsure: attempt.unsure,
            turn_since: now,
            fence: None,
            caller: None,
            status: Arc::new(TurnStatus::held_until(until)),
        };
        hold.schedule(now);
        Some(hold)
    }

    pub(super) fn id(&self) -> HoldId {
        self.claim.id.number
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) fn streak(&self) -> Streak {
        self.streak
    }

    pub(super) fn is_unsure(&self) -> bool {
        self.unsure
    }

    pub(super) fn is_before_first_turn(&self) -> bool {
        self.before_first_turn
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.terms.quiet
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        self.fence
    }

    pub(super) fn status(&self) -> &Arc<TurnStatus> {
        &self.status
    }

    pub(super) fn turn_since(&self) -> Moment {
        self.turn_since
    }

    pub(super) fn was_taken_by(&self, caller: Caller) -> bool {
        self.caller == Some(caller)
    }

    pub(super) fn max_hold_has_ended(&self, now: Moment) -> bool {
        self.max_hold_end.is_some_and(|end| now >= end)
    }

    /// Whether the present turn is lost: its deadline has passed, or a guard has already seen that it passed.
    pub(super) fn is_lost(&self, now: Moment) -> bool {
        self.status.state(now) == TurnState::Lost
    }

    /// When the hold's timer is due.
    pub(super) fn wake_at(&self) -> Moment {
        self.wake_at
    }

    /// The fence of the next turn, if the hold can serve a call with these terms. Otherwise the hold must be exchanged:
    /// its terms differ, too little time is left, or all fences are used.
    pub(super) fn next_fence(&mut self, terms: Terms, now: Moment) -> Option<Fence> {
        let has_time = terms.watchdog && self.validity.until().since(now) > self.validity.valid_for / 2;
        if self.terms != terms || !(self.before_first_turn || has_time) {
            return None;
        }
        self.fences.take()
    }

    /// Starts the turn of a caller.
    pub(super) fn start_turn(&mut self, fence: Fence, caller: Caller, now: Moment) {
        self.max_hold_end = self.terms.max_hold.map(|longest| now + longest);
        if !self.before_first_turn || self.max_hold_end.is_some() {
            // Each turn has its own status: a loss or warning of one turn must not reach another turn.
            self.status = Arc::new(TurnStatus::held_until(self.deadline()));
            self.warnings.clear();
        }
        self.before_first_turn = false;
        self.turn_since = now;
        (self.fence, self.caller) = (Some(fence), Some(caller));
        self.streak.add_turn();
        if self.max_hold_end.is_some() {
            self.schedule(now);
        }
    }

    /// Plans to wake the futures of the present turn when `grace` is left before the deadline.
    pub(super) fn warn_before(&mut self, grace: Duration, now: Moment) {
        if !self.warnings.contains(&grace) {
            self.warnings.push(grace);
            self.schedule(now);
        }
    }

    /// Handles the hold's timer.
    pub(super) fn due(&mut self, now: Moment) -> HoldDue {
        if now >= self.deadline() {
            return HoldDue::Lost;
        }
        if !self.warnings.is_empty() {
            self.status.wake();
        }
        let renews = self.renewal.wake().is_some_and(|moment| now >= moment);
        if renews {
            self.renewal = NextRenewal::Queued;
        }
        self.schedule(now);
        if renews { HoldDue::Renewal } else { HoldDue::Nothing }
    }

    /// Marks a renewal as queued, to find out whether the store still has the hold. Returns true if the caller must now
    /// request that renewal. Returns false if another renewal is queued or in flight already, because its answer is
    /// enough.
    pub(super) fn renew_now(&mut self, now: Moment) -> bool {
        match self.renewal {
            NextRenewal::Queued | NextRenewal::InFlight { .. } => false,
            NextRenewal::At(_) | NextRenewal::Never => {
                self.renewal = NextRenewal::Queued;
                self.schedule(now);
                true
            }
        }
    }

    /// The claim for a renewal that is sent now. `None` means that a fixed lease has expired.
    pub(super) fn renewal_sent(&mut self, now: Moment, round_trip: Duration) -> Option<Claim> {
        // The renewal of a fixed lease only checks that the store has the hold. It asks the store for the remaining
        // time as the new ttl, so it does not extend the lease.
        let ttl = if self.terms.watchdog { self.terms.ttl } else { self.validity.store_until().since(now) };
        if ttl.is_zero() {
            return None;
        }
        let repeat_after = (ttl.min(self.validity.valid_for) / 6).max(round_trip * 2);
        self.renewal = NextRenewal::InFlight { asked_at: now, repeat_at: now + repeat_after };
        self.schedule(now);
        Some(Claim { ttl, ..self.claim.clone() })
    }

    /// Records a renewal that has succeeded. If two renewals have succeeded, the renewal that was sent later sets the
    /// deadline. The deadline can also move to an earlier moment, because a store can give less time than before.
    pub(super) fn extended(&mut self, asked_at: Moment, valid_for: Duration, now: Moment) -> RenewalEffect {
        if !self.terms.watchdog {
            self.schedule_renewal(asked_at, NextRenewal::Never, now);
            return RenewalEffect::Unchanged;
        }
        if asked_at >= self.validity.asked_at {
            self.validity = Validity { asked_at, valid_for };
            if !self.status.move_deadline(self.deadline()) {
                return RenewalEffect::TooLate;
            }
        }
        self.schedule_renewal(asked_at, NextRenewal::At(asked_at + valid_for / 3), now);
        RenewalEffect::Renewed
    }

    /// Records a renewal that has failed, and plans to repeat it soon.
    pub(super) fn renewal_failed(&mut self, asked_at: Moment, now: Moment) {
        let delay = MAX_RETRY_DELAY.min(self.validity.valid_for / 10);
        self.schedule_renewal(asked_at, NextRenewal::At(now + delay), now);
    }

    /// Called when the renewal that was sent at `asked_at` has ended. Plans the next renewal, unless a newer renewal is
    /// queued or in flight.
    fn schedule_renewal(&mut self, asked_at: Moment, next: NextRenewal, now: Moment) {
        if matches!(self.renewal, NextRenewal::InFlight { asked_at: last, .. } if last == asked_at) {
            self.renewal = next;
        }
        self.schedule(now);
    }

    /// When the present turn will be lost if no further renewal succeeds.
    fn deadline(&self) -> Moment {
        let until = self.validity.until();
        self.max_hold_end.map_or(until, |end| end.min(until))
    }

    /// Updates the moment at which the hold's timer is due.
    fn schedule(&mut self, now: Moment) {
        let deadline = self.deadline();
        let warnings = self.warnings.iter().map(|grace| deadline - *grace).filter(|moment| *moment > now);
        self.wake_at = warnings.chain(self.renewal.wake()).fold(deadline, Moment::min);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use bandog_core::{ClaimId, ClientId, Key, Kind};

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(3_600_000_000_000 + millis * 1_000_000)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn hold(valid_for: Duration) -> Hold {
        let (ttl, fences, id) = (ms(30_000), NonZeroU32::MIN, ClaimId { client: ClientId::random(), number: 1 });
        let terms = Terms { kind: Kind::Mutex, ttl, watchdog: true, fences, max_hold: None, quiet: false };
        let claim =
            Claim { key: Key::new("key").unwrap(), id, kind: Kind::Mutex, ttl, fences, joins: false, offers: false };
        let fences = Fences::ending(Fence::new(1), fences);
        Hold::granted(&Attempt::new(claim, terms, at(0)), fences, at(0), valid_for, at(1)).unwrap()
    }

    #[test]
    fn renewals_and_the_margin_count_from_the_time_that_the_store_gave() {
        let hold = hold(ms(3000));
        assert_eq!((hold.wake_at(), hold.deadline()), (at(1000), at(2970)));
    }

    #[test]
    fn a_renewal_can_shorten_a_hold_and_a_late_answer_to_an_earlier_renewal_cannot_lengthen_it() {
        let mut hold = hold(ms(30_000));
        assert!(hold.renew_now(at(100)));
        hold.renewal_sent(at(100), ms(1)).unwrap();
        hold.renewal_sent(at(200), ms(1)).unwrap();
        assert_eq!(hold.extended(at(200), ms(3000), at(300)), RenewalEffect::Renewed);
        assert_eq!((hold.deadline(), hold.wake_at()), (at(3170), at(1200)));
        assert_eq!(hold.extended(at(100), ms(30_000), at(301)), RenewalEffect::Renewed);
        assert_eq!((hold.deadline(), hold.wake_at()), (at(3170), at(1200)));
        assert_eq!(hold.status().remaining(at(301)), ms(2869));
    }

    #[test]
    fn a_hold_that_a_guard_has_read_as_lost_is_not_renewed() {
        let mut hold = hold(ms(3000));
        assert!(hold.is_lost(at(2970)));
        assert_eq!(hold.extended(at(100), ms(3000), at(2971)), RenewalEffect::TooLate);
    }
}
