//! How the engine passes events to slots and executes their effects.
//!
//! A *slot* is the state of one key in this client. A *claim* is a request for a key, and a *hold* is what the store
//! gives for a claim. A *turn* begins when a call gets the hold, and ends when the last guard of the turn is dropped.
//! Calls of one owner can share a turn. A claim is *unsure* if one of its requests had no answer. The store may have
//! applied that request nevertheless. A *step* is a request that claims or releases a key, or does both. The *terms*
//! are what the call asks for, such as the ttl.

use std::sync::Arc;

use bandog_core::{Error, ErrorKind, Fence, Key, Released, Result};

use super::{
    Engine, SlotEntry,
    msg::{HoldId, LockReply, LockRequest, TurnGrant},
    slot::{Call, Counts, Effect, Event, NewCall, NewTurn, Slot, SlotContext},
    timers::{Timer, Timers},
};
use crate::{Owner, guard::Turn};

/// A call that waits in a slot: the owner of the call, and the channel for the answer.
pub(super) struct WaitingCall {
    /// The owner for which the call locks. `None` if the call names no owner.
    owner: Option<Owner>,
    /// Where the answer to the call goes.
    reply: LockReply,
}

impl Call for WaitingCall {
    fn has_gone(&self) -> bool {
        self.reply.is_closed()
    }

    fn shares_with(&self, other: &Self) -> bool {
        self.owner.as_ref().zip(other.owner.as_ref()).is_some_and(|(owner, other)| owner.is(other))
    }
}

impl WaitingCall {
    fn answer(self, answer: Result<Option<TurnGrant>>) {
        // The caller may have dropped its future.
        let _ = self.reply.send(answer);
    }
}

impl Engine {
    /// Handles a call that asks for a lock.
    pub(super) fn lock(&mut self, request: LockRequest) {
        let LockRequest { key, ticket, owner, caller, terms, patience, reply } = request;
        let call = WaitingCall { owner, reply };
        if self.closing.is_some() {
            return call.answer(Err(Error::closed().during("lock").at(&key)));
        }
        if self.counts.waiting >= self.max_waiting {
            let message = format!(
                "{} calls of this client already wait for locks, which is the limit (ClientOptions::max_waiting)",
                self.counts.waiting
            );
            return call.answer(Err(Error::new(ErrorKind::Overloaded, message).during("lock").at(&key)));
        }
        let new_entry = || SlotEntry { slot: Slot::new(key.clone()), timer: None };
        let entry = self.slots.entry(key.clone()).or_insert_with(new_entry);
        entry.change(&mut self.cx, &mut self.counts, &mut self.timers, |slot, cx| {
            if slot.is_held() && call.owner.as_ref().is_some_and(|owner| owner.share(&key, ticket)) {
                return call.answer(Ok(Some(TurnGrant::Shared)));
            }
            slot.on(Event::Lock(NewCall { ticket, caller, terms, patience, call }), cx);
        });
        self.after_change(&key);
    }

    /// Passes an event to a key's slot. If the slot does not exist any more, the event has no effect.
    pub(super) fn on(&mut self, key: &Key, event: Event<WaitingCall>) {
        self.change(key, |slot, cx| slot.on(event, cx));
    }

    /// Handles a slot's timer that has fired.
    pub(super) fn slot_is_due(&mut self, key: &Key) {
        if let Some(entry) = self.slots.get_mut(key) {
            entry.timer = None;
        }
        self.on(key, Event::Due);
    }

    /// Handles the end of a release request, with the store's answer or an error.
    pub(super) fn release_answered(&mut self, id: HoldId, answer: Result<Released>) {
        let now = self.cx.now;
        let woke_no_client = matches!(answer, Ok(Released::Freed { others: Some(0) }));
        let (event, answer) = match answer {
            Ok(released) => (Event::Released { woke_no_client }, self.releases.answered(id, released, now)),
            Err(error) => (Event::ReleaseFailed, self.releases.failed(id, error, now)),
        };
        self.schedule_releases();
        let Some(answer) = answer else { return };
        if let Some((report, result)) = answer.report {
            // The caller may have dropped its future.
            let _ = report.send(result);
        }
        let key = answer.key;
        if let Some(error) = answer.refused {
            tracing::warn!(%key, %error, "a lock could not be released; it expires after its ttl");
        }
        self.on(&key, event);
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

    /// Sets the timer for the next release that must be sent again.
    fn schedule_releases(&mut self) {
        self.timers.set(Timer::Releases, &mut self.releases_timer, self.releases.next_due());
    }

    /// Calls `change` with the slot of a key, and returns the result. If the key has no slot, returns `None`. After the
    /// change, this function updates the totals over all slots (`counts`) and the slot's timer, removes the slot if it
    /// is unused, and executes the effects.
    pub(super) fn change<T>(
        &mut self,
        key: &Key,
        change: impl FnOnce(&mut Slot<WaitingCall>, &mut SlotContext<WaitingCall>) -> T,
    ) -> Option<T> {
        let entry = self.slots.get_mut(key)?;
        let value = entry.change(&mut self.cx, &mut self.counts, &mut self.timers, change);
        if entry.slot.is_unused() {
            self.slots.remove(key);
        }
        self.after_change(key);
        Some(value)
    }

    /// Executes the effects of the last change, if there are any.
    fn after_change(&mut self, key: &Key) {
        if !self.cx.effects.is_empty() {
            self.execute_effects(key);
        }
    }

    fn execute_effects(&mut self, key: &Key) {
        let mut effects = std::mem::take(&mut self.cx.effects);
        for effect in effects.drain(..) {
            self.execute(key, effect);
        }
        self.cx.effects = effects; // The empty vector is reused, to save an allocation.
    }

    fn execute(&mut self, key: &Key, effect: Effect<WaitingCall>) {
        match effect {
            Effect::Send(step) => self.outbox.push(step),
            Effect::Release { claim, unsure, report } => {
                let step = self.releases.start(claim, unsure, report, self.cx.now);
                self.outbox.push(step);
                self.schedule_releases();
            }
            Effect::ReleaseLater(claim) => {
                self.releases.start_later(claim, self.cx.now);
                self.schedule_releases();
            }
            Effect::Renew(hold) => self.outbox.push_renewal(key.clone(), hold),
            Effect::Subscribe(claim) => self.calls.subscribe(claim, self.notifications.notifier(key)),
            Effect::StartTurn { call, turn } => self.start_turn(key, call, turn),
            Effect::Refuse(call) => {
                self.metrics.refused();
                call.answer(Ok(None));
            }
            Effect::Fail(call, error) => call.answer(Err(error)),
            // The caller may have dropped its future.
            Effect::Report(report, result) => drop(report.send(result)),
            // The next two functions write this client into the store's registry, for operators.
            Effect::HoldBegan => self.register_for_hold(key),
            Effect::WaitBegan => self.register_for_wait(),
            Effect::TurnEnded { held_for } => self.metrics.held(held_for),
            Effect::TurnReleased { fence } => {
                tracing::debug!(%key, fence = fence.map(Fence::get), "a lock was released");
            }
            Effect::Lost { fence, by_max_hold, is_quiet } => {
                self.metrics.lost();
                log_loss(key, fence, by_max_hold, is_quiet);
            }
            Effect::MayWaitForItself { caller, held_for } => {
                self.deadlock_warnings.warn(key, caller, held_for, self.cx.now);
            }
            Effect::Renewed => self.metrics.renewed(),
            Effect::RenewalFailed(error) => tracing::debug!(%key, %error, "a renewal had no answer"),
            Effect::SubscriptionDenied(error) => {
                tracing::warn!(%key, %error, "cannot subscribe to releases of this lock; it is polled every second");
            }
        }
    }

    /// Starts a turn: answers the call with a new turn, and lets other calls of the same owner share the turn.
    fn start_turn(&mut self, key: &Key, call: WaitingCall, turn: NewTurn) {
        let NewTurn { hold, fence, status, waited, is_passed_on } = turn;
        let WaitingCall { owner, reply } = call;
        // If the handle is gone, all callers are gone, because each caller keeps the handle alive. So the turn ends
        // immediately.
        let Some(handle) = self.handle.upgrade() else {
            return self.on(key, Event::TurnEnded { hold, report: None });
        };
        // After a hold was passed from one call to the next, the engine polls its mailbox for a short time.
        self.passed_on |= is_passed_on;
        self.metrics.acquired(waited);
        tracing::debug!(%key, fence = fence.get(), ?waited, "a lock was taken");
        // The owner of this call, and whether the owner has other calls that wait for the key. This is read before the
        // answer is sent, because the owner forgets this call after the answer.
        let waiting_owner = owner.clone().map(|owner| (owner.has_other_calls(key), owner));
        let turn = Arc::new(Turn { hold, key: key.clone(), fence, status, owner, report: None, handle });
        let weak_turn = Arc::downgrade(&turn);
        if reply.send(Ok(Some(TurnGrant::New(turn)))).is_err() {
            // The caller has dropped its future. So `send` has returned `turn`, and the drop of `turn` ends the turn.
            return;
        }
        // The caller has the turn now. The engine gives the owner only a weak reference, which does not keep the turn
        // alive.
        if let Some((has_other_calls, owner)) = waiting_owner {
            owner.hold(key, weak_turn);
            if has_other_calls {
                self.share_turn(key, &owner);
            }
        }
    }

    /// Lets other waiting calls of the same owner share the turn, unless the turn has already ended.
    fn share_turn(&mut self, key: &Key, owner: &Owner) {
        let Some(entry) = self.slots.get(key) else { return };
        let is_same = |call: &WaitingCall| call.owner.as_ref().is_some_and(|other| other.is(owner));
        let same = entry.slot.calls().filter(|(_, call)| is_same(call)).map(|(ticket, _)| ticket);
        for ticket in same.collect::<Vec<_>>().into_iter().filter(|ticket| owner.share(key, *ticket)) {
            if let Some(call) = self.change(key, |slot, cx| slot.take_call(ticket, cx)).flatten() {
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
        cx: &mut SlotContext<WaitingCall>,
        counts: &mut Counts,
        timers: &mut Timers,
        change: impl FnOnce(&mut Slot<WaitingCall>, &mut SlotContext<WaitingCall>) -> T,
    ) -> T {
        let before = self.slot.counts();
        let value = change(&mut self.slot, cx);
        *counts = *counts - before + self.slot.counts();
        let due = self.slot.next_due();
        if self.timer != due {
            timers.set(Timer::Slot(self.slot.key().clone()), &mut self.timer, due);
        }
        value
    }
}

/// Logs the loss of a lock. `by_max_hold`: the lock was lost because the turn has reached its `max_hold`. `is_quiet`:
/// the caller logs the loss itself.
fn log_loss(key: &Key, fence: Option<Fence>, by_max_hold: bool, is_quiet: bool) {
    let fence = fence.map(Fence::get);
    if by_max_hold {
        tracing::warn!(%key, fence, "a lock was lost: it was held for as long as its max_hold allows");
    } else if is_quiet {
        tracing::debug!(%key, fence, "a lock was lost");
    } else {
        tracing::warn!(%key, fence, "a lock was lost");
    }
}
