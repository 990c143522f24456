//! The constants of a run.

use std::time::Duration;

/// Number of lock names.
pub(crate) const NAMES: usize = 16;
/// Number of hot names. A hot name is a name for which many callers wait: about half of all calls use one of them.
pub(crate) const HOT: usize = 4;
/// Number of names whose locks are held for a long time. These are the last of all names. One task of each client locks
/// only these names. The other tasks rarely lock these names.
pub(crate) const LONG: usize = 2;
/// The watchdog's ttl. It is short, so that many locks are renewed, or lost, while they are held.
pub(crate) const TTL: Duration = Duration::from_millis(600);
/// The request timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);
/// Tolerance for delays on a loaded machine.
pub(crate) const SLACK: Duration = Duration::from_secs(1);
/// Maximum time until a waiter gets a free lock if the notification of the waiter was lost. docs/GUARANTEES.md promises
/// this bound.
pub(crate) const RECHECK: Duration = Duration::from_secs(1);

/// The name of the lock with this number.
pub(crate) fn name(number: usize) -> String {
    format!("storm-{number}")
}
