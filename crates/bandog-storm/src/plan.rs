//! The figures of a run.

use std::time::Duration;

/// How many names are locked.
pub(crate) const NAMES: usize = 16;
/// Half of all calls are for so many of them, so that there is a crowd.
pub(crate) const HOT: usize = 4;
/// The last so many are held for long: one task of each client locks nothing else, and others do now and then.
pub(crate) const LONG: usize = 2;
/// The watchdog's ttl: short, so that many holds live through renewals and losses.
pub(crate) const TTL: Duration = Duration::from_millis(600);
/// The request timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);
/// How late anything may be on a loaded machine.
pub(crate) const SLACK: Duration = Duration::from_secs(1);
/// Within this time a free lock with a live waiter is granted, by docs/GUARANTEES.md, if its bell was lost.
pub(crate) const RECHECK: Duration = Duration::from_secs(1);

/// The name of a lock.
pub(crate) fn name(number: usize) -> String {
    format!("storm-{number}")
}
