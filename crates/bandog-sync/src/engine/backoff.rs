//! Random delays before repeated requests.

use std::time::Duration;

/// Maximum delay before a request without an answer is repeated. The actual delay is random: it is shorter or longer by
/// up to a quarter.
const MAX_BACKOFF: Duration = Duration::from_millis(200);

/// A random time between half of `time` and `time`.
pub(super) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// The delay before the next attempt, after this number of failed attempts. The first delays are short, because most
/// faults are short. Later delays are longer, so that clients do not overload a store that recovers.
pub(super) fn backoff_after(faults: u32) -> Duration {
    let delay = Duration::from_millis(1) * 2u32.saturating_pow(faults.min(16));
    delay.min(MAX_BACKOFF).mul_f64(0.75 + fastrand::f64() / 2.0)
}
