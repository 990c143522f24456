//! What the store has granted: turns and deadlines.

use std::{sync::Arc, time::Duration};

use bandog_core::{Claim, Error, Fence, Fences, Key, Moment, Result};
use tokio::sync::oneshot;

use super::{
    Engine, margin,
    msg::{Given, HoldId, Terms, Ticket},
    renewals::Next,
    slot::{Attempt, Stage, Streak, Waiter},
    timers::Timer,
};
use crate::{
    Owner,
    caller::Caller,
    guard::Turn,
    turn_status::{Standing, TurnStatus},
};

/// A hold that the store granted.
pub(super) struct Held {
    pub(super) claim: Claim,
    pub(super) terms: Terms,
    fences: Fences,
    /// Our own deadline: before the store's.
    pub(super) until: Moment,
    /// When the present turn has lasted as long as it may.
    ends: Option<Moment>,
    pub(super) renewal: Next,
    /// How long before the deadline somebody wants to be woken.
    graces: Vec<Duration>,
    timer: Option<Moment>,
    streak: Streak,
    /// Nobody has had a turn at this grant yet: its first turn gets it as it is, however little of the ttl is left.
    fresh: bool,
    /// A request of its claim may yet be applied.
    unsure: bool,
    pub(super) lost: bool,
    turn_since: Moment,
    /// The present turn's fence, once there was a turn.
    fence: Option<Fence>,
    /// The task or thread that took the present turn.
    pub(super) caller: Option<Caller>,
    pub(super) status: Arc<TurnStatus>,
}

impl Held {
    /// When the present turn is lost, if nothing is renewed.
    pub(super) fn deadline(&self) -> Moment {
        self.ends.map_or(self.until, |ends| ends.min(self.until))
    }

    /// What a renewal asks for. A fixed lease is asked for the time that it has left: that only finds out whether the
    /// store still knows it.
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

    /// The fence of the next turn, if the hold can be given to somebody with these terms as it is.
    fn next_fence(&mut self, terms: Terms, now: Moment) -> Option<Fence> {
        let lasting = self.fresh || (terms.watchdog && self.until.since(now) > terms.ttl / 2);
        if self.terms != terms || !lasting {
            return None;
        }
        self.fences.take()
    }
}

impl Engine {
    /// The store has granted a claim. Whoever is first in the queue now gets it.
    pub(super) fn granted(&mut self, asked_at: Moment, attempt: Attempt, fences: Fences, valid_for: Duration) {
        let Attempt { claim, terms, streak, unsure, .. } = attempt;
        let key = claim.key.clone();
        let now = self.now;
        let until = asked_at + valid_for - margin(terms.ttl);
        if until <= now {
            // The answer came too late to be used safely.
            self.release(claim, unsure, None);
            return self.reclaim(&key);
        }
        let id = claim.id.number;
        let streak = streak.unwrap_or(Streak { turns: 0, since: now });
        let held = Held {
            claim,
            terms,
            fences,
            until,
            ends: None,
            renewal: if terms.watchdog { Next::At(asked_at + terms.ttl / 3) } else { Next::Never },
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
        self.holds.insert(id, held);
        self.arm(id, now);
        self.noticed_hold(&key);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.stage = Stage::Held(id);
        slot.fault = None;
        self.serve(id, None);
        // Not those for whom the hold is being exchanged: they may be next.
        if self.slot(&key).is_some_and(|slot| matches!(slot.stage, Stage::Held(_))) {
            let last = self.slot(&key).and_then(|slot| slot.once.last().copied());
            self.refuse_once(&key, last);
        }
        self.drop_if_unwanted(&key);
    }

    /// What becomes of a hold that nobody uses: it goes back to the store if nobody waits, or if this client has had
    /// it for long; to the next in the queue as it is, if that is possible; else it is exchanged for a new one.
    fn serve(&mut self, id: HoldId, report: Option<oneshot::Sender<Result<()>>>) {
        let now = self.now;
        let Some(held) = self.holds.get_mut(&id) else { return };
        let key = held.claim.key.clone();
        let Some((ticket, terms)) = self.next_waiter(&key) else { return self.give_back(id, report) };
        let Some(held) = self.holds.get_mut(&id) else { return };
        if !held.fresh && held.streak.is_tired(now, self.trip) {
            self.give_back(id, report);
            return self.rest(&key);
        }
        match held.next_fence(terms, now) {
            Some(fence) => self.give(id, &key, ticket, fence),
            None => self.pass(id, terms),
        }
        if let Some(report) = report {
            // The caller may have gone.
            let _ = report.send(Ok(()));
        }
    }

    /// The first in the queue whose caller still waits.
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

    fn give(&mut self, id: HoldId, key: &Key, ticket: Ticket, fence: Fence) {
        let Some(waiter) = self.dequeue(key, ticket) else { return };
        let Waiter { owner, reply, since, caller, .. } = *waiter;
        let now = self.now;
        // Whoever waits keeps the client alive, so without a client nobody does.
        let Some(handle) = self.handle.upgrade() else { return self.give_back(id, None) };
        let Some(held) = self.holds.get_mut(&id) else { return };
        held.ends = held.terms.max_hold.map(|longest| now + longest);
        if !held.fresh || held.ends.is_some() {
            // Each turn has a status of its own: what was promised to one must not be told to another.
            held.status = Arc::new(TurnStatus::held_until(held.deadline()));
            held.graces.clear();
        }
        self.passed_on |= !held.fresh;
        held.fresh = false;
        held.turn_since = now;
        (held.fence, held.caller) = (Some(fence), Some(caller));
        held.streak.turns += 1;
        let waited = now.since(since);
        self.metrics.acquired(waited);
        tracing::debug!(%key, fence = fence.get(), ?waited, "a lock was taken");
        let status = Arc::clone(&held.status);
        if held.ends.is_some() {
            self.arm(id, now);
        }
        let others = owner.clone().map(|owner| (owner.has_other_calls(key), owner));
        let turn = Arc::new(Turn { hold: id, key: key.clone(), fence, status, owner, report: None, handle });
        let known = Arc::downgrade(&turn);
        if reply.send(Ok(Some(Given::Turn(turn)))).is_err() {
            return; // The caller has gone. The turn has come back and was dropped, which frees the hold as any guard does.
        }
        // Nobody else knew of the turn while the engine had it.
        if let Some((has_others, owner)) = others {
            owner.hold(key, known);
            if has_others {
                self.share(key, &owner);
            }
        }
    }

    /// Other calls of the same owner take part in the turn, unless it has ended already.
    fn share(&mut self, key: &Key, owner: &Owner) {
        let Some(slot) = self.slots.get(key) else { return };
        let same = |waiter: &Waiter| waiter.owner.as_ref().is_some_and(|other| other.is(owner));
        let tickets: Vec<_> = slot.queue.iter().filter(|(_, waiter)| same(waiter)).map(|(ticket, _)| *ticket).collect();
        for ticket in tickets.into_iter().filter(|ticket| owner.share(key, *ticket)) {
            let Some(waiter) = self.dequeue(key, ticket) else { continue };
            // The caller may have gone.
            let _ = waiter.reply.send(Ok(Some(Given::Part)));
        }
    }

    /// Exchanges a hold for a new one in one step, which nobody else can come between.
    fn pass(&mut self, id: HoldId, terms: Terms) {
        let Some(held) = self.take_hold(id) else { return };
        if held.unsure {
            self.release_later(held.claim.clone());
        }
        let key = held.claim.key.clone();
        let attempt = self.attempt(&key, terms, Some(held.claim), Some(held.streak));
        self.send(&key, attempt);
    }

    /// Gives a hold back to the store. Its slot is idle then.
    pub(super) fn give_back(&mut self, id: HoldId, report: Option<oneshot::Sender<Result<()>>>) {
        let Some(held) = self.take_hold(id) else { return };
        let key = held.claim.key.clone();
        let offers = held.streak.offers(self.now);
        self.release(Claim { offers, ..held.claim }, held.unsure, report);
        if let Some(slot) = self.slots.get_mut(&key)
            && matches!(slot.stage, Stage::Held(present) if present == id)
        {
            slot.stage = Stage::Idle;
            if slot.queue.is_empty() && !held.lost && self.closing.is_none() {
                self.leave(&key, held.streak);
            }
            self.drop_if_unwanted(&key);
        }
    }

    fn take_hold(&mut self, id: HoldId) -> Option<Held> {
        let mut held = self.holds.remove(&id)?;
        self.timers.set(Timer::Hold(id), &mut held.timer, None);
        if let Some(slot) = self.slots.get_mut(&held.claim.key)
            && matches!(slot.stage, Stage::Held(present) if present == id)
        {
            slot.refusals += 1; // Whoever has waited until now has waited for a holder: us.
        }
        Some(held)
    }

    /// The last guard of a turn has gone.
    pub(super) fn free(&mut self, id: HoldId, report: Option<oneshot::Sender<Result<()>>>) {
        let now = self.now;
        let Some(held) = self.holds.get(&id) else {
            // The client was closed, and has given it back.
            return drop(report.map(|report| report.send(Err(Error::closed()))));
        };
        self.metrics.held(now.since(held.turn_since));
        if held.status.standing(now) == Standing::Lost {
            let key = held.claim.key.clone();
            let was_current = self.mark_lost(id);
            // Before the next in the queue claims, or our own hold would be in its way.
            self.give_back(id, None);
            if was_current {
                self.reclaim(&key);
            }
            // The caller may have gone.
            return drop(report.map(|report| report.send(Err(Error::lost(&key)))));
        }
        held.status.release();
        tracing::debug!(key = %held.claim.key, fence = held.fence.map(Fence::get), "a lock was given back");
        self.serve(id, report);
    }

    /// Somebody wants to be woken before the hold ends.
    pub(super) fn warn_before(&mut self, id: HoldId, grace: Duration) {
        let now = self.now;
        let Some(held) = self.holds.get_mut(&id) else { return };
        if held.lost || held.graces.contains(&grace) {
            return;
        }
        held.graces.push(grace);
        self.arm(id, now);
    }

    /// A hold's timer: a deadline, a warning or a renewal.
    pub(super) fn hold_is_due(&mut self, id: HoldId, now: Moment) {
        let Some(held) = self.holds.get_mut(&id) else { return };
        held.timer = None;
        if now >= held.deadline() {
            return self.lose(id);
        }
        if !held.graces.is_empty() {
            held.status.wake();
        }
        self.renew_if_due(id, now);
        self.arm(id, now);
    }

    pub(super) fn arm(&mut self, id: HoldId, now: Moment) {
        let Some(held) = self.holds.get_mut(&id) else { return };
        let wake = held.next_wake(now);
        self.timers.set(Timer::Hold(id), &mut held.timer, Some(wake));
    }

    /// The hold is not ours any more. Its guards are told; the next in the queue asks the store.
    pub(super) fn lose(&mut self, id: HoldId) {
        if self.mark_lost(id)
            && let Some(held) = self.holds.get(&id)
        {
            let key = held.claim.key.clone();
            self.reclaim(&key);
        }
    }

    /// Tells a hold's guards that it is lost. Whether its slot still stands at it.
    fn mark_lost(&mut self, id: HoldId) -> bool {
        let Some(held) = self.holds.get_mut(&id) else { return false };
        if std::mem::replace(&mut held.lost, true) {
            return false;
        }
        held.status.lose();
        held.renewal = Next::Never;
        self.timers.set(Timer::Hold(id), &mut held.timer, None);
        self.metrics.lost();
        let key = &held.claim.key;
        let fence = held.fence.map(Fence::get);
        match held.ends {
            Some(ends) if self.now >= ends => {
                tracing::warn!(%key, fence, "a lock was lost: it was held for as long as its max_hold allows");
            }
            Some(_) | None if held.terms.quiet => tracing::debug!(%key, fence, "a lock was lost"),
            Some(_) | None => tracing::warn!(%key, fence, "a lock was lost"),
        }
        let slot = self.slots.get(key);
        slot.is_some_and(|slot| matches!(slot.stage, Stage::Held(present) if present == id))
    }
}
