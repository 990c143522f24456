//! Warnings about calls that may wait for themselves: a task that holds a lock and locks it again waits forever,
//! without an error.
//!
//! The engine knows which task took the lock, but not which task has the guard now. So it warns only if two conditions
//! are true: the call came from a task that took the lock before, and that turn still lasts a second after this call
//! arrived. A reader that waits for a writer of the same task, or the reverse, is found in the same way.

pub(super) mod warnings;

use bandog_core::Moment;

use super::actor::Engine;
use crate::{
    caller::Caller,
    lane::{Lane, SlotId},
};

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
