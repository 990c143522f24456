//! Calls that may wait for themselves: a task that holds a lock and asks for it again waits for ever, in silence.
//!
//! The engine knows which task took a turn, not which one has its guard now. So it warns only of what looks like it: the
//! call came from the task that took the turn, and the same turn has lasted since, for a second.

use std::time::Duration;

use bandog_core::Key;

use super::{
    Engine,
    msg::{HoldId, Ticket},
    slot::Stage,
    timers::Timer,
};
use crate::caller::Caller;

/// A call is reported that has waited for this long, or whose patience ends sooner.
const AFTER: Duration = Duration::from_secs(1);
/// At most one report of a name in this time.
const AGAIN: Duration = Duration::from_secs(60);

impl Engine {
    /// Whether this caller took the present turn of a hold.
    pub(super) fn is_own_turn(&self, hold: HoldId, caller: Caller) -> bool {
        self.holds.get(&hold).is_some_and(|held| held.caller == Some(caller))
    }

    /// A call waits for a lock that its own task took. That is checked again later.
    pub(super) fn suspect(&mut self, key: &Key, ticket: Ticket) {
        let later = self.now + AFTER;
        if let Some(waiter) = self.slots.get_mut(key).and_then(|slot| slot.queue.get_mut(&ticket)) {
            self.timers.set(Timer::Suspect(key.clone(), ticket), &mut waiter.suspect, Some(later));
        }
    }

    /// The call has waited for long.
    pub(super) fn suspect_is_due(&mut self, key: &Key, ticket: Ticket) {
        if let Some(waiter) = self.slots.get_mut(key).and_then(|slot| slot.queue.get_mut(&ticket)) {
            waiter.suspect = None;
            self.warn_of_itself(key, ticket);
        }
    }

    /// Logs that a call may wait for itself, if the turn that it waits for still is its own task's.
    pub(super) fn warn_of_itself(&mut self, key: &Key, ticket: Ticket) {
        let now = self.now;
        let Some(slot) = self.slots.get(key) else { return };
        let (Stage::Held(id), Some(waiter)) = (&slot.stage, slot.queue.get(&ticket)) else { return };
        let Some(held) = self.holds.get(id) else { return };
        if held.caller != Some(waiter.caller) || held.turn_since() > waiter.since {
            return; // Another turn has begun meanwhile.
        }
        self.suspects.retain(|_, warned| now.since(*warned) < AGAIN);
        if self.suspects.contains_key(key) {
            return;
        }
        let (caller, held_for) = (waiter.caller, now.since(held.turn_since()).as_secs_f64());
        tracing::warn!(
            %key,
            "this {caller} waits for {:?}, which it took itself {held_for:.1} s ago: while it has that guard, it waits in \
             vain; to lock again while holding, see `.by(&owner)`",
            key.as_str(),
        );
        self.suspects.insert(key.clone(), now);
    }
}
