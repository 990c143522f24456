//! What this machine says of itself: its boot, its clocks, and who keeps a file locked.

use std::time::{SystemTime, UNIX_EPOCH};

use bandog_core::Clock;

use crate::rules::nanos;

/// The machine, as far as leases depend on it.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// Names the clock: times of the same boot can be compared.
    boot: String,
    clock: Clock,
    /// What to add to the clock to get the boot's own time.
    shift: i64,
    wall: fn() -> SystemTime,
}

impl Host {
    /// This machine.
    pub(crate) fn this() -> Self {
        let (boot, shift) = boot();
        Self { boot, clock: Clock::system(), shift, wall: SystemTime::now }
    }

    /// Another machine, for tests.
    #[cfg(test)]
    pub(crate) fn other(boot: &str, shift: i64, wall: fn() -> SystemTime) -> Self {
        Self { boot: boot.into(), clock: Clock::system(), shift, wall }
    }

    /// The boot's name.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// The present moment, in nanoseconds of the boot's clock.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.clock.now().as_nanos()).unwrap_or(i64::MAX).saturating_add(self.shift)
    }

    /// The wall clock, for records: what they are about is not over when the machine restarts.
    pub(crate) fn wall(&self) -> SystemTime {
        (self.wall)()
    }

    /// Microseconds of the wall clock, for fences only.
    pub(crate) fn wall_micros(&self) -> i64 {
        self.wall_nanos() / 1_000
    }

    /// Nanoseconds of the wall clock, for what decides nothing.
    pub(crate) fn wall_nanos(&self) -> i64 {
        nanos(self.wall().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

/// The boot's name, and what to add to our clock to get its time.
///
/// A time namespace has the machine's boot id and a clock of its own, so its offset is taken away. The kernel tells
/// the offset of the namespace that our children will have: if that is not ours, or if nothing can be read, the name
/// is one that no other process has, and each hold of others is watched for its ttl.
#[cfg(target_os = "linux")]
fn boot() -> (String, i64) {
    use std::fs::{read_link, read_to_string};
    let unknown = || (format!("unknown:{}", bandog_core::ClientId::random()), 0);
    let Ok(boot) = read_to_string("/proc/sys/kernel/random/boot_id") else {
        return unknown();
    };
    let boot = boot.trim().to_owned();
    let (Ok(ours), Ok(children)) = (read_link("/proc/self/ns/time"), read_link("/proc/self/ns/time_for_children"))
    else {
        return (boot, 0); // A kernel without time namespaces.
    };
    let offset = read_to_string("/proc/self/timens_offsets").ok().and_then(|text| boottime_offset(&text));
    match offset {
        Some(offset) if ours == children => (boot, -offset),
        Some(_) | None => unknown(),
    }
}

/// It compiles there, and is never asked: see `options::check_system`.
#[cfg(not(target_os = "linux"))]
fn boot() -> (String, i64) {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ours = i64::try_from(Clock::system().now().as_nanos()).unwrap_or(i64::MAX);
    ("wall clock".into(), nanos(wall).saturating_sub(ours))
}

/// The nanoseconds by which a time namespace's boot clock is ahead: a line `boottime SECONDS NANOSECONDS`.
#[cfg(any(target_os = "linux", test))]
pub(crate) fn boottime_offset(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.trim().strip_prefix("boottime"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}
