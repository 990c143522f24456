//! What the store has granted: turns, renewals and deadlines.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Claim, Error, Fence, Fences, Key, Moment, Renewal, Result};
use tokio::sync::oneshot;

use super::{
    Engine, RENEWALS, Renewed, margin,
    msg::{HoldId, Terms, Ticket},
    slot::{Attempt, Spell, Stage, Waiter},
    timers::Timer,
};
use crate::{
    Owner,
    cell::{Cell, Standing},
    guard::Turn,
};

/// After so many turns a client lets others go first.
const TURNS: u32 = 64;
/// And after so long.
const SPELL: Duration = Duration::from_millis(20);
/// And not before so many trips, which a slow wire takes.
const SPELL_TRIPS: u32 = 16;
/// The longest pause before a renewal without an answer is sent again.
const RENEW_AGAIN: Duration = Duration::from_millis(200);

/// A hold that the store granted.
pub(super) struct Held {
    claim: Claim,
    terms: Terms,
    fences: Fences,
    /// Our own deadline: before the store's.
    until: Moment,
    /// When to renew; none while a renewal is on its way, and for a fixed lease.
    renew_at: Option<Moment>,
    /// How long before the deadline somebody wants to be woken.
    graces: Vec<Duration>,
    timer: Option<Moment>,
    spell: Spell,
    /// Whether nobody has had a turn at this grant yet.
    fresh: bool,
    /// A request of its claim may yet be applied.
    unsure: bool,
    lost: bool,
    turn: Weak<Turn>,
    cell: Arc<Cell>,
}

impl Held {
    /// The running turn, if it is this owner's.
    pub(super) fn turn_of(&self, owner: &Owner) -> Option<Arc<Turn>> {
        let turn = self.turn.upgrade()?;
        let same = turn.owner.as_ref().is_some_and(|present| present.is(owner));
        same.then_some(turn)
    }

    pub(super) fn close(&self) {
        self.cell.close();
    }

    pub(super) fn lose(&self) {
        self.cell.lose();
    }

    fn next_wake(&self, now: Moment) -> Moment {
        let warnings = self.graces.iter().map(|grace| self.until - *grace).filter(|moment| *moment > now);
        warnings.chain(self.renew_at).fold(self.until, Moment::min)
    }

    fn is_tired(&self, now: Moment, trip: Duration) -> bool {
        self.spell.turns >= TURNS || now.since(self.spell.since) >= SPELL.max(trip * SPELL_TRIPS)
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
        let Attempt { claim, terms, from, spell, unsure, .. } = attempt;
        let key = claim.key.clone();
        let now = self.now;
        let until = asked_at + valid_for - margin(terms.ttl);
        if until <= now {
            // The answer came too late to be used safely.
            self.owe(claim, unsure, None);
            return self.vacate(&key);
        }
        let id = claim.id.number;
        let spell = if from.is_some() { spell } else { Spell { turns: 0, since: now } };
        let renew_at = terms.watchdog.then(|| asked_at + terms.ttl / 3);
        let cell = Arc::new(Cell::held_until(until));
        let graces = Vec::new();
        let (timer, fresh, lost, turn) = (None, true, false, Weak::new());
        let held =
            Held { claim, terms, fences, until, renew_at, graces, timer, spell, fresh, unsure, lost, turn, cell };
        self.holds.insert(id, held);
        self.arm(id, now);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        slot.stage = Stage::Held(id);
        slot.fault = None;
        self.serve(id, None);
        // Not those for whom the hold is being exchanged: they may be next.
        if self.slot(&key).is_some_and(|slot| matches!(slot.stage, Stage::Held(_))) {
            self.refuse_once(&key);
        }
        self.settle(&key);
    }

    /// Gives a hold that nobody uses to the next in the queue, or back to the store.
    fn serve(&mut self, id: HoldId, report: Option<oneshot::Sender<Result<()>>>) {
        let now = self.now;
        let Some(held) = self.holds.get_mut(&id) else { return };
        let key = held.claim.key.clone();
        let Some((ticket, terms)) = self.next_waiter(&key) else { return self.give_back(id, report) };
        let Some(held) = self.holds.get_mut(&id) else { return };
        if !held.fresh && held.is_tired(now, self.trip) {
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
            self.leave(key, gone);
        }
    }

    fn give(&mut self, id: HoldId, key: &Key, ticket: Ticket, fence: Fence) {
        let Some(waiter) = self.leave(key, ticket) else { return };
        let Waiter { owner, reply, .. } = *waiter;
        // Whoever waits keeps the client alive, so without a client nobody does.
        let Some(handle) = self.handle.upgrade() else { return self.give_back(id, None) };
        let Some(held) = self.holds.get_mut(&id) else { return };
        if !held.fresh {
            // Each turn has a cell of its own: what was promised to one must not be told to another.
            held.cell = Arc::new(Cell::held_until(held.until));
            held.graces.clear();
            self.passed_on = true;
        }
        held.fresh = false;
        held.spell.turns += 1;
        let cell = Arc::clone(&held.cell);
        let turn = Arc::new(Turn { hold: id, key: key.clone(), fence, cell, owner, report: None, handle });
        held.turn = Arc::downgrade(&turn);
        if let Some(owner) = &turn.owner {
            owner.hold(key, &turn);
            self.give_to_the_same(key, owner, &turn);
        }
        // If the caller has gone, the turn comes back, is dropped, and frees the hold as any guard does.
        let _ = reply.send(Ok(Some(turn)));
    }

    /// Other calls of the same owner share the turn.
    fn give_to_the_same(&mut self, key: &Key, owner: &Owner, turn: &Arc<Turn>) {
        if !owner.asks_twice(key) {
            return;
        }
        let Some(slot) = self.slots.get(key) else { return };
        let same = |waiter: &Waiter| waiter.owner.as_ref().is_some_and(|other| other.is(owner));
        let tickets: Vec<_> = slot.queue.iter().filter(|(_, waiter)| same(waiter)).map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            let Some(waiter) = self.leave(key, ticket) else { continue };
            // The caller may have gone.
            let _ = waiter.reply.send(Ok(Some(Arc::clone(turn))));
        }
    }

    /// Exchanges a hold for a new one in one step, which nobody else can come between.
    fn pass(&mut self, id: HoldId, terms: Terms) {
        let Some(held) = self.remove(id) else { return };
        if held.unsure {
            self.owe_later(held.claim.clone());
        }
        let key = held.claim.key.clone();
        let attempt = self.attempt(&key, terms, Some(held.claim), held.spell);
        self.send(&key, attempt);
    }

    /// Gives a hold back to the store. Its slot is idle then.
    pub(super) fn give_back(&mut self, id: HoldId, report: Option<oneshot::Sender<Result<()>>>) {
        let Some(held) = self.remove(id) else { return };
        let key = held.claim.key.clone();
        self.owe(held.claim, held.unsure, report);
        if let Some(slot) = self.slots.get_mut(&key)
            && matches!(slot.stage, Stage::Held(present) if present == id)
        {
            slot.stage = Stage::Idle;
            self.settle(&key);
        }
    }

    fn remove(&mut self, id: HoldId) -> Option<Held> {
        let mut held = self.holds.remove(&id)?;
        self.timers.set(Timer::Hold(id), &mut held.timer, None);
        if let Some(slot) = self.slots.get_mut(&held.claim.key)
            && matches!(slot.stage, Stage::Held(present) if present == id)
        {
            slot.busy += 1; // Whoever has waited until now has waited for a holder: us.
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
        if held.cell.standing(now) == Standing::Lost {
            let key = held.claim.key.clone();
            self.lose(id);
            self.give_back(id, None);
            // The caller may have gone.
            return drop(report.map(|report| report.send(Err(Error::lost(&key)))));
        }
        held.cell.release();
        self.serve(id, report);
    }

    /// Somebody wants to be woken before the hold ends.
    pub(super) fn heed(&mut self, id: HoldId, grace: Duration) {
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
        if now >= held.until {
            return self.lose(id);
        }
        if !held.graces.is_empty() {
            held.cell.wake();
        }
        if held.renew_at.is_some_and(|moment| now >= moment) {
            held.renew_at = None;
            self.renewals.push(id);
        }
        self.arm(id, now);
    }

    fn arm(&mut self, id: HoldId, now: Moment) {
        let Some(held) = self.holds.get_mut(&id) else { return };
        let wake = held.next_wake(now);
        self.timers.set(Timer::Hold(id), &mut held.timer, Some(wake));
    }

    /// Renews a hold out of turn.
    pub(super) fn renew_now(&mut self, id: HoldId) {
        let now = self.now;
        let Some(held) = self.holds.get_mut(&id) else { return };
        if held.renew_at.is_some() {
            held.renew_at = Some(now);
            self.arm(id, now);
        }
    }

    /// Asks the store about the hold of a key.
    pub(super) fn doubt(&mut self, key: &Key) {
        if let Some(Stage::Held(id)) = self.slot(key).map(|slot| &slot.stage) {
            self.renew_now(*id);
        }
    }

    pub(super) fn send_renewals(&mut self) {
        let some = self.renewals.len().min(RENEWALS);
        let due = self.renewals.drain(..some);
        // A hold that has been given back since, or lost, is not renewed any more.
        let ours = due.filter_map(|id| self.holds.get(&id)).filter(|held| !held.lost);
        let claims: Vec<_> = ours.map(|held| held.claim.clone()).collect();
        if !claims.is_empty() {
            self.now = self.clock.now();
            self.calls.renew(self.now, claims);
        }
    }

    /// The store has answered a renewal.
    pub(super) fn renewed(&mut self, asked_at: Moment, id: HoldId, answer: Renewed) {
        let now = self.now;
        let Some(held) = self.holds.get_mut(&id) else { return };
        match answer {
            Ok(Renewal::Extended { valid_for }) => {
                let until = asked_at + valid_for - margin(held.terms.ttl);
                if !held.cell.extend(until) {
                    return self.lose(id); // Somebody has read it as lost already, so lost it stays.
                }
                held.until = held.until.max(until);
                held.renew_at = Some(asked_at + held.terms.ttl / 3);
            }
            Ok(Renewal::Gone) => return self.lose(id),
            Err(error) => {
                tracing::debug!(key = %held.claim.key, %error, "a renewal had no answer");
                held.renew_at = Some(now + RENEW_AGAIN.min(held.terms.ttl / 10));
            }
        }
        self.arm(id, now);
    }

    /// The hold is not ours any more. Its guards are told; the next in the queue asks the store.
    fn lose(&mut self, id: HoldId) {
        let Some(held) = self.holds.get_mut(&id) else { return };
        if std::mem::replace(&mut held.lost, true) {
            return;
        }
        let key = held.claim.key.clone();
        held.cell.lose();
        held.renew_at = None;
        self.timers.set(Timer::Hold(id), &mut held.timer, None);
        tracing::warn!(%key, fence = held.fences.last().get(), "a lock was lost");
        if self.slot(&key).is_some_and(|slot| matches!(slot.stage, Stage::Held(present) if present == id)) {
            self.vacate(&key);
        }
    }
}
