//! Warnings about calls that may wait for themselves: a task that holds a lock and locks it again waits forever,
//! without an error.
//!
//! The engine knows which task took the lock, but not which task has the guard now. So a slot reports a call only if
//! two conditions are true: the call came from the task that took the lock, and no other call got the lock within a
//! second after this call arrived.

use std::time::Duration;

use bandog_core::{Key, Moment};

use super::Map;
use crate::caller::Caller;

/// Minimum interval between two warnings about the same key.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// The keys about which a warning was logged, and when.
#[derive(Default)]
pub(super) struct DeadlockWarnings(Map<Key, Moment>);

impl DeadlockWarnings {
    /// Logs that a call may wait for a lock that the task or thread of the call holds itself. `held_for` is the time
    /// since the task or thread took the lock.
    pub(super) fn warn(&mut self, key: &Key, caller: Caller, held_for: Duration, now: Moment) {
        self.0.retain(|_, warned| now.since(*warned) < WARN_INTERVAL);
        if self.0.contains_key(key) {
            return;
        }
        let held_for = held_for.as_secs_f64();
        tracing::warn!(
            %key,
            "this {caller} waits for {:?}, which it took itself {held_for:.1} s ago; if it still has that \
             guard, it waits forever; to lock again while holding the lock, use `.by(&owner)`",
            key.as_str(),
        );
        self.0.insert(key.clone(), now);
    }
}
