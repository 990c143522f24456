//! The sources of time. The machine's clock also counts the time for which the machine is suspended. Tokio's clock can
//! be paused by tests.

use std::{
    ops::{Add, Sub},
    sync::{
        LazyLock,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

/// An instant of a [`Clock`], in nanoseconds since the clock's origin. The number is never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The instant that is this number of nanoseconds after the clock's origin. Zero is replaced by 1.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos.max(1))
    }

    /// The number of nanoseconds since the clock's origin.
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` until this instant. Zero if this instant is not later than `earlier`.
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

/// A source of time. It has two clocks: the clock of [`Clock::now`], which decides when leases expire, and the wall
/// clock, which [`Clock::wall`] reads.
///
/// [`Clock::now`] never goes back. A change of the wall clock does not change [`Clock::now`].
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: ClockSource,
    /// Number of nanoseconds by which this wall clock is ahead of the wall clock of its source. Negative if this wall
    /// clock is behind.
    ahead: i64,
    /// Number of nanoseconds that is added to `ahead`. A test can change the number at any time.
    jumps: Option<&'static AtomicI64>,
}

#[derive(Debug, Clone, Copy)]
enum ClockSource {
    /// The machine's clock.
    System,
    /// The machine's clock, plus this number of nanoseconds.
    SystemAnd(&'static AtomicU64),
    /// Tokio's clock.
    Tokio,
}

impl Clock {
    /// The machine's clock, which also counts the time for which the machine is suspended.
    ///
    /// It is `CLOCK_BOOTTIME` on Linux, and `CLOCK_MONOTONIC` on Apple's systems. On these systems, all processes of
    /// the machine read the same time, unless they are in different time namespaces. The clock starts again at each
    /// boot. On any other system, this is the clock of [`std::time::Instant`]. The origin is then the instant at which
    /// this process reads the clock for the first time.
    pub const fn system() -> Self {
        Self::of(ClockSource::System)
    }

    /// Tokio's clock, for tests. `tokio::time::pause` pauses it.
    pub const fn tokio() -> Self {
        Self::of(ClockSource::Tokio)
    }

    /// The machine's clock plus `slept` nanoseconds, for tests. With a larger value of `slept`, a test simulates that
    /// the machine was suspended: the clock shows a later time, but no timer has advanced.
    pub const fn system_and(slept: &'static AtomicU64) -> Self {
        Self::of(ClockSource::SystemAnd(slept))
    }

    const fn of(source: ClockSource) -> Self {
        Self { source, ahead: 0, jumps: None }
    }

    /// The same clock with its wall clock set ahead by this duration. This is for tests with machines whose clocks
    /// differ.
    #[must_use]
    pub fn set_ahead(mut self, by: Duration) -> Self {
        self.ahead = self.ahead.saturating_add_unsigned(nanos(by));
        self
    }

    /// The same clock with its wall clock set back by this duration.
    #[must_use]
    pub fn set_back(mut self, by: Duration) -> Self {
        self.ahead = self.ahead.saturating_sub_unsigned(nanos(by));
        self
    }

    /// The same clock with its wall clock set ahead by this number of nanoseconds, or set back if the number is
    /// negative. A test can change the number at any time, so that the wall clock jumps.
    #[must_use]
    pub const fn jumping_by(mut self, jumps: &'static AtomicI64) -> Self {
        self.jumps = Some(jumps);
        self
    }

    /// The same clock with its wall clock set to this time. The wall clock then advances as before. The wall clock of
    /// [`Clock::tokio`] advances with tokio's clock, so a test that pauses tokio's clock also pauses this wall clock.
    #[must_use]
    pub fn set_to(self, wall: SystemTime) -> Self {
        let shown = self.wall();
        match wall.duration_since(shown) {
            Ok(ahead) => self.set_ahead(ahead),
            Err(behind) => self.set_back(behind.duration()),
        }
    }

    /// Whether this is tokio's clock. Tokio's clock can be paused by a test, and does not count the time for which the
    /// machine is suspended.
    pub fn is_virtual(&self) -> bool {
        matches!(self.source, ClockSource::Tokio)
    }

    /// Whether tokio's clock is paused in the caller's runtime, by `#[tokio::test(start_paused = true)]` or by
    /// `tokio::time::pause`. The result is false if the clock runs, and outside a runtime.
    pub fn tokio_is_paused() -> bool {
        if tokio::runtime::Handle::try_current().is_err() {
            return false;
        }
        // A running clock of tokio shows the time of `std`'s clock. So if `std`'s clock has moved between two reads of
        // tokio's clock, and these two reads are equal, tokio's clock is paused.
        let before = tokio::time::Instant::now();
        let start = Instant::now();
        let std_has_moved = (0..MAX_READS).any(|_| Instant::now() > start);
        std_has_moved && tokio::time::Instant::now() == before
    }

    /// The time of the wall clock. A wall clock can be wrong and can jump, so leases never use a wall clock. If several
    /// machines must agree on a time, these machines use the store's clock.
    pub fn wall(&self) -> SystemTime {
        let shown = match self.source {
            ClockSource::System => SystemTime::now(),
            ClockSource::SystemAnd(slept) => SystemTime::now() + Duration::from_nanos(slept.load(Relaxed)),
            ClockSource::Tokio => tokio_wall(),
        };
        let ahead = self.ahead.saturating_add(self.jumps.map_or(0, |jumps| jumps.load(Relaxed)));
        let shift = Duration::from_nanos(ahead.unsigned_abs());
        let moved = if ahead < 0 { shown.checked_sub(shift) } else { shown.checked_add(shift) };
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

/// Maximum number of reads in a loop that waits until `std`'s clock moves. Even the coarsest clock moves after some
/// hundred nanoseconds, which is a few reads.
const MAX_READS: u32 = 10_000;

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn system_now() -> Moment {
    #[cfg(target_os = "linux")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    // On Apple's systems, `CLOCK_MONOTONIC` counts the time for which the machine is suspended. The `CLOCK_MONOTONIC`
    // of Linux does not count this time, and the clock of `Instant` does not either.
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

/// Time between the origin of [`Clock::tokio`] and [`FIRST_READ`]. The origin must be earlier than `FIRST_READ`,
/// because a [`Moment`] cannot be before the origin. If tokio's clock was paused before `FIRST_READ`, the clock shows a
/// time before `FIRST_READ`.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The machine's clocks at the first read of [`Clock::tokio`].
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

/// The number of nanoseconds in a duration. A duration above 584 years counts as 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
