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
pub(crate) struct Grace {
    /// Time between TERM and KILL.
    pub(crate) kill_after: Duration,
    /// Time between KILL and the deadline.
    pub(crate) head_start: Duration,
    /// Interval between two checks of the deadline. This interval is shorter than the interval between two renewals.
    pub(crate) check_interval: Duration,
}

impl Grace {
    /// The times for a lock of this ttl. `watchdog` is true if a watchdog renews the lock. Then the remaining time
    /// falls to two thirds of the ttl before each renewal. So `kill_after` must be at most half of the ttl: with a
    /// longer `kill_after`, a child would be terminated although its lock is not in danger.
    pub(crate) fn new(ttl: Duration, watchdog: bool, kill_after: Option<Duration>) -> Result<Self, Fault> {
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

    /// The times for a lock of this ttl that the store has granted for the time `valid_for`. ZooKeeper grants a lock for
    /// less than its session, which can be much less than the ttl, and the lock is renewed more often. With the times for
    /// the ttl, the child would be terminated at once. `asked` is the time that the user has set.
    pub(crate) fn within(self, valid_for: Duration, ttl: Duration, asked: Option<Duration>) -> Self {
        // A store that grants the whole ttl has needed some of it for its answer.
        if valid_for >= ttl * 3 / 4 {
            return self;
        }
        let kill_after = asked.map_or((valid_for / 6).min(LONGEST), |asked| asked.min(valid_for / 2));
        let head_start = (valid_for / 50).min(HEAD_START);
        Self { kill_after, head_start, check_interval: (valid_for / 4).min(CHECK_INTERVAL) }
    }

    /// Time between TERM and the deadline.
    pub(crate) fn warning(self) -> Duration {
        self.kill_after + self.head_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_granted_for_less_than_its_ttl_has_shorter_times() {
        let (ttl, valid_for) = (Duration::from_secs(30), Duration::from_secs(6));
        let grace = |asked| Grace::new(ttl, true, asked).unwrap_or_else(|_| panic!("{asked:?} is allowed"));
        assert_eq!(grace(None).within(Duration::from_secs(29), ttl, None), grace(None));
        let shorter = grace(None).within(valid_for, ttl, None);
        assert_eq!(shorter.kill_after, Duration::from_secs(1));
        // Before each renewal, two thirds of the time remain.
        assert!(shorter.warning() < valid_for * 2 / 3);
        let longest = Some(Duration::from_secs(15));
        let longest = grace(longest).within(valid_for, ttl, longest);
        assert_eq!(longest.kill_after, Duration::from_secs(3));
        assert!(longest.warning() < valid_for * 2 / 3);
        let shortest = Some(Duration::ZERO);
        assert_eq!(grace(shortest).within(valid_for, ttl, shortest).kill_after, Duration::ZERO);
    }
}
