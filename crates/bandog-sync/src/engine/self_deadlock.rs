//! Calls that may wait for themselves: a task that holds a lock and locks it again waits forever, without an error.
//!
//! The engine knows which task took a turn, not which task has its guard now. So it only warns if both are true: the
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

/// Minimum wait of a call that is reported, unless its time limit is shorter.
const WARN_AFTER: Duration = Duration::from_secs(1);
/// Minimum interval between two reports of one name.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

impl Engine {
    /// Whether this caller took the present turn of a hold.
    pub(super) fn is_own_turn(&self, hold: HoldId, caller: Caller) -> bool {
        self.holds.get(&hold).is_some_and(|hold| hold.caller == Some(caller))
    }

    /// Schedules a check of a call that waits for a lock which its own task took.
    pub(super) fn watch_for_deadlock(&mut self, key: &Key, ticket: Ticket) {
        let later = self.now + WARN_AFTER;
        if let Some(waiter) = self.slots.get_mut(key).and_then(|slot| slot.queue.get_mut(&ticket)) {
            self.timers.set(Timer::SelfDeadlock(key.clone(), ticket), &mut waiter.deadlock_timer, Some(later));
        }
    }

    /// The check is due.
    pub(super) fn deadlock_check_is_due(&mut self, key: &Key, ticket: Ticket) {
        if let Some(waiter) = self.slots.get_mut(key).and_then(|slot| slot.queue.get_mut(&ticket)) {
            waiter.deadlock_timer = None;
            self.warn_of_deadlock(key, ticket);
        }
    }

    /// Logs that a call may wait for itself, if its own task still has the turn.
    pub(super) fn warn_of_deadlock(&mut self, key: &Key, ticket: Ticket) {
        let now = self.now;
        let Some(slot) = self.slots.get(key) else { return };
        let (Stage::Held(id), Some(waiter)) = (&slot.stage, slot.queue.get(&ticket)) else { return };
        let Some(hold) = self.holds.get(id) else { return };
        if hold.caller != Some(waiter.caller) || hold.turn_since() > waiter.since {
            return; // Another turn has begun meanwhile.
        }
        self.deadlock_warnings.retain(|_, warned| now.since(*warned) < WARN_INTERVAL);
        if self.deadlock_warnings.contains_key(key) {
            return;
        }
        let (caller, held_for) = (waiter.caller, now.since(hold.turn_since()).as_secs_f64());
        tracing::warn!(
            %key,
            "this {caller} waits for {:?}, which it took itself {held_for:.1} s ago: while it has that guard, it waits in \
             vain; to lock again while holding, see `.by(&owner)`",
            key.as_str(),
        );
        self.deadlock_warnings.insert(key.clone(), now);
    }
}
