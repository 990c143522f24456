//! Time is handed in: a clock that counts the machine's sleep, or tokio's, which tests can pause.

use std::{
    ops::{Add, Sub},
    sync::{
        LazyLock,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
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

/// Where time comes from. What [`Clock::now`] tells only ever goes forward, and no wall clock can move it.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    source: Source,
    /// How much later than the machine's the wall clock is, in nanoseconds.
    ahead: i64,
    /// And by how much more it is so now.
    jumps: Option<&'static AtomicI64>,
}

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
        Self::of(Source::System)
    }

    /// Tokio's clock, which `tokio::time::pause` stops: for tests.
    pub const fn tokio() -> Self {
        Self::of(Source::Tokio)
    }

    /// The machine's clock and so many nanoseconds more, for tests: to add to them is what the clock shows of a machine
    /// that was suspended, whose timers stood still meanwhile.
    pub const fn system_and(slept: &'static AtomicU64) -> Self {
        Self::of(Source::SystemAnd(slept))
    }

    const fn of(source: Source) -> Self {
        Self { source, ahead: 0, jumps: None }
    }

    /// The same clock with a wall clock that is set ahead by so much, for tests of clocks that differ.
    #[must_use]
    pub fn set_ahead(mut self, by: Duration) -> Self {
        self.ahead = self.ahead.saturating_add_unsigned(nanos(by));
        self
    }

    /// The same clock with a wall clock that is set back by so much.
    #[must_use]
    pub fn set_back(mut self, by: Duration) -> Self {
        self.ahead = self.ahead.saturating_sub_unsigned(nanos(by));
        self
    }

    /// The same clock with a wall clock that is so many nanoseconds ahead, which may change while it is read: for tests of
    /// wall clocks that jump.
    #[must_use]
    pub const fn jumping_by(mut self, jumps: &'static AtomicI64) -> Self {
        self.jumps = Some(jumps);
        self
    }

    /// The same clock with a wall clock that is set to this time now. [`Clock::tokio`]'s goes on from there as tokio's
    /// clock does, so a test that pauses it pauses both.
    #[must_use]
    pub fn set_to(self, wall: SystemTime) -> Self {
        let shown = self.wall();
        match wall.duration_since(shown) {
            Ok(ahead) => self.set_ahead(ahead),
            Err(behind) => self.set_back(behind.duration()),
        }
    }

    /// Whether a test may pause it, so that it does not sleep with the machine.
    pub fn is_virtual(&self) -> bool {
        matches!(self.source, Source::Tokio)
    }

    /// Whether tokio's clock is paused in the runtime of the caller, as `#[tokio::test(start_paused = true)]` and
    /// `tokio::time::pause` do. A clock that runs is never reported as paused. False outside a runtime.
    pub fn tokio_is_paused() -> bool {
        if tokio::runtime::Handle::try_current().is_err() {
            return false;
        }
        // A clock of tokio's that runs is the one of `std`, which is read in between: it moves as soon as that one does.
        let before = tokio::time::Instant::now();
        let start = Instant::now();
        let has_moved = (0..READS).any(|_| Instant::now() > start);
        has_moved && tokio::time::Instant::now() == before
    }

    /// What the wall clock shows. It may be wrong, and jump: leases never ask it. The store's clock decides where
    /// several machines must agree.
    pub fn wall(&self) -> SystemTime {
        let shown = match self.source {
            Source::System => SystemTime::now(),
            Source::SystemAnd(slept) => SystemTime::now() + Duration::from_nanos(slept.load(Relaxed)),
            Source::Tokio => tokio_wall(),
        };
        let ahead = self.ahead.saturating_add(self.jumps.map_or(0, |jumps| jumps.load(Relaxed)));
        let by = Duration::from_nanos(ahead.unsigned_abs());
        let moved = if ahead < 0 { shown.checked_sub(by) } else { shown.checked_add(by) };
        moved.unwrap_or(shown)
    }

    /// The present instant.
    pub fn now(&self) -> Moment {
        match self.source {
            Source::System => system_now(),
            Source::SystemAnd(slept) => system_now() + Duration::from_nanos(slept.load(Relaxed)),
            Source::Tokio => tokio_now(),
        }
    }
}

/// Maximum number of reads until the machine's clock moves: the coarsest one moves after some hundred nanoseconds.
const READS: u32 = 10_000;

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

/// The first look at tokio's clock is this much after its origin, since a paused clock may stand a little before it.
const DAY: Duration = Duration::from_secs(24 * 3600);

static FIRST_LOOK: LazyLock<(Instant, SystemTime)> = LazyLock::new(|| (Instant::now(), SystemTime::now()));

fn tokio_now() -> Moment {
    let (first_look, _) = *FIRST_LOOK;
    let now = tokio::time::Instant::now().into_std();
    let ahead = now.saturating_duration_since(first_look);
    let behind = first_look.saturating_duration_since(now);
    Moment::from_nanos(nanos((DAY + ahead).saturating_sub(behind)))
}

fn tokio_wall() -> SystemTime {
    let (_, wall) = *FIRST_LOOK;
    wall + Duration::from_nanos(tokio_now().as_nanos()) - DAY
}

/// A duration in nanoseconds; those of more than 584 years become 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
