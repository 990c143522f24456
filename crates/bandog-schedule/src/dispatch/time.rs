//! The store's time, as well as a node knows it.

use std::time::{Duration, SystemTime};

use bandog_core::{Clock, Moment};

use crate::trigger::Ms;

/// After so long a look at the store's clock is worth less than any new one.
const STALE: Duration = Duration::from_secs(30);

/// So many microseconds a clock may drift or be moved by while a look is not stale.
const STEP: i64 = 20_000;

/// A step of the time that is smaller than this belongs to how clocks are kept right.
const JUMP: Ms = 100;

/// Counts on the monotonic clock from the store's answers, so that no jump of this machine's wall clock matters. Without
/// a store, and before its first answer, it counts from the wall clock, which it follows when it is told to.
#[derive(Debug)]
pub(crate) struct Timekeeper {
    clock: Clock,
    /// Microseconds since 1970 less the monotonic clock's.
    ahead: i64,
    /// What that was when somebody last asked for jumps.
    known: i64,
    look: Option<Look>,
}

/// The answer of the store that it counts from.
#[derive(Debug, Clone, Copy)]
struct Look {
    trip: Duration,
    at: Moment,
}

impl Timekeeper {
    pub(crate) fn new(clock: Clock) -> Self {
        let ahead = wall_ahead(clock);
        Self { clock, ahead, known: ahead, look: None }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The monotonic clock.
    pub(crate) fn moment(&self) -> Moment {
        self.clock.now()
    }

    /// Microseconds since 1970.
    pub(crate) fn micros(&self) -> i64 {
        micros_of(self.clock.now()).saturating_add(self.ahead)
    }

    /// Looks at the wall clock, unless a store has told the time.
    pub(crate) fn follow_wall(&mut self) {
        if self.look.is_none() {
            self.ahead = wall_ahead(self.clock);
        }
    }

    /// By how much the time was set since this was last asked, if that is more than clocks are kept right by.
    pub(crate) fn jumped(&mut self) -> Option<Ms> {
        let by = self.ahead.saturating_sub(self.known) / 1000;
        let has_jumped = by.abs() >= JUMP;
        if has_jumped {
            self.known = self.known.saturating_add(by * 1000);
        }
        has_jumped.then_some(by)
    }

    pub(crate) fn now(&self) -> Ms {
        self.micros().div_euclid(1000)
    }

    /// How long it is until this time.
    pub(crate) fn until(&self, time: Ms) -> Duration {
        let left = time.saturating_mul(1000).saturating_sub(self.micros());
        Duration::from_micros(u64::try_from(left).unwrap_or(0))
    }

    /// Takes in an answer of the store: it was asked at `sent`, and showed `store`. An answer on a shorter way is the
    /// more exact one; one that cannot be right if the last one still is shows that the store's clock was set.
    pub(crate) fn observe(&mut self, sent: Moment, store: SystemTime) {
        let (got, store) = (self.clock.now(), since_1970(store));
        let trip = got.since(sent);
        let is_better = |last: &Look| {
            let error = i64::try_from(last.trip.as_micros() / 2).unwrap_or(i64::MAX).saturating_add(STEP);
            let earliest = micros_of(sent).saturating_add(self.ahead).saturating_sub(error);
            let latest = micros_of(got).saturating_add(self.ahead).saturating_add(error);
            trip <= last.trip || got.since(last.at) > STALE || store < earliest || latest < store
        };
        if self.look.as_ref().is_none_or(is_better) {
            self.ahead = store.saturating_sub(micros_of(sent + trip / 2));
            self.look = Some(Look { trip, at: got });
        }
    }

    /// How much the store's clock is ahead of this machine's wall clock, in seconds.
    pub(crate) fn offset(&self) -> f64 {
        let ahead = self.micros().saturating_sub(since_1970(self.clock.wall()));
        Duration::from_micros(ahead.unsigned_abs()).as_secs_f64() * if ahead < 0 { -1.0 } else { 1.0 }
    }
}

/// How much the wall clock is ahead of the monotonic one.
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

    async fn answered(time: &mut Timekeeper, trip: Duration, shown: impl FnOnce(Duration) -> SystemTime) {
        let sent = time.moment();
        tokio::time::advance(trip / 2).await;
        let store = shown(time.moment().since(Moment::from_nanos(0)));
        tokio::time::advance(trip / 2).await;
        time.observe(sent, store);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_is_believed_though_the_answer_came_on_a_longer_way() {
        let mut time = Timekeeper::new(Clock::tokio());
        let ms = Duration::from_millis;
        answered(&mut time, ms(2), |since| EPOCH + ms(5_000_000) + since).await;
        let first = time.ahead;
        answered(&mut time, ms(300), |since| EPOCH + ms(5_000_100) + since).await;
        assert_eq!(time.ahead, first, "it may have been answered early or late on its way");
        answered(&mut time, ms(300), |since| EPOCH + ms(4_999_000) + since).await;
        assert_eq!(first - time.ahead, 1_000_000, "the store's clock was set back by a second");
        answered(&mut time, ms(400), |since| EPOCH + ms(5_003_000) + since).await;
        assert_eq!(time.ahead - first, 3_000_000, "and ahead");
    }
}
