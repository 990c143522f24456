//! The store's time, as far as a node knows it.

use std::time::{Duration, SystemTime};

use bandog_core::{Clock, Moment};

use crate::trigger::{DurationMs, UnixMs};

/// Maximum age of a reading of the store's clock. An older reading is replaced by the next reading, even if the next
/// reading is less exact.
const MAX_AGE: Duration = Duration::from_secs(30);

/// Maximum drift of this machine's or the store's clock within [`MAX_AGE`], in microseconds.
const MAX_DRIFT_MICROS: i64 = 20_000;

/// Minimum length of a step of the time that counts as a jump. Smaller steps are corrections of the clock.
const MIN_JUMP_MS: DurationMs = 100;

/// Maximum difference between this machine's clock and the store's clock that is not logged, in seconds.
const MAX_CLOCK_OFFSET: f64 = 1.0;

/// Computes the store's time. The computation starts with the time in an answer of the store, and adds the time that
/// has passed since then on the monotonic clock. So jumps of this machine's wall clock have no effect. Before the
/// store's first answer, or without a store, the result is the time of this machine's wall clock.
#[derive(Debug)]
pub(crate) struct Timekeeper {
    clock: Clock,
    /// Difference between the store's time and the monotonic clock, in microseconds.
    ahead: i64,
    /// The value of `ahead` at the last check for jumps.
    at_last_check: i64,
    /// None before the first answer of the store.
    reading: Option<ClockReading>,
    /// Whether the present difference between this machine's clock and the store's clock is logged.
    is_offset_logged: bool,
}

/// The answer of the store from which the time is computed.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    /// Duration of the call.
    round_trip: Duration,
    /// Time of the answer.
    at: Moment,
}

impl Timekeeper {
    pub(crate) fn new(clock: Clock) -> Self {
        let ahead = wall_ahead(clock);
        Self { clock, ahead, at_last_check: ahead, reading: None, is_offset_logged: false }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The time of the monotonic clock.
    pub(crate) fn moment(&self) -> Moment {
        self.clock.now()
    }

    /// The store's time in microseconds since 1970.
    pub(crate) fn micros(&self) -> i64 {
        micros_of(self.clock.now()).saturating_add(self.ahead)
    }

    /// Reads the wall clock again, unless a store has answered.
    pub(crate) fn follow_wall(&mut self) {
        if self.reading.is_none() {
            self.ahead = wall_ahead(self.clock);
        }
    }

    /// The step of the time since the last call, if it is a jump.
    pub(crate) fn jumped(&mut self) -> Option<DurationMs> {
        let by = self.ahead.saturating_sub(self.at_last_check) / 1000;
        let has_jumped = by.abs() >= MIN_JUMP_MS;
        if has_jumped {
            self.at_last_check = self.at_last_check.saturating_add(by * 1000);
        }
        has_jumped.then_some(by)
    }

    pub(crate) fn now(&self) -> UnixMs {
        self.micros().div_euclid(1000)
    }

    /// Duration until this time; zero if the time has passed.
    pub(crate) fn until(&self, time: UnixMs) -> Duration {
        let left = time.saturating_mul(1000).saturating_sub(self.micros());
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// Handles the store's time in an answer. `sent`: the time at which the call was sent. The new reading replaces the
    /// last reading in three cases: the round trip of the new reading is not longer, so the new reading is at least as
    /// exact; the last reading is too old; or the two readings contradict each other, so the store's clock was set.
    pub(crate) fn observe(&mut self, sent: Moment, store: SystemTime) {
        let (got, store) = (self.clock.now(), since_1970(store));
        let round_trip = got.since(sent);
        let is_better = |last: &ClockReading| {
            let error =
                i64::try_from(last.round_trip.as_micros() / 2).unwrap_or(i64::MAX).saturating_add(MAX_DRIFT_MICROS);
            let earliest = micros_of(sent).saturating_add(self.ahead).saturating_sub(error);
            let latest = micros_of(got).saturating_add(self.ahead).saturating_add(error);
            round_trip <= last.round_trip || got.since(last.at) > MAX_AGE || store < earliest || latest < store
        };
        if self.reading.as_ref().is_none_or(is_better) {
            self.ahead = store.saturating_sub(micros_of(sent + round_trip / 2));
            self.reading = Some(ClockReading { round_trip, at: got });
        }
    }

    /// Logs a warning if this machine's clock differs much from the store's clock. The warning is logged once, and is
    /// logged again only if the clocks have agreed since then. Returns how far the store's clock is ahead, in seconds.
    pub(super) fn check_offset(&mut self) -> f64 {
        let ahead = self.offset();
        let is_wrong = ahead.abs() > MAX_CLOCK_OFFSET;
        if is_wrong && !self.is_offset_logged {
            tracing::warn!(
                "this machine's clock differs from the store's clock by {:.1} s; ticks follow the store's clock",
                -ahead
            );
        }
        self.is_offset_logged = is_wrong;
        ahead
    }

    /// How far the store's clock is ahead of this machine's wall clock, in seconds.
    fn offset(&self) -> f64 {
        let ahead = self.micros().saturating_sub(since_1970(self.clock.wall()));
        Duration::from_micros(ahead.unsigned_abs()).as_secs_f64() * if ahead < 0 { -1.0 } else { 1.0 }
    }
}

/// How far the wall clock is ahead of the monotonic clock, in microseconds.
fn wall_ahead(clock: Clock) -> i64 {
    since_1970(clock.wall()).saturating_sub(micros_of(clock.now()))
}

fn micros_of(moment: Moment) -> i64 {
    i64::try_from(moment.as_nanos() / 1000).unwrap_or(i64::MAX)
}

fn since_1970(time: SystemTime) -> i64 {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

    /// Handles an answer of the store. `shown`: computes the store's time from the time of the monotonic clock.
    async fn answered(time: &mut Timekeeper, round_trip: Duration, shown: impl FnOnce(Duration) -> SystemTime) {
        let sent = time.moment();
        tokio::time::advance(round_trip / 2).await;
        let store = shown(time.moment().since(Moment::from_nanos(0)));
        tokio::time::advance(round_trip / 2).await;
        time.observe(sent, store);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_is_believed_even_with_a_longer_round_trip() {
        let mut time = Timekeeper::new(Clock::tokio());
        let ms = Duration::from_millis;
        answered(&mut time, ms(2), |since| EPOCH + ms(5_000_000) + since).await;
        let first = time.ahead;
        answered(&mut time, ms(300), |since| EPOCH + ms(5_000_100) + since).await;
        assert_eq!(time.ahead, first, "the answer is less exact, and does not contradict the first one");
        answered(&mut time, ms(300), |since| EPOCH + ms(4_999_000) + since).await;
        assert_eq!(first - time.ahead, 1_000_000, "the store's clock was set back by a second");
        answered(&mut time, ms(400), |since| EPOCH + ms(5_003_000) + since).await;
        assert_eq!(time.ahead - first, 3_000_000, "the store's clock was set ahead");
    }
}
