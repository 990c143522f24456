//! Warnings about calls that may wait for themselves: a task that holds a lock and locks it again waits forever, without
//! an error.
//!
//! The engine knows which task took a turn, not which task has its guard now. So a slot reports a call only if both are
//! true: the call came from the task that took the turn, and the same turn has lasted since, for a second.

use std::time::Duration;

use bandog_core::{Key, Moment};

use super::Map;
use crate::caller::Caller;

/// Minimum interval between two warnings about one name.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Names about which a warning was logged, and when.
#[derive(Default)]
pub(super) struct DeadlockWarnings(Map<Key, Moment>);

impl DeadlockWarnings {
    /// Logs that a call may wait for a turn that its own task or thread has had for this time.
    pub(super) fn warn(&mut self, key: &Key, caller: Caller, held_for: Duration, now: Moment) {
        self.0.retain(|_, warned| now.since(*warned) < WARN_INTERVAL);
        if self.0.contains_key(key) {
            return;
        }
        let held_for = held_for.as_secs_f64();
        tracing::warn!(
            %key,
            "this {caller} waits for {:?}, which it took itself {held_for:.1} s ago: while it has that guard, it waits in \
             vain; to lock again while holding, see `.by(&owner)`",
            key.as_str(),
        );
        self.0.insert(key.clone(), now);
    }
}
