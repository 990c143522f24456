//! The records of a client, for code without async.

use std::time::Duration;

use bandog_core::{Clock, Holding, Key, Line, Pattern, Reading, Records, Result, Swap, Swaps};

use super::{calls::blocking_calls, thread, wait::wait};
use crate::pause::{at_most, check_limit};

/// The records of a client's store. Created by [`super::Client::records`]. See [`crate::ClientRecords`].
///
/// ```
/// use bandog::{Key, backend::Swap};
/// # fn main() -> bandog::Result<()> {
/// let records = bandog::blocking::connect("memory:")?.records();
/// let news = Key::new("news")?;
/// let mut notifications = records.subscribe(&news)?;
/// notifications.wait()?; // The client has subscribed.
/// records.swap(&[Swap { notifies: true, ..Swap::new(news, None, "first") }])?;
/// notifications.wait()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ClientRecords {
    records: crate::ClientRecords,
}

impl ClientRecords {
    pub(super) fn new(records: crate::ClientRecords) -> Self {
        Self { records }
    }

    blocking_calls! { ClientRecords.records:
        /// Does the swaps one after the other. See [`Records::swap`].
        fn swap(swaps: &[Swap]) -> Swaps;

        /// Reads records, and checks holdings. See [`Records::read`].
        fn read(keys: &[Key], holdings: &[Holding]) -> Reading;

        /// The names of all records whose names match the pattern, sorted.
        fn names(pattern: &Pattern) -> Vec<Key>;

        /// The lines of a record's history, sorted by slot. Empty if the record does not exist.
        fn history(key: &Key) -> Vec<Line>;
    }

    /// Subscribes to a record. This call does no I/O.
    ///
    /// # Errors
    /// As [`crate::ClientRecords::subscribe`].
    pub fn subscribe(&self, record: &Key) -> Result<Notifications> {
        self.records.subscribe(record).map(|notifications| Notifications { notifications })
    }
}

/// A subscription to a record. Created by [`ClientRecords::subscribe`]. See [`crate::Notifications`].
#[derive(Debug)]
pub struct Notifications {
    notifications: crate::Notifications,
}

impl Notifications {
    /// Waits for the next notification. See [`crate::Notifications::next`].
    ///
    /// # Errors
    /// As [`crate::Notifications::next`], and `ErrorKind::Misused` in async code.
    pub fn wait(&mut self) -> Result<()> {
        thread::may_block("wait for a notification")?;
        wait(self.notifications.next())
    }

    /// As [`Notifications::wait`], but waits for at most `limit`. The maximum is 365 days. Returns whether there was a
    /// notification. If `limit` is zero, the call returns immediately.
    ///
    /// # Errors
    /// As [`Notifications::wait`], and `ErrorKind::Misused` if the limit is too long.
    pub fn wait_for(&mut self, limit: Duration) -> Result<bool> {
        thread::may_block("wait for a notification")?;
        let limit = check_limit(limit)?.unwrap_or_default();
        Ok(wait(at_most(self.notifications.next(), limit, Clock::system())).transpose()?.is_some())
    }
}
