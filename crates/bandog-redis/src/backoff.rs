//! The delay before each connection attempt.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Delay after the first failed attempt.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// Maximum delay between two attempts.
const MAX_DELAY: Duration = Duration::from_millis(200);
/// Minimum lifetime of a connection that counts as a success. Without it, a server that accepts and closes at once
/// would be dialled without a delay.
const MIN_LIFETIME: Duration = Duration::from_millis(200);

/// The delays between connection attempts: none before the first, then 5 ms, doubled up to 200 ms. Each is shortened by
/// a random part of up to a quarter.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    /// Records the lifetime of a connection that has ended.
    pub(crate) fn connection_lasted(&mut self, lifetime: Duration) {
        if lifetime >= MIN_LIFETIME {
            self.next = Duration::ZERO;
        }
    }

    /// The delay before the attempt that follows.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).clamp(FIRST_DELAY, MAX_DELAY);
        delay.mul_f64(1.0 - random_fraction() / 4.0)
    }
}

/// A random number from 0 to 1, so that clients of one server do not reconnect at the same moment.
fn random_fraction() -> f64 {
    let random = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or_default();
    f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
