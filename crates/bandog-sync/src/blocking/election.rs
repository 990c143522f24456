//! Elections, for code without async.

use std::time::Duration;

use bandog_core::{Fence, Holding, Result};

use super::{
    Expiring, Lost,
    calls::blocking_calls,
    thread,
    wait::{answer, wait},
};
use crate::Leader;

/// An election: among all candidates with the same name, one is the leader at a time. See [`crate::Election`].
///
/// ```
/// # fn main() -> bandog::Result<()> {
/// let client = bandog::blocking::connect("memory:")?;
/// let billing = client.election("billing").candidate("http://10.0.0.7:8080");
/// let leadership = billing.campaign()?; // waits until this candidate is the leader
/// let leader = billing.leader()?.expect("there is a leader");
/// assert_eq!((leader.text(), leader.fence()), ("http://10.0.0.7:8080", leadership.fence()));
/// leadership.resign()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Election {
    election: crate::Election,
}

impl Election {
    pub(super) fn new(election: crate::Election) -> Self {
        Self { election }
    }

    /// The same election with this text, which observers get while this candidate is the leader. See
    /// [`crate::Election::candidate`].
    #[must_use]
    pub fn candidate(self, text: impl Into<String>) -> Self {
        Self { election: self.election.candidate(text) }
    }

    /// The same election with this ttl instead of the client's ttl. See [`crate::Election::watchdog`].
    #[must_use]
    pub fn watchdog(self, ttl: Duration) -> Self {
        Self { election: self.election.watchdog(ttl) }
    }

    /// Waits until this candidate is the leader.
    ///
    /// A leadership belongs to no thread. If a thread is the leader and calls this function for the same election, the
    /// thread waits forever.
    ///
    /// # Errors
    /// As [`crate::Election::campaign`], and `ErrorKind::Misused` in async code.
    pub fn campaign(&self) -> Result<Leadership> {
        thread::may_block("campaign")?;
        wait(self.election.campaign()).map(Leadership::new)
    }

    /// Waits until this candidate is the leader, for at most `limit`. The maximum is 365 days. Returns `None` if it is not
    /// the leader by then. If `limit` is zero, the call makes one attempt.
    ///
    /// # Errors
    /// As [`crate::Election::campaign_for`], and `ErrorKind::Misused` in async code.
    pub fn campaign_for(&self, limit: Duration) -> Result<Option<Leadership>> {
        thread::may_block("campaign")?;
        Ok(wait(self.election.campaign_for(limit))?.map(Leadership::new))
    }

    /// Waits until this candidate is the leader, runs the body and resigns, also if the body panics. A loss does not stop
    /// the body.
    ///
    /// # Errors
    /// As [`Election::campaign`], and `ErrorKind::Lost` if the leadership was lost before the body ended.
    pub fn run<T>(&self, body: impl FnOnce(&Leadership) -> T) -> Result<T> {
        let leadership = self.campaign()?;
        let value = body(&leadership);
        leadership.leadership.guard().check_held()?;
        // The leadership lasted until the body ended, so the value is valid even if the resignation fails.
        let _ = leadership.resign();
        Ok(value)
    }

    blocking_calls! { Election.election:
        /// The present leader, or `None` if there is none.
        fn leader() -> Option<Leader>;
    }

    /// Observes the leader. This does no I/O.
    pub fn observe(&self) -> Observer {
        Observer { observer: self.election.observe() }
    }
}

/// The guard of a leader. The leadership lasts until this guard is dropped or resigned, or until it is lost. See
/// [`crate::Leadership`].
#[derive(Debug)]
#[must_use = "a leadership ends as soon as its guard is dropped"]
pub struct Leadership {
    leadership: crate::Leadership,
}

impl Leadership {
    fn new(leadership: crate::Leadership) -> Self {
        Self { leadership }
    }

    /// The fencing token of this leadership: a number that is greater than the number of every earlier leader.
    pub fn fence(&self) -> Fence {
        self.leadership.fence()
    }

    /// The claim of this leadership. See [`crate::Leadership::holding`].
    pub fn holding(&self) -> Holding {
        self.leadership.holding()
    }

    /// Whether the leadership is lost, so that there might be another leader now.
    pub fn is_lost(&self) -> bool {
        self.leadership.is_lost()
    }

    /// Time until the leadership is lost if no further renewal succeeds. Zero if it is lost.
    pub fn remaining(&self) -> Duration {
        self.leadership.remaining()
    }

    /// A handle with which another thread can wait until this leadership is lost or resigned.
    pub fn lost(&self) -> Lost {
        Lost::of_any([self.leadership.guard()])
    }

    /// A handle with which another thread can wait until only `grace` is left before this leadership is lost. See
    /// [`crate::Leadership::expiring`].
    pub fn expiring(&self, grace: Duration) -> Expiring {
        Expiring::of_any([self.leadership.guard()], grace)
    }

    /// Ends the leadership and reports the result. Observers are notified immediately.
    ///
    /// # Errors
    /// As [`crate::Leadership::resign`], and `ErrorKind::Misused` in async code. In that case the leadership ends in the
    /// background.
    pub fn resign(self) -> Result<()> {
        thread::may_block("release").map_err(|error| self.leadership.guard().with_key(error))?;
        let handle = self.leadership.guard().handle();
        let (limit, clock) = (handle.profile.request_timeout * 3, handle.clock);
        answer(self.leadership.resign(), limit, clock)
    }

    /// Marks the leadership as lost, for tests. See [`crate::Leadership::lose`].
    #[cfg(feature = "test-util")]
    pub fn lose(&self) {
        self.leadership.lose();
    }
}

/// Reports the leader of an election, and its changes. See [`crate::Observer`].
#[derive(Debug)]
pub struct Observer {
    observer: crate::Observer,
}

impl Observer {
    /// The first call returns the present leader immediately. Each later call waits until there is a change, and
    /// returns the new leader. `None` means that there is no leader.
    ///
    /// # Errors
    /// As [`crate::Observer::changed`], and `ErrorKind::Misused` in async code.
    pub fn changed(&mut self) -> Result<Option<Leader>> {
        thread::may_block("read")?;
        wait(self.observer.changed())
    }

    /// As [`Observer::changed`], but waits for at most `limit`. The maximum is 365 days. Returns `None` if there was no
    /// change by then. If `limit` is zero, the call reads the leader once.
    ///
    /// # Errors
    /// As [`crate::Observer::changed_for`], and `ErrorKind::Misused` in async code.
    pub fn changed_for(&mut self, limit: Duration) -> Result<Option<Option<Leader>>> {
        thread::may_block("read")?;
        wait(self.observer.changed_for(limit))
    }
}
