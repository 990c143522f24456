//! Granted holds, their turns and deadlines.
//!
//! A hold serves the local queue turn by turn, each with the next fence of its block. When it cannot serve the next
//! waiter, it is exchanged at the store for a new hold, or released.

use std::{sync::Arc, time::Duration};

use bandog_core::{Claim, Error, Fence, Fences, Key, Moment, Result};
use tokio::sync::oneshot;

use super::{
    Engine, margin,
    msg::{HoldId, Terms, Ticket, TurnGrant},
    renewals::NextRenewal,
    slot::{Attempt, Stage, Streak, Waiter},
    timers::Timer,
};
use crate::{
    Owner,
    caller::Caller,
    guard::Turn,
    turn_status::{TurnState, TurnStatus},
};

/// A hold that the store granted.
pub(super) struct Hold {
    pub(super) claim: Claim,
    pub(super) terms: Terms,
    fences: Fences,
    /// The client's own deadline, which is before the store's.
    pub(super) until: Moment,
    /// When the present turn reaches its `max_hold`.
    max_hold_end: Option<Moment>,
    pub(super) renewal: NextRenewal,
    /// How long before the deadline guards of the present turn want to be woken.
    graces: Vec<Duration>,
    timer: Option<Moment>,
    streak: Streak,
    /// The hold has had no turn yet. Its first turn gets it as it is, however little of the ttl is left.
    fresh: bool,
    /// Whether a request of its claim may still be applied: the release is repeated then ([`super::releases`]).
    unsure: bool,
    pub(super) lost: bool,
    /// When the present turn began.
    turn_since: Moment,
    /// The present turn's fence, once there was a turn.
    fence: Option<Fence>,
    /// The task or thread that took the present turn.
    pub(super) caller: Option<Caller>,
    pub(super) status: Arc<TurnStatus>,
}

impl Hold {
    /// When the present turn is lost, if no renewal succeeds.
    pub(super) fn deadline(&self) -> Moment {
        self.max_hold_end.map_or(self.until, |end| end.min(self.until))
    }

    /// The claim of a renewal. For a fixed lease the renewal asks for the remaining time only: it finds out whether the
    /// store still has the hold.
    pub(super) fn renewal_of(&self, now: Moment) -> Claim {
        let ttl = if self.terms.watchdog { self.terms.ttl } else { (self.until + margin(self.terms.ttl)).since(now) };
        Claim { ttl, ..self.claim.clone() }
    }

    pub(super) fn close(&self) {
        self.status.close();
    }

    pub(super) fn lose(&self) {
        self.status.lose();
    }

    pub(super) fn turn_since(&self) -> Moment {
        self.turn_since
    }

    fn next_wake(&self, now: Moment) -> Moment {
        let deadline = self.deadline();
        let warnings = self.graces.iter().map(|grace| deadline - *grace).filter(|moment| *moment > now);
        warnings.chain(self.renewal.wake()).fold(deadline, Moment::min)
    }

    /// The fence of the next turn, if the hold can serve a waiter with these terms as it is.
    fn next_fence(&mut self, terms: Terms, now: Moment) -> Option<Fence> {
        let lasts = self.fresh || (terms.watchdog && self.until.since(now) > terms.ttl / 2);
        if self.terms != terms || !lasts {
            return None;
        }
        self.fences.take()
    }
}

impl Engine {
    /// The store has granted a claim. The first in the queue gets the hold. If all waiters have gone, the hold is
    /// released.
    pub(super) fn granted(&mut self, asked_at: Moment, attempt: Attempt, fences: Fences, valid_for: Duration) {
        let Attempt { claim, terms, streak, unsure, .. } = attempt;
        let key = claim.key.clone();
        let now = self.now;
        let until = asked_at + valid_for - margin(terms.ttl);
        if until <= now {
            // The answer came too late for a safe turn.
            self.release_claim(claim, unsure, None);
            return self.reclaim(&key);
        }
        let id = claim.id.number;
        let streak = streak.unwrap_or(Streak { turns: 0, since: now });
        let hold = Hold {
            claim,
            terms,
            fences,
            until,
            max_hold_end: None,
            renewal: if terms.watchdog { NextRenewal::At(asked_at + terms.ttl / 3) } else { NextRenewal::Never },
            graces: Vec::new(),
            timer: None,
            streak,
            fresh: true,
            unsure,
            lost: false,
            turn_since: now,
            fence: None,
            caller: None,
            status: Arc::new(TurnStatus::held_until(until)),
        };
        self.holds.insert(id, hold);
        self.set_hold_timer(id, now);
        self.register_for_hold(&key);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.stage = Stage::Held(id);
        slot.fault = None;
        self.serve_next(id, None);
        // Not during an exchange: one of them may be next.
        if self.slot(&key).is_some_and(|slot| matches!(slot.stage, Stage::Held(_))) {
            let last = self.slot(&key).and_then(|slot| slot.try_locks.last().copied());
            self.refuse_try_locks(&key, last);
        }
        self.clean_up_if_unwanted(&key);
    }

    /// Decides about a hold without a turn:
    /// - release it if no call waits, or if the streak is over;
    /// - start the turn of the next waiter, if the hold can serve it as it is;
    /// - otherwise exchange it for a new hold.
    fn serve_next(&mut self, id: HoldId, report: Option<oneshot::Sender<Result<()>>>) {
        let now = self.now;
        let Some(hold) = self.holds.get_mut(&id) else { return };
        let key = hold.claim.key.clone();
        let Some((ticket, terms)) = self.next_waiter(&key) else { return self.release_hold(id, report) };
        let Some(hold) = self.holds.get_mut(&id) else { return };
        if !hold.fresh && hold.streak.must_end(now, self.round_trip) {
            self.release_hold(id, report);
            return self.rest(&key);
        }
        match hold.next_fence(terms, now) {
            Some(fence) => self.start_turn(id, &key, ticket, fence),
            None => self.exchange(id, terms),
        }
        if let Some(report) = report {
            // The caller may have gone.
            let _ = report.send(Ok(()));
        }
    }

    /// The first in the queue whose caller still waits. Removes those before it.
    fn next_waiter(&mut self, key: &Key) -> Option<(Ticket, Terms)> {
        loop {
            let (ticket, waiter) = self.slots.get(key)?.queue.first_key_value()?;
            if !waiter.reply.is_closed() {
                return Some((*ticket, waiter.terms));
            }
            let gone = *ticket;
            self.dequeue(key, gone);
        }
    }

    fn start_turn(&mut self, id: HoldId, key: &Key, ticket: Ticket, fence: Fence) {
        let Some(waiter) = self.dequeue(key, ticket) else { return };
        let Waiter { owner, reply, since, caller, .. } = *waiter;
        let now = self.now;
        // A waiting call keeps the client alive, so without a client no call waits.
        let Some(handle) = self.handle.upgrade() else { return self.release_hold(id, None) };
        let Some(hold) = self.holds.get_mut(&id) else { return };
        hold.max_hold_end = hold.terms.max_hold.map(|longest| now + longest);
        if !hold.fresh || hold.max_hold_end.is_some() {
            // Each turn has its own status: a loss or warning of one turn must not reach another.
            hold.status = Arc::new(TurnStatus::held_until(hold.deadline()));
            hold.graces.clear();
        }
        self.passed_on |= !hold.fresh;
        hold.fresh = false;
        hold.turn_since = now;
        (hold.fence, hold.caller) = (Some(fence), Some(caller));
        hold.streak.turns += 1;
        let waited = now.since(since);
        self.metrics.acquired(waited);
        tracing::debug!(%key, fence = fence.get(), ?waited, "a lock was taken");
        let status = Arc::clone(&hold.status);
        if hold.max_hold_end.is_some() {
            self.set_hold_timer(id, now);
        }
        let others = owner.clone().map(|owner| (owner.has_other_calls(key), owner));
        let turn = Arc::new(Turn { hold: id, key: key.clone(), fence, status, owner, report: None, handle });
        let weak_turn = Arc::downgrade(&turn);
        if reply.send(Ok(Some(TurnGrant::New(turn)))).is_err() {
            return; // The caller has gone. The turn came back and was dropped, which frees the hold like any guard.
        }
        // The owner learns of the turn after the engine has let it go, so the engine never keeps a turn alive.
        if let Some((has_others, owner)) = others {
            owner.hold(key, weak_turn);
            if has_others {
                self.share_turn(key, &owner);
            }
        }
    }

    /// Serves other calls of the same owner with this turn, unless it has ended already.
    fn share_turn(&mut self, key: &Key, owner: &Owner) {
        let Some(slot) = self.slots.get(key) else { return };
        let same = |waiter: &Waiter| waiter.owner.as_ref().is_some_and(|other| other.is(owner));
        let tickets: Vec<_> = slot.queue.iter().filter(|(_, waiter)| same(waiter)).map(|(ticket, _)| *ticket).collect();
        for ticket in tickets.into_iter().filter(|ticket| owner.share(key, *ticket)) {
            let Some(waiter) = self.dequeue(key, ticket) else { continue };
            // The caller may have gone.
            let _ = waiter.reply.send(Ok(Some(TurnGrant::Shared)));
        }
    }

    /// Exchanges a hold for a new one in one step, so no other client can claim the key between the two.
    fn exchange(&mut self, id: HoldId, terms: Terms) {
        let Some(hold) = self.remove_hold(id) else { return };
        if hold.unsure {
            self.release_later(hold.claim.clone());
        }
        let key = hold.claim.key.clone();
        let attempt = self.new_attempt(&key, terms, Some(hold.claim), Some(hold.streak));
        self.send_claim(&key, attempt);
    }

    /// Releases a hold. Its slot is `Idle` then, or `Releasing`.
    pub(super) fn release_hold(&mut self, id: HoldId, report: Option<oneshot::Sender<Result<()>>>) {
        let Some(hold) = self.remove_hold(id) else { return };
        let key = hold.claim.key.clone();
        // Other clients than ours, such as Java's, get no offers: every second hold of a crowd that starves makes none.
        let offers = hold.streak.offers_at_end(self.now) && (!hold.claim.offers || fastrand::bool());
        self.release_claim(Claim { offers, ..hold.claim }, hold.unsure, report);
        if let Some(slot) = self.slots.get_mut(&key)
            && matches!(slot.stage, Stage::Held(present) if present == id)
        {
            slot.stage = Stage::Idle;
            if slot.queue.is_empty() && !hold.lost && self.closing.is_none() {
                self.mark_releasing(&key, hold.streak);
            }
            self.clean_up_if_unwanted(&key);
        }
    }

    fn remove_hold(&mut self, id: HoldId) -> Option<Hold> {
        let mut hold = self.holds.remove(&id)?;
        self.timers.set(Timer::Hold(id), &mut hold.timer, None);
        if let Some(slot) = self.slots.get_mut(&hold.claim.key)
            && matches!(slot.stage, Stage::Held(present) if present == id)
        {
            slot.refusals += 1; // Calls that have waited until now were shown a holder: this client.
        }
        Some(hold)
    }

    /// The last guard of a turn was dropped or released.
    pub(super) fn turn_ended(&mut self, id: HoldId, report: Option<oneshot::Sender<Result<()>>>) {
        let now = self.now;
        let Some(hold) = self.holds.get(&id) else {
            // The client was closed, and has released the hold.
            return drop(report.map(|report| report.send(Err(Error::closed()))));
        };
        self.metrics.held(now.since(hold.turn_since));
        if hold.status.state(now) == TurnState::Lost {
            let key = hold.claim.key.clone();
            let was_current = self.mark_lost(id);
            // The release goes before the next claim, or the client's own hold would be in the way.
            self.release_hold(id, None);
            if was_current {
                self.reclaim(&key);
            }
            // The caller may have gone.
            return drop(report.map(|report| report.send(Err(Error::lost(&key)))));
        }
        hold.status.release();
        tracing::debug!(key = %hold.claim.key, fence = hold.fence.map(Fence::get), "a lock was given back");
        self.serve_next(id, report);
    }

    /// A guard wants to be woken before the hold's deadline.
    pub(super) fn warn_before(&mut self, id: HoldId, grace: Duration) {
        let now = self.now;
        let Some(hold) = self.holds.get_mut(&id) else { return };
        if hold.lost || hold.graces.contains(&grace) {
            return;
        }
        hold.graces.push(grace);
        self.set_hold_timer(id, now);
    }

    /// The hold's timer: its deadline, a warning or a renewal.
    pub(super) fn hold_is_due(&mut self, id: HoldId, now: Moment) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        hold.timer = None;
        if now >= hold.deadline() {
            return self.lose(id);
        }
        if !hold.graces.is_empty() {
            hold.status.wake();
        }
        self.queue_renewal_if_due(id, now);
        self.set_hold_timer(id, now);
    }

    pub(super) fn set_hold_timer(&mut self, id: HoldId, now: Moment) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        let wake = hold.next_wake(now);
        self.timers.set(Timer::Hold(id), &mut hold.timer, Some(wake));
    }

    /// This client does not have the hold any more. Its guards are lost, and the next in the queue claims.
    pub(super) fn lose(&mut self, id: HoldId) {
        if self.mark_lost(id)
            && let Some(hold) = self.holds.get(&id)
        {
            let key = hold.claim.key.clone();
            self.reclaim(&key);
        }
    }

    /// Marks a hold and its guards as lost. Returns whether it was its slot's present hold.
    fn mark_lost(&mut self, id: HoldId) -> bool {
        let Some(hold) = self.holds.get_mut(&id) else { return false };
        if std::mem::replace(&mut hold.lost, true) {
            return false;
        }
        hold.status.lose();
        hold.renewal = NextRenewal::Never;
        self.timers.set(Timer::Hold(id), &mut hold.timer, None);
        self.metrics.lost();
        let key = &hold.claim.key;
        let fence = hold.fence.map(Fence::get);
        match hold.max_hold_end {
            Some(end) if self.now >= end => {
                tracing::warn!(%key, fence, "a lock was lost: it was held for as long as its max_hold allows");
            }
            Some(_) | None if hold.terms.quiet => tracing::debug!(%key, fence, "a lock was lost"),
            Some(_) | None => tracing::warn!(%key, fence, "a lock was lost"),
        }
        let slot = self.slots.get(key);
        slot.is_some_and(|slot| matches!(slot.stage, Stage::Held(present) if present == id))
    }
}
