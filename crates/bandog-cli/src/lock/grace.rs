//! When the child is told to end, and when it is made to.

use std::time::Duration;

use crate::fault::Fault;

/// The longest default between TERM and KILL.
const LONGEST: Duration = Duration::from_secs(5);
/// KILL goes out so long before the deadline, so that all are dead when it comes.
const HEAD_START: Duration = Duration::from_millis(100);

/// Bandog looks after its child at least this often: whoever started it may have blocked the signal that tells.
const LOOK: Duration = Duration::from_millis(250);

/// How much time the child gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grace {
    /// Between TERM and KILL.
    pub(super) kill_after: Duration,
    /// Between KILL and the deadline.
    pub(super) head_start: Duration,
    /// How often the deadline is looked at: more often than it moves.
    pub(super) look: Duration,
}

impl Grace {
    /// For a lock of this ttl. With a watchdog the rest of it falls to two thirds before it is renewed, so more than
    /// half of it would end a child that is in no danger.
    pub(super) fn new(ttl: Duration, watchdog: bool, kill_after: Option<Duration>) -> Result<Self, Fault> {
        let head_start = (ttl / 50).min(HEAD_START);
        let most = if watchdog { ttl / 2 } else { ttl - head_start };
        let kill_after = kill_after.unwrap_or((ttl / 6).min(LONGEST));
        if kill_after > most {
            let of = if watchdog { "half of the watchdog's ttl" } else { "the lease" };
            return Err(Fault::usage(format!(
                "--kill-after is {kill_after:?}; 0s to {most:?} are allowed, since {of} is all that a child can have"
            )));
        }
        Ok(Self { kill_after, head_start, look: (ttl / 4).min(LOOK) })
    }

    /// How long before the deadline the child is told.
    pub(super) fn warning(self) -> Duration {
        self.kill_after + self.head_start
    }
}
