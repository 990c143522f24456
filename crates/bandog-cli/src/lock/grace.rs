//! The times of TERM and KILL.

use std::time::Duration;

use crate::fault::Fault;

/// Maximum default time between TERM and KILL.
const LONGEST: Duration = Duration::from_secs(5);
/// Maximum time between KILL and the deadline, so that all processes are dead at the deadline.
const HEAD_START: Duration = Duration::from_millis(100);

/// Maximum interval between two checks of the child and the deadline: the parent may have blocked SIGCHLD.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The times that the child has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grace {
    /// Between TERM and KILL.
    pub(super) kill_after: Duration,
    /// Between KILL and the deadline.
    pub(super) head_start: Duration,
    /// Interval between two checks of the deadline. It is shorter than the interval of renewals.
    pub(super) check_interval: Duration,
}

impl Grace {
    /// The times for a lock of this ttl. With a watchdog the remaining time falls to two thirds before each renewal, so
    /// more than half of the ttl would terminate a child that is not in danger.
    pub(super) fn new(ttl: Duration, watchdog: bool, kill_after: Option<Duration>) -> Result<Self, Fault> {
        let head_start = (ttl / 50).min(HEAD_START);
        let most = if watchdog { ttl / 2 } else { ttl - head_start };
        let kill_after = kill_after.unwrap_or((ttl / 6).min(LONGEST));
        if kill_after > most {
            let of = if watchdog { "half of the watchdog's ttl" } else { "the lease" };
            return Err(Fault::usage(format!(
                "--kill-after is {kill_after:?}; 0s to {most:?} are allowed, since {of} is the maximum"
            )));
        }
        Ok(Self { kill_after, head_start, check_interval: (ttl / 4).min(CHECK_INTERVAL) })
    }

    /// Time between TERM and the deadline.
    pub(super) fn warning(self) -> Duration {
        self.kill_after + self.head_start
    }
}
