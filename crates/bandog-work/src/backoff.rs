//! How long a failed element waits.

use std::time::Duration;

use bandog_core::{Error, Result};

/// The time after which a failed element is delivered again. It grows with each attempt.
///
/// ```
/// # use bandog::work::Backoff;
/// # use std::time::Duration;
/// let backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(60))?;
/// assert!(backoff.after(1) >= Duration::from_secs(1));
/// assert!(backoff.after(100) <= Duration::from_secs(66)); // at most a tenth more, by chance
/// # Ok::<(), bandog::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    doubles: bool,
}

impl Backoff {
    /// `first` after the first attempt, twice as long after each further one, and at most `most`. A random part of up to a tenth
    /// is added, so that elements that failed together do not come together again. Default: 1 s, and 1 h.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: `first` is longer than `most`, or `most` is longer than a year.
    pub fn exponential(first: Duration, most: Duration) -> Result<Self> {
        if first > most || most > Duration::from_secs(365 * 86_400) {
            let message = format!("the backoff is from {first:?} to {most:?}; it must rise, to at most a year");
            return Err(Error::misused(message));
        }
        Ok(Self { first, most, doubles: true })
    }

    /// The same time after each attempt.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: it is longer than a year.
    pub fn fixed(time: Duration) -> Result<Self> {
        Self::exponential(time, time).map(|backoff| Self { doubles: false, ..backoff })
    }

    /// The time after this attempt; the first one is 1.
    pub fn after(&self, attempt: u32) -> Duration {
        let doublings = if self.doubles { attempt.saturating_sub(1).min(31) } else { 0 };
        let time = self.first.saturating_mul(1 << doublings).min(self.most);
        time + if self.doubles { time.mul_f64(fastrand::f64() / 10.0) } else { Duration::ZERO }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), most: Duration::from_secs(3600), doubles: true }
    }
}
