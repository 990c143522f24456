//! Time is handed in: a clock that counts the machine's sleep, or tokio's, which tests can pause.

use std::{
    ops::{Add, Sub},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// An instant of a [`Clock`]: nanoseconds since an origin that means nothing. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The instant that this many nanoseconds after the clock's origin is; at least 1.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos.max(1))
    }

    /// Nanoseconds since the clock's origin.
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// How much later than `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(nanos(later)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, earlier: Duration) -> Self {
        Self::from_nanos(self.0.saturating_sub(nanos(earlier)))
    }
}

/// Where time comes from. It only ever goes forward, and no wall clock can move it.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Source);

#[derive(Debug, Clone, Copy)]
enum Source {
    System,
    SystemAnd(&'static AtomicU64),
    Tokio,
}

impl Clock {
    /// The machine's clock, which counts the time that the machine slept: `CLOCK_BOOTTIME` on Linux and
    /// `CLOCK_MONOTONIC` on Apple's systems, where two processes of one boot read the same value, unless they live in
    /// different time namespaces. Elsewhere it is that of [`std::time::Instant`], counted from the first look.
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Tokio's clock, which `tokio::time::pause` stops: for tests.
    pub const fn tokio() -> Self {
        Self(Source::Tokio)
    }

    /// The machine's clock and so many nanoseconds more, for tests: to add to them is what the clock shows of a machine
    /// that was suspended, whose timers stood still meanwhile.
    pub const fn system_and(slept: &'static AtomicU64) -> Self {
        Self(Source::SystemAnd(slept))
    }

    /// The present instant.
    pub fn now(&self) -> Moment {
        match self.0 {
            Source::System => system_now(),
            Source::SystemAnd(slept) => system_now() + Duration::from_nanos(slept.load(Relaxed)),
            Source::Tokio => tokio_now(),
        }
    }
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn system_now() -> Moment {
    #[cfg(target_os = "linux")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    // Unlike Linux's, Apple's monotonic clock counts sleep, and unlike that of `Instant`.
    #[cfg(target_vendor = "apple")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    Moment::from_nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn system_now() -> Moment {
    use std::{sync::LazyLock, time::Instant};
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    Moment::from_nanos(nanos(ORIGIN.elapsed()))
}

fn tokio_now() -> Moment {
    use std::sync::LazyLock;
    // A day before the first look, since a paused clock may stand a little before it.
    const DAY: Duration = Duration::from_secs(24 * 3600);
    static FIRST_LOOK: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    let now = tokio::time::Instant::now().into_std();
    let ahead = now.saturating_duration_since(*FIRST_LOOK);
    let behind = FIRST_LOOK.saturating_duration_since(now);
    Moment::from_nanos(nanos((DAY + ahead).saturating_sub(behind)))
}

/// A duration in nanoseconds; those of more than 584 years become 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
