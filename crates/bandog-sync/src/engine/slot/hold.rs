//! A *hold* is what the store gives to this client for a claim. This module handles the deadline, the renewals and the
//! turns of a hold.
//!
//! A hold serves the calls of the local queue one after another. A *turn* begins when a call gets the hold, and ends
//! when the last guard of the turn is dropped. Calls of one owner can share a turn. The grant reserves several fences
//! (fencing tokens). These fences are a block, and each turn gets the next fence of the block.
//!
//! A hold of readers is different: while it is *open*, it serves many calls at the same time. All of these turns have
//! the fence of the claim.
//!
//! # Two renewals in flight
//! If a renewal has no answer for some time, the next renewal is sent without waiting for that answer. Without this
//! rule, a single request that hangs for the whole request timeout would cause the loss of every hold whose ttl is
//! shorter than that timeout. Both renewals contain the same claim, so it does not matter in which order the store
//! applies them. The answer to the renewal that was sent last decides when to renew next. Of the renewals that have
//! succeeded, the one that was sent last sets the deadline.

use std::{sync::Arc, time::Duration};

use bandog_core::{Claim, Error, Fence, Fences, Kind, Moment};

use super::{
    attempt::{Attempt, OldHold},
    lease::Lease,
    streak::Streak,
    turn::{TurnRecord, Turns},
    validity::{NextRenewal, Validity},
};
use crate::{
    caller::Caller,
    terms::{HoldId, Terms, Ticket},
    turn::Report,
    turn_status::TurnStatus,
};

/// Maximum delay before a failed renewal is repeated.
const MAX_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The action that is due when a hold's timer fires.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HoldDue {
    /// The deadline of all turns has passed.
    Lost,
    /// A renewal is due.
    Renewal,
    Nothing,
}

/// The effect of a successful renewal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RenewalEffect {
    /// The deadline has moved, unless a renewal that was sent later has already set it.
    Renewed,
    /// Nothing has changed, because the hold has a fixed lease. The store still has the hold.
    Unchanged,
    /// The renewal succeeded, but the guards had already seen that the deadline had passed. So the turns stay lost.
    TooLate,
}

/// Why a turn is lost, as the log reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Loss {
    /// The turn has reached its `max_hold`.
    ByMaxHold,
    /// Another cause, and the caller logs the loss itself.
    Quiet,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The hold has had no turn yet. The first turn always gets the hold, even if little of the ttl is left.
    New,
    Used,
    /// All turns are lost. The slot keeps a lost hold until the guards of its turns are dropped.
    Lost,
}

/// A hold that the store granted.
pub(super) struct Hold {
    claim: Claim,
    terms: Terms,
    /// The fences that no turn has got yet.
    fences: Fences,
    /// How long the store keeps this hold.
    validity: Validity,
    /// The fixed lease. `None` if the watchdog renews the hold without an end.
    lease: Option<Box<Lease>>,
    turns: Turns,
    /// The plan for the next renewal.
    renewal: NextRenewal,
    /// When the hold's timer is due.
    wake_at: Moment,
    /// The streak to which the turns of this hold belong.
    streak: Streak,
    phase: Phase,
    /// Whether the store may still apply a request of the claim. If so, the release is sent twice.
    unsure: bool,
    /// Whether further readers can share this hold.
    is_open: bool,
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
        let validity = Validity::new(asked_at, valid_for);
        let until = validity.until;
        if until <= now {
            return None;
        }
        let terms = attempt.terms;
        let lease_end = (!terms.watchdog).then(|| asked_at + terms.ttl);
        let mut hold = Self {
            claim: attempt.claim.clone(),
            terms,
            fences,
            validity,
            lease: lease_end.map(Lease::until),
            turns: Turns::Empty,
            renewal: next_renewal(validity, lease_end),
            wake_at: until,
            streak: attempt.streak.unwrap_or_else(|| Streak::begin(now)),
            phase: Phase::New,
            unsure: attempt.unsure,
            is_open: matches!(terms.kind, Kind::Read),
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

    pub(super) fn terms(&self) -> Terms {
        self.terms
    }

    /// Whether the request that granted or last renewed this hold was sent before this moment.
    pub(super) fn began_before(&self, moment: Moment) -> bool {
        self.validity.asked_at < moment
    }

    /// Whether the request that granted or last renewed this hold was sent after this moment.
    pub(super) fn began_after(&self, moment: Moment) -> bool {
        self.validity.asked_at > moment
    }

    pub(super) fn streak(&self) -> Streak {
        self.streak
    }

    pub(super) fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// The part that an attempt needs to pass this hold.
    pub(super) fn as_old(&self) -> OldHold {
        OldHold { claim: self.claim.clone(), unsure: self.unsure }
    }

    pub(super) fn is_before_first_turn(&self) -> bool {
        self.phase == Phase::New
    }

    /// The loss of a turn of this hold. `by_max_hold`: the turn has reached its `max_hold`.
    pub(super) fn loss(&self, by_max_hold: bool) -> Loss {
        match self.terms.quiet {
            _ if by_max_hold => Loss::ByMaxHold,
            true => Loss::Quiet,
            false => Loss::Other,
        }
    }

    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(super) fn is_lost(&self) -> bool {
        self.phase == Phase::Lost
    }

    /// Whether further readers can share this hold.
    pub(super) fn is_open(&self) -> bool {
        self.is_open && !self.is_lost()
    }

    /// Number of permits that this hold takes.
    pub(super) fn permits(&self) -> u64 {
        match self.terms.kind {
            Kind::Permits { take, .. } => u64::from(take.get()),
            Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => 0,
        }
    }

    /// The fence of the oldest turn. `None` before the first turn.
    pub(super) fn fence(&self) -> Option<Fence> {
        self.turns.iter().next().map(|turn| turn.fence)
    }

    /// The oldest turn that this task or thread took.
    pub(super) fn turn_of(&self, caller: Caller) -> Option<&TurnRecord> {
        self.turns.of_caller(caller)
    }

    /// Whether the hold has a turn that is not lost.
    pub(super) fn has_live_turn(&self, now: Moment) -> bool {
        self.turns.iter().any(|turn| !turn.is_lost(now))
    }

    pub(super) fn max_hold_has_ended(&self, now: Moment) -> bool {
        self.turns.iter().any(|turn| turn.max_hold_has_ended(now))
    }

    /// The end of the hold in the store.
    pub(super) fn store_until(&self) -> Moment {
        self.validity.store_until()
    }

    /// The end of a fixed lease.
    fn lease_end(&self) -> Option<Moment> {
        self.lease.as_ref().map(|lease| lease.end())
    }

    /// Why this hold cannot stay in the store without its client. `None` if it can: the store keeps it until the end of
    /// its fixed lease, and can apply no earlier request of its claim any more.
    pub(super) fn refuses_to_detach(&mut self, now: Moment) -> Option<Error> {
        let store_until = self.validity.store_until();
        let Some(lease) = &mut self.lease else {
            let message =
                "a lock with a watchdog ends with its client; only a fixed lease (lease(ttl)) can be detached";
            return Some(Error::misused(message));
        };
        // Applied after a release, a late request would take the lock again.
        if self.unsure || !lease.is_settled(now) {
            return Some(Error::unavailable("the store has not answered each request of this lock"));
        }
        if store_until < lease.end() {
            return Some(Error::unavailable(
                "the store keeps this lock for a shorter time than its lease, and is asked again",
            ));
        }
        let is_shared = self.turns.iter().nth(1).is_some();
        is_shared.then(|| Error::misused("other guards of this client share the lock, so it cannot be detached"))
    }

    /// When the hold's timer is due.
    pub(super) fn wake_at(&self) -> Moment {
        self.wake_at
    }

    /// The fence of the next turn, if the hold can serve a call with these terms. Otherwise the hold must be passed:
    /// its terms differ, too little time is left, or all fences are used.
    pub(super) fn next_fence(&mut self, terms: Terms, now: Moment) -> Option<Fence> {
        let has_time = terms.watchdog && self.validity.has_time(now);
        if self.terms != terms || !(self.is_before_first_turn() || has_time) {
            return None;
        }
        self.fences.take()
    }

    /// The fence that all readers of this hold share.
    pub(super) fn shared_fence(&self) -> Fence {
        self.fences.last()
    }

    /// Whether a reader with these terms can share this hold now.
    pub(super) fn can_share(&self, terms: Terms, now: Moment, round_trip: Duration) -> bool {
        let is_young = !self.streak.has_lasted(now, round_trip);
        self.is_open() && self.terms == terms && terms.watchdog && is_young && self.validity.has_time(now)
    }

    /// Lets no further readers share this hold.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }

    /// Starts the turn of a call. Each turn has its own status: a loss or warning of one turn must not reach another
    /// turn.
    pub(super) fn start_turn(&mut self, ticket: Ticket, fence: Fence, caller: Caller, now: Moment) -> Arc<TurnStatus> {
        let (max_hold_end, until) = (self.terms.max_hold.map(|longest| now + longest), self.validity.until);
        let deadline = max_hold_end.map_or(until, |end| end.min(until));
        let status = Arc::new(TurnStatus::held_until(deadline));
        let (shared, warnings) = (Arc::clone(&status), Vec::new());
        self.turns.insert(TurnRecord { ticket, since: now, fence, caller, status, max_hold_end, warnings });
        if self.phase == Phase::New {
            self.phase = Phase::Used;
        }
        self.streak.add_turn();
        self.wake_at = self.wake_at.min(deadline);
        shared
    }

    pub(super) fn end_turn(&mut self, ticket: Ticket) -> Option<TurnRecord> {
        self.turns.remove(ticket)
    }

    /// Plans to wake the futures of a turn when `grace` is left before its deadline.
    pub(super) fn warn_before(&mut self, ticket: Ticket, grace: Duration, now: Moment) {
        let Some(turn) = self.turns.get_mut(ticket) else { return };
        if !turn.warnings.contains(&grace) {
            turn.warnings.push(grace);
            self.wake_at = self.wake_at.min(turn.wake_at(self.validity.until, now));
        }
    }

    /// Marks the turns that have reached their `max_hold` as lost, if the hold has several turns. Returns their fences.
    pub(super) fn lose_ended_turns(&mut self, now: Moment) -> Vec<Fence> {
        let Turns::Many(turns) = &mut self.turns else { return Vec::new() };
        let ended = turns.iter_mut().filter(|turn| turn.max_hold_has_ended(now));
        let lose = |turn: &mut TurnRecord| {
            turn.status.lose();
            turn.max_hold_end = None; // So the loss is reported only once.
            turn.fence
        };
        ended.map(lose).collect()
    }

    /// Handles the hold's timer.
    pub(super) fn due(&mut self, now: Moment) -> HoldDue {
        if now >= self.validity.until || !self.has_live_turn(now) {
            return HoldDue::Lost;
        }
        self.turns.iter().filter(|turn| !turn.warnings.is_empty()).for_each(|turn| turn.status.wake());
        let renews = self.renewal.wake().is_some_and(|moment| now >= moment);
        if renews {
            self.renewal = NextRenewal::Queued;
        }
        self.schedule(now);
        if renews { HoldDue::Renewal } else { HoldDue::Nothing }
    }

    /// Marks the hold and its turns as lost.
    pub(super) fn lose(&mut self) {
        self.phase = Phase::Lost;
        self.turns.iter().for_each(|turn| turn.status.lose());
        // The callers read the status of their turn when their reports are dropped.
        self.lease.iter_mut().for_each(|lease| lease.lose());
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
        // The renewal of a fixed lease asks the store for the remaining time as the new ttl, unless a caller extends the
        // lease.
        let ttl = self.lease.as_mut().map_or(self.terms.ttl, |lease| lease.ttl_of_renewal(now));
        if ttl.is_zero() {
            return None;
        }
        let repeat_after = (ttl.min(self.validity.valid_for) / 6).max(round_trip * 2);
        self.renewal = NextRenewal::InFlight { asked_at: now, repeat_at: now + repeat_after };
        self.schedule(now);
        // The fence before those of this hold. A quorum needs it if a node has lost the hold.
        let above = Fence::new(self.fences.last().get().saturating_sub(u64::from(self.claim.fences.get())));
        Some(Claim { ttl, above: Some(above), ..self.claim.clone() })
    }

    /// Records a renewal that has succeeded. If two renewals have succeeded, the renewal that was sent later sets the
    /// deadline. The deadline can also move to an earlier moment, because a store can give less time than before.
    pub(super) fn extended(&mut self, asked_at: Moment, valid_for: Duration, now: Moment) -> RenewalEffect {
        if let Some(lease) = &mut self.lease {
            lease.renewed(asked_at);
        }
        if self.lease_end().is_some_and(|end| self.validity.store_until() >= end) {
            self.schedule_renewal(asked_at, NextRenewal::Never, now);
            return RenewalEffect::Unchanged;
        }
        if asked_at >= self.validity.asked_at {
            self.validity = Validity::new(asked_at, valid_for);
            let until = self.validity.until;
            let moved = self.turns.iter().filter(|turn| turn.status.move_deadline(turn.deadline(until))).count();
            if moved == 0 {
                return RenewalEffect::TooLate;
            }
        }
        self.schedule_renewal(asked_at, next_renewal(Validity::new(asked_at, valid_for), self.lease_end()), now);
        RenewalEffect::Renewed
    }

    /// Lets the next renewal ask for at least this time, if the hold has a fixed lease. Returns true if the caller must now
    /// request that renewal.
    pub(super) fn extend(&mut self, ttl: Duration, report: Report, now: Moment) -> bool {
        let Some(lease) = &mut self.lease else { return false };
        lease.extend(ttl, report);
        let is_queued = matches!(self.renewal, NextRenewal::Queued);
        self.renewal = NextRenewal::Queued;
        self.schedule(now);
        !is_queued
    }

    /// The callers that have extended the lease with this renewal or an earlier one.
    pub(super) fn extension_answered(&mut self, asked_at: Moment) -> Vec<Report> {
        self.lease.as_mut().map(|lease| lease.answered(asked_at)).unwrap_or_default()
    }

    /// Records a renewal that has failed, and plans to repeat it soon. `timeout`: the store may still apply it for this
    /// time.
    pub(super) fn renewal_failed(&mut self, asked_at: Moment, now: Moment, timeout: Duration) {
        if let Some(lease) = &mut self.lease {
            lease.renewal_failed(asked_at, now + timeout);
        }
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

    /// Updates the moment at which the hold's timer is due.
    fn schedule(&mut self, now: Moment) {
        let until = self.validity.until;
        let turns = self.turns.iter().map(|turn| turn.wake_at(until, now));
        self.wake_at = turns.chain(self.renewal.wake()).fold(until, Moment::min);
    }
}

/// The renewal after a grant or a renewal: after a third of the validity. A fixed lease is renewed only if the store has
/// given less than the lease: a lease in ZooKeeper ends with the session, which is renewed.
fn next_renewal(validity: Validity, lease_end: Option<Moment>) -> NextRenewal {
    if lease_end.is_some_and(|end| validity.store_until() >= end) {
        return NextRenewal::Never;
    }
    NextRenewal::At(validity.asked_at + validity.valid_for / 3)
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU8, NonZeroU32};

    use bandog_core::{ClaimId, ClientId, Key, Kind};

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(3_600_000_000_000 + millis * 1_000_000)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn hold(valid_for: Duration) -> (Hold, Arc<TurnStatus>) {
        granted_hold(valid_for, true)
    }

    fn granted_hold(valid_for: Duration, watchdog: bool) -> (Hold, Arc<TurnStatus>) {
        let (ttl, fences, id) = (ms(30_000), NonZeroU32::MIN, ClaimId { client: ClientId::random(), number: 1 });
        let terms = Terms { kind: Kind::Mutex, ttl, watchdog, fences: NonZeroU8::MIN, max_hold: None, quiet: false };
        let claim = Claim { fences, ..Claim::new(Key::new("key").unwrap(), id, Kind::Mutex, ttl) };
        let fences = Fences::ending(Fence::new(1), fences);
        let mut hold = Hold::granted(&Attempt::new(claim, terms, at(0)), fences, at(0), valid_for, at(1)).unwrap();
        let fence = hold.next_fence(terms, at(1)).unwrap();
        let status = hold.start_turn(1, fence, Caller::present(), at(1));
        (hold, status)
    }

    #[test]
    fn renewals_and_the_margin_count_from_the_time_that_the_store_gave() {
        let (hold, status) = hold(ms(3000));
        assert_eq!((hold.wake_at(), status.remaining(at(1))), (at(1000), ms(2969)));
    }

    #[test]
    fn a_fixed_lease_is_renewed_until_its_end_only_if_the_store_has_given_less() {
        let (complete, _) = granted_hold(ms(30_000), false);
        assert_eq!(complete.wake_at(), at(29_700), "no renewal");

        let (mut hold, status) = granted_hold(ms(12_000), false);
        assert_eq!((hold.wake_at(), status.remaining(at(1))), (at(4000), ms(11_879)));
        assert_eq!(hold.renewal_sent(at(4000), ms(1)).unwrap().ttl, ms(26_000), "the rest of the lease");
        assert_eq!(hold.extended(at(4000), ms(12_000), at(4001)), RenewalEffect::Renewed);
        assert_eq!(hold.wake_at(), at(8000));

        let (mut hold, status) = granted_hold(ms(12_000), false);
        assert_eq!(hold.renewal_sent(at(11_000), ms(1)).unwrap().ttl, ms(19_000));
        assert_eq!(hold.extended(at(11_000), ms(19_000), at(11_001)), RenewalEffect::Renewed);
        assert_eq!((hold.wake_at(), status.remaining(at(11_001))), (at(29_810), ms(18_809)), "the end of the lease");
    }

    /// No renewal shortens a hold in the store, so an earlier renewal without an answer does not matter.
    #[test]
    fn an_extension_counts_for_its_whole_time_and_without_an_answer_the_earlier_deadline_stays() {
        let (mut hold, status) = granted_hold(ms(30_000), false);
        let extend = |hold: &mut Hold, ttl, now| {
            assert!(hold.extend(ms(ttl), tokio::sync::oneshot::channel().0, at(now)));
            hold.renewal_sent(at(now), ms(1)).unwrap().ttl
        };
        assert_eq!(extend(&mut hold, 5000, 10_000), ms(20_000), "the lease is never shortened");
        hold.renewal_failed(at(10_000), at(13_000), ms(3000));
        assert_eq!(status.remaining(at(13_000)), ms(16_700), "the earlier deadline stays");
        assert_eq!(extend(&mut hold, 60_000, 14_000), ms(60_000));
        assert_eq!(hold.extended(at(14_000), ms(60_000), at(14_001)), RenewalEffect::Renewed);
        assert_eq!(status.remaining(at(14_001)), ms(60_000 - 600 - 1));
        assert_eq!(hold.extension_answered(at(14_000)).len(), 2);
        assert_eq!(hold.wake_at(), at(74_000) - ms(600), "no further renewal");
    }

    #[test]
    fn a_renewal_can_shorten_a_hold_and_a_late_answer_to_an_earlier_renewal_cannot_lengthen_it() {
        let (mut hold, status) = hold(ms(30_000));
        assert!(hold.renew_now(at(100)));
        hold.renewal_sent(at(100), ms(1)).unwrap();
        hold.renewal_sent(at(200), ms(1)).unwrap();
        assert_eq!(hold.extended(at(200), ms(3000), at(300)), RenewalEffect::Renewed);
        assert_eq!((status.remaining(at(301)), hold.wake_at()), (ms(2869), at(1200)));
        assert_eq!(hold.extended(at(100), ms(30_000), at(301)), RenewalEffect::Renewed);
        assert_eq!((status.remaining(at(301)), hold.wake_at()), (ms(2869), at(1200)));
    }

    #[test]
    fn a_hold_that_a_guard_has_read_as_lost_is_not_renewed() {
        let (mut hold, status) = hold(ms(3000));
        assert!(status.remaining(at(2970)).is_zero());
        assert_eq!(hold.extended(at(100), ms(3000), at(2971)), RenewalEffect::TooLate);
    }
}
