//! How long to wait before the next dial.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(200);
/// A connection that lived shorter than this counts as a failed dial, else a server that accepts and closes at once
/// would be dialled without a pause.
const SOLID: Duration = Duration::from_millis(200);

/// The pauses between dials: none, then from 5 ms on doubling to 200 ms, each up to a quarter shorter by chance.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    next: Duration,
}

impl Pause {
    /// Notes how long a connection lived.
    pub(crate) fn lived(&mut self, time: Duration) {
        if time >= SOLID {
            self.next = Duration::ZERO;
        }
    }

    /// The pause to make now.
    pub(crate) fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).clamp(FIRST, LONGEST);
        pause.mul_f64(1.0 - chance() / 4.0)
    }
}

/// A number from 0 to 1, so that clients which lost the same server do not dial it in step.
fn chance() -> f64 {
    let random = u32::try_from(RandomState::new().hash_one(()) >> 32).unwrap_or_default();
    f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
