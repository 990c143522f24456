//! How the engine passes events to slots and executes their effects.
//!
//! A *slot* is the state of one key in this client. A *claim* is a request for a key, and a *hold* is what the store
//! gives for a claim. A *turn* begins when a call gets the hold, and ends when the last guard of the turn is dropped.
//! Calls of one owner can share a turn. A claim is *unsure* if one of its requests had no answer. The store may have
//! applied that request nevertheless. A *step* is a request that claims or releases a key, or does both. The *terms*
//! are what the call asks for, such as the ttl.

use std::sync::Arc;

use bandog_core::{Error, ErrorKind, Fence, Key, Released, Result, rounded};

use super::{
    actor::{Engine, SlotEntry},
    call::{Call, TurnGrant},
    slot::{Counts, Effect, Event, Loss, NewTurn, Slot, SlotContext},
    timers::{Timer, Timers},
};
use crate::{
    Owner,
    lane::{Lane, SlotId},
    terms::{HoldId, Patience, Terms, Ticket},
    turn::{MaxHold, Turn},
};

impl Engine {
    /// Handles a call that asks for a lock.
    pub(super) fn lock(&mut self, key: Key, call: Box<Call>) {
        let (ticket, terms) = (call.ticket, call.terms);
        let id = SlotId { key, lane: Lane::of(terms.kind, ticket) };
        let watched = if call.can_deadlock { call.owner.clone() } else { None };
        if self.closing.is_some() {
            return call.answer(Err(Error::closed().during("lock").at(&id.key)));
        }
        if self.counts.waiting >= self.max_waiting {
            let message = format!(
                "{} calls of this client already wait for locks, which is the limit (ClientOptions::max_waiting)",
                self.counts.waiting
            );
            return call.answer(Err(Error::new(ErrorKind::Overloaded, message).during("lock").at(&id.key)));
        }
        if let Some(max) = call.max_waiters
            && !matches!(call.patience, Patience::Once)
            && self.waiting_for(&id) >= usize::try_from(max.get()).unwrap_or(usize::MAX)
        {
            if call.shares_turn(&id) {
                return call.answer(Ok(Some(TurnGrant::Shared)));
            }
            if !self.slots.get(&id).is_some_and(|entry| entry.slot.can_serve(terms, &self.cx)) {
                let message =
                    format!("this client has {max} waiting calls for this lock, and the limit is {max} (max_waiters)");
                return call.answer(Err(Error::new(ErrorKind::Overloaded, message).during("lock").at(&id.key)));
            }
        }
        self.change_or_add(&id, true, |slot, cx| {
            // For a fair mutex, the owner's turn is in another slot.
            let may_share = slot.is_held() || !matches!(id.lane, Lane::Mutex);
            if may_share && call.shares_turn(&id) {
                return call.answer(Ok(Some(TurnGrant::Shared)));
            }
            slot.on(Event::Lock(call), cx);
        });
        if let Some(owner) = watched {
            self.watch_for_deadlock(&id, ticket, owner);
        }
    }

    /// Number of the calls of this client that wait for the same lock as a call in this slot.
    fn waiting_for(&self, id: &SlotId) -> usize {
        let slot = |lane| self.slots.get(&SlotId { key: id.key.clone(), lane }).map(|entry| &entry.slot);
        match id.lane {
            Lane::Fair(_) => {
                // Each call has a slot of its own. Only the oldest one can hold the lock, or get it with its first claim.
                let oldest = self.fair_calls.oldest(&id.key).and_then(|oldest| slot(Lane::Fair(oldest)));
                let waits = oldest.is_some_and(|oldest| oldest.waiting_calls() > 0);
                self.fair_calls.count(&id.key).saturating_sub(1) + usize::from(waits)
            }
            lane => {
                let lanes = [Some(lane), lane.sibling()].into_iter().flatten();
                lanes.filter_map(slot).map(Slot::waiting_calls).sum()
            }
        }
    }

    fn add_slot(&mut self, id: SlotId) {
        let mut slot = Slot::new(id.clone());
        match id.lane {
            Lane::Fair(ticket) => self.fair_calls.insert(&id.key, ticket),
            Lane::Read => {
                let writers = self.slots.get(&SlotId { key: id.key.clone(), lane: Lane::Write });
                slot.writer_waits(writers.is_some_and(|entry| entry.slot.has_calls()));
            }
            Lane::Mutex | Lane::Write | Lane::Permits(_) => {}
        }
        self.slots.insert(id, SlotEntry { slot, timer: None });
    }

    /// Passes an event to a slot. If the slot does not exist any more, the event has no effect.
    pub(super) fn on(&mut self, id: &SlotId, event: Event) {
        self.change(id, |slot, cx| slot.on(event, cx));
    }

    /// Handles a slot's timer that has fired. If the slot is not due yet, only its timer is set again.
    pub(super) fn slot_is_due(&mut self, id: &SlotId) {
        let Some(entry) = self.slots.get_mut(id) else { return };
        entry.timer = None;
        if entry.slot.next_due().is_some_and(|due| due <= self.cx.now) {
            self.on(id, Event::Due);
        } else {
            entry.set_timer(&mut self.timers);
        }
    }

    /// Handles the end of a release request, with the store's answer or an error.
    pub(super) fn release_answered(&mut self, slot: &SlotId, id: HoldId, answer: Result<Released>) {
        let now = self.cx.now;
        let woke_no_client = matches!(answer, Ok(Released::Freed { others: Some(0) }));
        let (event, answer) = match answer {
            Ok(released) => (Event::Released { woke_no_client }, self.releases.answered(id, released, now)),
            Err(error) => (Event::ReleaseFailed, self.releases.failed(id, error, now)),
        };
        for step in self.releases.next_portion(now) {
            self.outbox.push(step);
        }
        self.schedule_releases();
        let Some(answer) = answer else { return };
        if let Some((report, result)) = answer.report {
            // The caller may have dropped its future.
            let _ = report.send(result);
        }
        if let Some(error) = answer.refused {
            tracing::warn!(key = %slot.key, %error, "a lock could not be released; it expires after its ttl");
        }
        self.on(slot, event);
    }

    /// Repeats each release that is due now.
    pub(super) fn releases_are_due(&mut self) {
        self.releases_timer = None;
        while let Some(step) = self.releases.take_due(self.cx.now) {
            self.metrics.reaped();
            self.outbox.push(step);
        }
        self.schedule_releases();
    }

    /// Repeats the releases of the last seconds. After a failover, the store may have lost them. The answers to the first
    /// ones cause the others ([`Self::release_answered`]).
    pub(super) fn repeat_recent_releases(&mut self) {
        for step in self.releases.repeat_recent(self.cx.now) {
            self.outbox.push(step);
        }
    }

    /// Sets the timer for the next release that must be sent again.
    fn schedule_releases(&mut self) {
        self.timers.set(Timer::Releases, &mut self.releases_timer, self.releases.next_due());
    }

    /// Calls `change` with a slot, and returns the result. If the slot does not exist, returns `None`. After the change,
    /// this function updates the totals over all slots (`counts`) and the slot's timer, removes the slot if it is unused,
    /// executes the effects, and informs the other slots of the key.
    pub(super) fn change<T>(
        &mut self,
        id: &SlotId,
        change: impl FnOnce(&mut Slot, &mut SlotContext) -> T,
    ) -> Option<T> {
        self.change_or_add(id, false, change)
    }

    /// As [`Self::change`]. If the slot does not exist and `adds` is true, adds the slot.
    fn change_or_add<T>(
        &mut self,
        id: &SlotId,
        adds: bool,
        change: impl FnOnce(&mut Slot, &mut SlotContext) -> T,
    ) -> Option<T> {
        let entry = match self.slots.get_mut(id) {
            Some(entry) => entry,
            None if adds => {
                self.add_slot(id.clone());
                self.slots.get_mut(id)?
            }
            None => return None,
        };
        let (had_calls, was_in_order) = (entry.slot.has_calls(), entry.slot.is_in_order());
        let value = entry.change(&mut self.cx, &mut self.counts, &mut self.timers, change);
        let (has_calls, is_held) = (entry.slot.has_calls(), entry.slot.is_held());
        let is_in_order = entry.slot.is_in_order();
        if entry.slot.is_unused() {
            self.slots.remove(id);
        }
        if !self.cx.effects.is_empty() {
            self.execute_effects(id);
        }
        if had_calls && !has_calls {
            self.wait_ended(&id.key);
        }
        match id.lane {
            Lane::Fair(ticket) if !has_calls && !is_held => {
                if let Some(next) = self.fair_calls.remove(&id.key, ticket) {
                    self.on(&next, Event::Notified);
                }
            }
            Lane::Fair(ticket) if was_in_order != is_in_order => {
                self.fair_calls.set_in_order(&id.key, ticket, is_in_order);
            }
            Lane::Write if had_calls != has_calls => {
                self.on(&SlotId { key: id.key.clone(), lane: Lane::Read }, Event::WriterWaits(has_calls));
            }
            Lane::Mutex | Lane::Fair(_) | Lane::Read | Lane::Write | Lane::Permits(_) => {}
        }
        Some(value)
    }

    fn execute_effects(&mut self, id: &SlotId) {
        let mut effects = std::mem::take(&mut self.cx.effects);
        for effect in effects.drain(..) {
            self.execute(id, effect);
        }
        self.cx.effects = effects; // The empty vector is reused, to save an allocation.
    }

    fn execute(&mut self, id: &SlotId, effect: Effect) {
        let key = &id.key;
        match effect {
            Effect::Send(step) => self.outbox.push(step),
            Effect::Release { claim, unsure, report } => {
                let step = self.releases.start(claim, unsure, report, self.cx.now);
                self.outbox.push(step);
                self.schedule_releases();
                if let Some(lane) = id.lane.sibling() {
                    // The key may be free for the sibling. Its claim is sent right behind the release.
                    self.on(&SlotId { key: key.clone(), lane }, Event::Notified);
                }
            }
            Effect::ReleaseLater(claim) => {
                self.releases.start_later(claim, self.cx.now);
                self.schedule_releases();
            }
            Effect::Renew(hold) => self.outbox.push_renewal(id.clone(), hold),
            Effect::Subscribe(claim) => self.calls.subscribe(claim, self.notifications.notifier(id)),
            Effect::StartTurn { call, turn } => self.start_turn(id, *call, turn),
            Effect::HandOver { hold, fence, terms, report } => {
                let follower = self.take_follower(key, hold, terms);
                self.on(id, Event::Follow { hold, fence, follower, report });
            }
            Effect::Adopt(adoption) => {
                let readers = SlotId { key: key.clone(), lane: Lane::Read };
                if !self.slots.contains_key(&readers) {
                    self.add_slot(readers.clone());
                }
                self.on(&readers, Event::Adopt(adoption));
            }
            Effect::Refuse(call) => {
                self.metrics.refused();
                call.answer(Ok(None));
            }
            Effect::Fail(call, error) => call.answer(Err(error)),
            // The caller may have dropped its future.
            Effect::Report(report, result) => drop(report.send(result)),
            // These write this client into the store's registry, for operators.
            Effect::HoldBegan => self.register_for_hold(key),
            Effect::Detached { until } => self.keep_registered(until),
            Effect::WaitBegan => self.register_for_wait(),
            Effect::TurnEnded { held_for, released } => {
                self.metrics.held(held_for);
                if let Some(fence) = released {
                    tracing::debug!(%key, fence = fence.get(), "a lock was released");
                }
            }
            Effect::Lost { fence, loss } => {
                self.metrics.lost();
                log_loss(key, fence, loss);
            }
            Effect::CheckForDeadlock { caller, since } => self.check_for_deadlock(id, caller, since),
            Effect::Renewed => self.metrics.renewed(),
            Effect::RenewalFailed(error) => tracing::debug!(%key, %error, "a renewal had no answer"),
            Effect::SubscriptionDenied(error) => {
                tracing::warn!(%key, %error, "cannot subscribe to releases of this lock; it is polled every second");
            }
        }
    }

    /// Removes the call that directly follows the present hold of a fair mutex in the store's queue from its own slot, and
    /// returns the call. Calls that wait no longer have left the queue, so they are skipped. `None` if the next call has
    /// other terms, or there is none.
    fn take_follower(&mut self, key: &Key, hold: HoldId, terms: Terms) -> Option<Box<Call>> {
        while let Some(ticket) = self.fair_calls.next_follower(key, hold) {
            let id = SlotId { key: key.clone(), lane: Lane::Fair(ticket) };
            match self.slots.get(&id).and_then(|entry| entry.slot.terms_of(ticket)) {
                Some(wanted) if wanted != terms => return None,
                Some(_) | None => {}
            }
            let call = self.change(&id, |slot, cx| slot.take_call(ticket, cx)).flatten();
            if let Some(call) = call.filter(|call| !call.has_gone()) {
                return Some(call);
            }
        }
        None
    }

    /// Starts a turn: answers the call with a new turn, and lets other calls of the same owner share the turn.
    fn start_turn(&mut self, id: &SlotId, call: Call, turn: NewTurn) {
        let NewTurn { hold, fence, ttl, status, waited, is_handed_over } = turn;
        let key = &id.key;
        let Call { ticket, owner, terms: Terms { kind, max_hold, .. }, reply, .. } = call;
        let max_hold = max_hold.map(|time| MaxHold { time, end: self.cx.now + time });
        let unused = Event::TurnEnded { hold, ticket, report: None };
        // If the client is gone, all callers are gone, because each caller keeps the client alive. So the turn ends
        // immediately.
        let Some(client) = self.turn_client() else {
            return self.on(id, unused);
        };
        // Several calls of one owner can get the hold of readers in the same moment. They share one turn.
        if matches!(id.lane, Lane::Read)
            && owner.as_ref().is_some_and(|owner| owner.turns().share(key, id.lane, ticket))
        {
            // The caller may have dropped its future.
            let _ = reply.send(Ok(Some(TurnGrant::Shared)));
            return self.on(id, unused);
        }
        // After a hold was handed over, the engine polls its mailbox for a short time.
        self.handed_over |= is_handed_over;
        self.metrics.acquired(waited);
        tracing::debug!(%key, fence = fence.get(), waited = %rounded(waited), "a lock was taken");
        // The other calls of this owner that wait for the key. They are read before the answer is sent, because the
        // owner forgets this call after the answer.
        let waiting_owner = owner.clone().map(|owner| (owner.turns().other_calls(key, id.lane, ticket), owner));
        let turn = Arc::new(Turn {
            slot: id.clone(),
            kind,
            hold,
            ticket,
            fence,
            ttl,
            status,
            owner: owner.map(|owner| Arc::clone(owner.turns())),
            max_hold,
            report: None,
            client,
        });
        // The owner must know the turn before the caller has it, because the caller's next call for this lock shares the
        // turn or is refused.
        let grant = match &waiting_owner {
            None => TurnGrant::New(turn),
            Some((_, owner)) => match owner.turns().start(key, turn) {
                Ok(()) => TurnGrant::Shared,
                // The call has ended, so the drop of the turn ends it. The owner must not know this turn: a call that
                // shared it could be released while the engine still keeps it.
                Err(_) if reply.is_closed() => return,
                Err(turn) => {
                    owner.turns().hold(key, &turn); // A downgrade is not among the owner's calls.
                    TurnGrant::New(turn)
                }
            },
        };
        if reply.send(Ok(Some(grant))).is_err() {
            // The caller has dropped its future. That drop ends the turn, or the drop of the grant here does.
            return;
        }
        if let Some((other_calls, owner)) = waiting_owner {
            self.share_turn(&owner, key, other_calls);
        }
    }

    /// Lets other waiting calls of the same owner share the turn, unless the turn has already ended.
    fn share_turn(&mut self, owner: &Owner, key: &Key, calls: Vec<(Ticket, Lane)>) {
        for (ticket, lane) in calls {
            if !owner.turns().share(key, lane, ticket) {
                continue;
            }
            let id = SlotId { key: key.clone(), lane };
            // A call of a deadlock has left its slot, but has not returned yet.
            let call = self.change(&id, |slot, cx| slot.take_call(ticket, cx)).flatten();
            if let Some(call) = call.or_else(|| self.deadlocks.take_lingering(ticket)) {
                call.answer(Ok(Some(TurnGrant::Shared)));
            }
        }
    }
}

impl SlotEntry {
    /// Calls `change` with the slot, and returns the result. After the change, this function updates the totals over
    /// all slots (`counts`) and the slot's timer.
    fn change<T>(
        &mut self,
        cx: &mut SlotContext,
        counts: &mut Counts,
        timers: &mut Timers,
        change: impl FnOnce(&mut Slot, &mut SlotContext) -> T,
    ) -> T {
        let before = self.slot.counts();
        let value = change(&mut self.slot, cx);
        *counts = *counts - before + self.slot.counts();
        self.set_timer(timers);
        value
    }

    /// Sets the timer for the next moment at which the slot is due. A timer that fires earlier stays: most timers belong
    /// to a hold that is released long before, and the next hold of the slot is due later. An unused slot has no timer.
    fn set_timer(&mut self, timers: &mut Timers) {
        let due = self.slot.next_due();
        let stays = match (self.timer, due) {
            (Some(timer), Some(due)) => timer <= due,
            (Some(_), None) => !self.slot.is_unused(),
            (None, due) => due.is_none(),
        };
        if !stays {
            timers.set(Timer::Slot(self.slot.id().clone()), &mut self.timer, due);
        }
    }
}

fn log_loss(key: &Key, fence: Option<Fence>, loss: Loss) {
    let fence = fence.map(Fence::get);
    match loss {
        Loss::ByMaxHold => {
            tracing::warn!(%key, fence, "a lock was lost: it was held for as long as its max_hold allows");
        }
        Loss::Quiet => tracing::debug!(%key, fence, "a lock was lost"),
        Loss::Other => tracing::warn!(%key, fence, "a lock was lost"),
    }
}
