//! The settings of a cache.

use std::time::Duration;

use bandog_core::structures::NewEntry;

use crate::copies::Offline;

/// The part of a time by which it is shortened at most, at random, so that entries that were written together do not end
/// together.
const JITTER: f64 = 0.1;

#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) fresh: Duration,
    pub(super) stale: Duration,
    /// The time for which it is known that there is no value. None: this is not cached.
    pub(super) none: Option<Duration>,
    /// The time for which a caller waits for the load of another process.
    pub(super) wait: Duration,
    /// Maximum time of a request to the store, if the cache is not strict.
    pub(super) timeout: Duration,
    /// Maximum number of concurrent loads while the store is away.
    pub(super) loads: usize,
    pub(super) on_failure: OnFailure,
    /// The number of copies in this process.
    pub(super) near: Option<usize>,
    /// Maximum time for which a copy is used.
    pub(super) max_age: Duration,
    pub(super) offline: Offline,
}

/// What happens if the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnFailure {
    Load,
    Fail,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            fresh: Duration::from_secs(60),
            stale: Duration::ZERO,
            none: None,
            wait: Duration::from_secs(15),
            timeout: Duration::from_millis(500),
            loads: 64,
            on_failure: OnFailure::Load,
            near: None,
            max_age: Duration::from_secs(60),
            offline: Offline::Refuse,
        }
    }
}

impl Settings {
    /// The entry with this value. None if it is not cached.
    pub(super) fn entry(&self, value: Option<Vec<u8>>) -> Option<NewEntry> {
        match value {
            Some(_) if self.fresh.is_zero() && self.stale.is_zero() => None,
            Some(value) => Some(NewEntry { value: Some(value), fresh: shortened(self.fresh), stale: self.stale }),
            None => self.none.map(|none| NewEntry { value: None, fresh: shortened(none), stale: Duration::ZERO }),
        }
    }
}

fn shortened(time: Duration) -> Duration {
    time.mul_f64(1.0 - JITTER * fastrand::f64())
}
