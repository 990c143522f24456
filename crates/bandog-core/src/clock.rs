//! The clocks: the machine's, which also counts the time while the machine sleeps, and tokio's, which tests can pause.

use std::{
    ops::{Add, Sub},
    sync::{
        LazyLock,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

/// An instant of a [`Clock`], in nanoseconds since an arbitrary origin. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The instant this many nanoseconds after the clock's origin. Zero becomes 1.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos.max(1))
    }

    /// Nanoseconds since the clock's origin.
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` until this instant. Zero if this instant is not later.
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

/// A source of time. [`Clock::now`] never goes back, and changes of the wall clock do not affect it.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: ClockSource,
    /// The difference between this wall clock and the machine's, in nanoseconds. Positive if this one is ahead.
    ahead: i64,
    /// An additional difference in nanoseconds, which may change at any time.
    jumps: Option<&'static AtomicI64>,
}

#[derive(Debug, Clone, Copy)]
enum ClockSource {
    System,
    SystemAnd(&'static AtomicU64),
    Tokio,
}

impl Clock {
    /// The machine's clock, which counts the time that the machine slept: `CLOCK_BOOTTIME` on Linux and
    /// `CLOCK_MONOTONIC` on Apple's systems, where two processes of one boot read the same value, unless they live in
    /// different time namespaces. Elsewhere it is that of [`std::time::Instant`], counted from the first read.
    pub const fn system() -> Self {
        Self::of(ClockSource::System)
    }

    /// Tokio's clock, which `tokio::time::pause` stops: for tests.
    pub const fn tokio() -> Self {
        Self::of(ClockSource::Tokio)
    }

    /// The machine's clock plus this number of nanoseconds, for tests. A test adds to the number to simulate a machine
    /// that was suspended, whose timers stood still in the meantime.
    pub const fn system_and(slept: &'static AtomicU64) -> Self {
        Self::of(ClockSource::SystemAnd(slept))
    }

    const fn of(source: ClockSource) -> Self {
        Self { source, ahead: 0, jumps: None }
    }

    /// The same clock with a wall clock that is set ahead by this duration, for tests of clocks that differ.
    #[must_use]
    pub fn set_ahead(mut self, by: Duration) -> Self {
        self.ahead = self.ahead.saturating_add_unsigned(nanos(by));
        self
    }

    /// The same clock with a wall clock that is set back by this duration.
    #[must_use]
    pub fn set_back(mut self, by: Duration) -> Self {
        self.ahead = self.ahead.saturating_sub_unsigned(nanos(by));
        self
    }

    /// The same clock with a wall clock that is ahead by this number of nanoseconds, which may change at any time: for
    /// tests of wall clocks that jump.
    #[must_use]
    pub const fn jumping_by(mut self, jumps: &'static AtomicI64) -> Self {
        self.jumps = Some(jumps);
        self
    }

    /// The same clock with a wall clock that is set to this time now. The wall clock of [`Clock::tokio`] continues from
    /// there together with tokio's clock, so a test that pauses tokio's clock pauses both.
    #[must_use]
    pub fn set_to(self, wall: SystemTime) -> Self {
        let shown = self.wall();
        match wall.duration_since(shown) {
            Ok(ahead) => self.set_ahead(ahead),
            Err(behind) => self.set_back(behind.duration()),
        }
    }

    /// Whether this is tokio's clock, which a test may pause and which does not count the machine's sleep.
    pub fn is_virtual(&self) -> bool {
        matches!(self.source, ClockSource::Tokio)
    }

    /// Whether tokio's clock is paused in the runtime of the caller, as `#[tokio::test(start_paused = true)]` and
    /// `tokio::time::pause` do. A clock that runs is never reported as paused. False outside a runtime.
    pub fn tokio_is_paused() -> bool {
        if tokio::runtime::Handle::try_current().is_err() {
            return false;
        }
        // A running tokio clock equals the clock of `std`, which is read in between: it moves as soon as that one does.
        let before = tokio::time::Instant::now();
        let start = Instant::now();
        let has_moved = (0..MAX_READS).any(|_| Instant::now() > start);
        has_moved && tokio::time::Instant::now() == before
    }

    /// The time of the wall clock. It may be wrong and may jump, so leases never use it. Where several machines must
    /// agree, the store's clock decides.
    pub fn wall(&self) -> SystemTime {
        let shown = match self.source {
            ClockSource::System => SystemTime::now(),
            ClockSource::SystemAnd(slept) => SystemTime::now() + Duration::from_nanos(slept.load(Relaxed)),
            ClockSource::Tokio => tokio_wall(),
        };
        let ahead = self.ahead.saturating_add(self.jumps.map_or(0, |jumps| jumps.load(Relaxed)));
        let by = Duration::from_nanos(ahead.unsigned_abs());
        let moved = if ahead < 0 { shown.checked_sub(by) } else { shown.checked_add(by) };
        moved.unwrap_or(shown)
    }

    /// The present instant.
    pub fn now(&self) -> Moment {
        match self.source {
            ClockSource::System => system_now(),
            ClockSource::SystemAnd(slept) => system_now() + Duration::from_nanos(slept.load(Relaxed)),
            ClockSource::Tokio => tokio_now(),
        }
    }
}

/// Maximum number of reads until the machine's clock moves. The coarsest clock moves after some hundred nanoseconds.
const MAX_READS: u32 = 10_000;

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
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    Moment::from_nanos(nanos(ORIGIN.elapsed()))
}

/// Time between the origin of tokio's clock and its first read. A paused clock may show a time a little before that
/// read.
const DAY: Duration = Duration::from_secs(24 * 3600);

static FIRST_READ: LazyLock<(Instant, SystemTime)> = LazyLock::new(|| (Instant::now(), SystemTime::now()));

fn tokio_now() -> Moment {
    let (first_read, _) = *FIRST_READ;
    let now = tokio::time::Instant::now().into_std();
    let ahead = now.saturating_duration_since(first_read);
    let behind = first_read.saturating_duration_since(now);
    Moment::from_nanos(nanos((DAY + ahead).saturating_sub(behind)))
}

fn tokio_wall() -> SystemTime {
    let (_, wall) = *FIRST_READ;
    wall + Duration::from_nanos(tokio_now().as_nanos()) - DAY
}

/// A duration in nanoseconds, limited to 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
