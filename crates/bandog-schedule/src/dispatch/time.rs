//! The store's time, as well as a node knows it.

use std::time::{Duration, SystemTime};

use bandog_core::{Clock, Moment};

use crate::trigger::Ms;

/// After so long a look at the store's clock is worth less than any new one.
const STALE: Duration = Duration::from_secs(30);

/// Counts from the store's answers on the monotonic clock, so that no jump of this machine's wall clock matters. Without
/// a store, and before its first answer, it is the wall clock.
#[derive(Debug)]
pub(crate) struct Timekeeper {
    clock: Clock,
    look: Option<Look>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    /// The store's microseconds since 1970 less the clock's.
    ahead: i64,
    trip: Duration,
    at: Moment,
}

impl Timekeeper {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, look: None }
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
        match &self.look {
            Some(look) => micros_of(self.clock.now()).saturating_add(look.ahead),
            None => since_1970(self.clock.wall()),
        }
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
    /// more exact one.
    pub(crate) fn observe(&mut self, sent: Moment, store: SystemTime) {
        let got = self.clock.now();
        let trip = got.since(sent);
        let is_better = |last: &Look| trip <= last.trip || got.since(last.at) > STALE;
        if self.look.as_ref().is_none_or(is_better) {
            let ahead = since_1970(store).saturating_sub(micros_of(sent + trip / 2));
            self.look = Some(Look { ahead, trip, at: got });
        }
    }

    /// How much the store's clock is ahead of this machine's wall clock, in seconds.
    pub(crate) fn offset(&self) -> f64 {
        let ahead = self.micros().saturating_sub(since_1970(self.clock.wall()));
        Duration::from_micros(ahead.unsigned_abs()).as_secs_f64() * if ahead < 0 { -1.0 } else { 1.0 }
    }
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
