//! The delay before each connection attempt.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Delay after the first failed attempt.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// Maximum delay between two attempts.
const MAX_DELAY: Duration = Duration::from_millis(200);
/// Minimum lifetime of a connection that resets the delay. Without this minimum, a client would reconnect without any
/// delay to a server that accepts each connection and closes it immediately.
const MIN_LIFETIME: Duration = Duration::from_millis(200);

/// The delays between connection attempts. The first attempt has no delay. The second one waits 5 ms, and each later
/// delay is twice the previous one, up to 200 ms. Each delay is shortened by a random part of up to a quarter.
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

    /// The delay before the next attempt.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).clamp(FIRST_DELAY, MAX_DELAY);
        delay.mul_f64(1.0 - random_fraction() / 4.0)
    }
}

/// A random number between 0 and 1. Because of it, the clients of one server do not all reconnect at the same moment.
fn random_fraction() -> f64 {
    let random = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or_default();
    f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
