//! The warnings that were logged.

use std::time::Duration;

use bandog_core::{Key, Moment};

use crate::{caller::Caller, engine::map::Map};

/// Minimum interval between two warnings about the same key.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// The keys about which a warning was logged, and when.
#[derive(Default)]
pub(in crate::engine) struct DeadlockWarnings(Map<Key, Moment>);

impl DeadlockWarnings {
    /// Logs that a call may wait for a lock that the task or thread of the call holds itself. `held_for` is the time
    /// since the task or thread took the lock. `is_upgrade`: whether a reader calls as a writer.
    pub(in crate::engine) fn warn(
        &mut self,
        key: &Key,
        caller: Caller,
        is_upgrade: bool,
        held_for: Duration,
        now: Moment,
    ) {
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
