//! Retries with random delays that grow, for calls that continue while the store does not answer, or while other clients
//! change the same record.

use std::time::Duration;

/// Maximum delay before the first retry.
const MAX_FIRST_DELAY: Duration = Duration::from_millis(100);

/// Minimum duration of an attempt to change a record, for the computation of pauses.
const MIN_ATTEMPT: Duration = Duration::from_millis(1);
/// Maximum duration of an attempt in this computation. An attempt that lasts longer has waited for a store that did not
/// answer.
const MAX_ATTEMPT: Duration = Duration::from_millis(50);
/// Maximum pause after an attempt that was refused.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// The pause after an attempt to change a record that was refused because another client has changed it: a random part of
/// this number of periods, each as long as the attempt. The best number is that of the clients that try to change the
/// record at the same time, because one of them at a time can change it.
pub(crate) fn backoff(periods: u32, attempt: Duration) -> Duration {
    attempt.clamp(MIN_ATTEMPT, MAX_ATTEMPT).saturating_mul(periods).min(MAX_BACKOFF).mul_f64(fastrand::f64())
}

/// The number of failures in a row, from which the next delay is computed.
#[derive(Debug)]
pub(crate) struct Retries {
    failures: u32,
    /// Maximum delay before any retry.
    max_delay: Duration,
}

impl Retries {
    pub(crate) fn up_to(max_delay: Duration) -> Self {
        Self { failures: 0, max_delay }
    }

    /// Counts a failure, and returns the delay before the retry. The delay is random, so that clients that failed at
    /// the same time do not retry at the same time.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let max =
            MAX_FIRST_DELAY.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX)).min(self.max_delay);
        self.failures = self.failures.saturating_add(1);
        max.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Sets the number of failures to zero.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}
