//! The delay before each connection attempt.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use bandog_core::{Error, ErrorKind};

/// Delay after the first failed attempt.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// Maximum delay between two attempts to connect to a server of the data.
const MAX_DELAY: Duration = Duration::from_millis(200);
/// A connection that lived at least this long resets the delay. A shorter connection does not reset it: some servers
/// accept each connection and close it immediately. After a reset, a client of such a server would reconnect without
/// any delay.
const MIN_LIFETIME: Duration = Duration::from_millis(200);

/// The delays before connection attempts. The first attempt has no delay. The delay before the second attempt is 5 ms.
/// Each later delay is twice the previous delay, up to a maximum, by default 200 ms. A random part, at most a quarter, is
/// then subtracted from each delay.
#[derive(Debug)]
pub struct Backoff {
    /// The next delay, before its random part is subtracted.
    next: Duration,
    max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(MAX_DELAY)
    }
}

impl Backoff {
    /// Delays up to this maximum.
    pub fn up_to(max: Duration) -> Self {
        Self { next: Duration::ZERO, max }
    }

    /// Records the lifetime of a connection that has ended. A long lifetime resets the delay to zero.
    pub fn connection_lasted(&mut self, lifetime: Duration) {
        if lifetime >= MIN_LIFETIME {
            self.next = Duration::ZERO;
        }
    }

    /// The delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).clamp(FIRST_DELAY, self.max);
        delay.mul_f64(1.0 - random_fraction() / 4.0)
    }
}

/// A random number between 0 and 1. Random delays keep the clients of one server from reconnecting at the same moment.
pub fn random_fraction() -> f64 {
    let random = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or_default();
    f64::from(random) / f64::from(u32::MAX)
}

/// The error of a connection attempt after an earlier connection. The cause may be temporary: for example, the server is
/// replaced, or the files of a certificate are. So waiters continue to wait.
pub fn retryable(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Misused | ErrorKind::Unsupported => {
            Error::unavailable("the server was reachable before, and now it is not").caused_by(error)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
