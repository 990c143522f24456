//! The times at which the child gets TERM and KILL when its lock is about to expire.

use std::time::Duration;

use crate::fault::Fault;

/// The default time between TERM and KILL is at most this. The user can set a longer time with --kill-after.
const LONGEST: Duration = Duration::from_secs(5);
/// KILL is sent at most this long before the deadline. The deadline is the time at which the lock expires. The
/// processes need the time between KILL and the deadline to die.
const HEAD_START: Duration = Duration::from_millis(100);

/// Maximum interval between two checks of the child and the deadline. The child is polled because the parent of bandog
/// might have blocked SIGCHLD.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The times at which the child gets TERM and KILL, before the deadline of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grace {
    /// Time between TERM and KILL.
    pub(super) kill_after: Duration,
    /// Time between KILL and the deadline.
    pub(super) head_start: Duration,
    /// Interval between two checks of the deadline. This interval is shorter than the interval between two renewals.
    pub(super) check_interval: Duration,
}

impl Grace {
    /// The times for a lock of this ttl. `watchdog` is true if a watchdog renews the lock. Then the remaining time
    /// falls to two thirds of the ttl before each renewal. So `kill_after` must be at most half of the ttl: with a
    /// longer `kill_after`, a child would be terminated although its lock is not in danger.
    pub(super) fn new(ttl: Duration, watchdog: bool, kill_after: Option<Duration>) -> Result<Self, Fault> {
        let head_start = (ttl / 50).min(HEAD_START);
        let most = if watchdog { ttl / 2 } else { ttl - head_start };
        let kill_after = kill_after.unwrap_or((ttl / 6).min(LONGEST));
        if kill_after > most {
            let limit = if watchdog { "half of the watchdog's ttl" } else { "the lease" };
            return Err(Fault::usage(format!(
                "--kill-after is {kill_after:?}, but it must be between 0s and {most:?}, since {limit} is the maximum"
            )));
        }
        Ok(Self { kill_after, head_start, check_interval: (ttl / 4).min(CHECK_INTERVAL) })
    }

    /// Time between TERM and the deadline.
    pub(super) fn warning(self) -> Duration {
        self.kill_after + self.head_start
    }
}
