//! Warnings about calls that may wait for themselves: a task that holds a lock and locks it again waits forever,
//! without an error.
//!
//! The engine knows which task took the lock, but not which task has the guard now. So it warns only if two conditions
//! are true: the call came from a task that took the lock before, and that turn still lasts a second after this call
//! arrived. A reader that waits for a writer of the same task, or the reverse, is found in the same way.

use std::time::Duration;

use bandog_core::{Key, Moment};

use super::{Engine, Map};
use crate::{
    caller::Caller,
    lane::{Lane, SlotId},
};

/// Minimum interval between two warnings about the same key.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// The keys about which a warning was logged, and when.
#[derive(Default)]
pub(super) struct DeadlockWarnings(Map<Key, Moment>);

impl DeadlockWarnings {
    /// Logs that a call may wait for a lock that the task or thread of the call holds itself. `held_for` is the time
    /// since the task or thread took the lock. `is_upgrade`: whether a reader calls as a writer.
    pub(super) fn warn(&mut self, key: &Key, caller: Caller, is_upgrade: bool, held_for: Duration, now: Moment) {
        self.0.retain(|_, warned| now.since(*warned) < WARN_INTERVAL);
        if self.0.contains_key(key) {
            return;
        }
        let held_for = held_for.as_secs_f64();
        let advice = match is_upgrade {
            true => {
                "a read lock cannot become a write lock: release the read lock first, or begin with `write()` and \
                 continue with `downgrade()`"
            }
            false => "to lock again while holding the lock, use `.by(&owner)`",
        };
        tracing::warn!(
            %key,
            "this {caller} waits for {:?}, which it took itself {held_for:.1} s ago; if it still has that \
             guard, it waits forever; {advice}",
            key.as_str(),
        );
        self.0.insert(key.clone(), now);
    }
}

impl Engine {
    /// Warns about a call that has waited since `since`, if its task or thread took a turn of the key before that.
    pub(super) fn check_for_deadlock(&mut self, slot: &SlotId, caller: Caller, since: Moment) {
        let holder = match slot.lane {
            // The oldest call for a fair mutex is the holder, if this client holds the lock.
            Lane::Fair(_) => self.fair_calls.oldest(&slot.key).map(Lane::Fair),
            lane @ (Lane::Mutex | Lane::Read | Lane::Write | Lane::Permits(_)) => Some(lane),
        };
        let lanes = holder.into_iter().chain(slot.lane.sibling());
        let turn_in = |lane| {
            let entry = self.slots.get(&SlotId { key: slot.key.clone(), lane })?;
            Some((entry.slot.turn_of(caller)?, lane))
        };
        let turn = lanes.filter_map(turn_in).min_by_key(|(since, _)| *since);
        // If the turn began after the call arrived, the call does not wait for itself.
        if let Some((turn_since, lane)) = turn.filter(|(turn_since, _)| *turn_since <= since) {
            let now = self.cx.now;
            let is_upgrade = matches!((lane, slot.lane), (Lane::Read, Lane::Write));
            self.deadlock_warnings.warn(&slot.key, caller, is_upgrade, now.since(turn_since), now);
        }
    }
}
