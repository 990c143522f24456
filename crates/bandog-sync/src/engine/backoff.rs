//! Random delays before repeated requests.

use std::time::Duration;

/// Maximum of the base delay. A request without an answer is repeated after a random delay, which differs from the base
/// delay by at most a quarter.
const MAX_BACKOFF: Duration = Duration::from_millis(200);

/// A random time between half of `time` and `time`.
pub(super) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// The random delay before the next attempt. `faults` is the number of attempts that have failed so far. The first
/// delays are short, because most faults are short. Later delays are longer, so that clients do not overload a store
/// that recovers.
pub(super) fn backoff_after(faults: u32) -> Duration {
    let delay = Duration::from_millis(1) * 2u32.saturating_pow(faults.min(16));
    delay.min(MAX_BACKOFF).mul_f64(0.75 + fastrand::f64() / 2.0)
}
