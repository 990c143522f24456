//! Durations as numbers.

use std::time::Duration;

/// Maximum duration in a row, in µs: more than 36,000 years. The sum with a time of the clock is a number of the database.
const MAX_MICROS: u64 = 1 << 60;

/// A duration in µs, rounded up.
pub(super) fn micros(duration: Duration) -> i64 {
    let micros = u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
    micros.min(MAX_MICROS).cast_signed()
}

/// The duration of this number of µs.
pub(super) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
