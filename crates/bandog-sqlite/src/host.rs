//! This machine: its boot id and its clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use bandog_core::Clock;

use crate::rules::nanos;

/// The properties of the machine on which leases depend. A boot of a machine lasts from its start to its shutdown. The
/// boot's clock counts the time since the start, and is the same for all processes of the machine.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// The id of the machine's current boot. It identifies the clock: only times of the same boot can be compared.
    boot: String,
    clock: Clock,
    /// Difference in nanoseconds that is added to a time of `clock`. The sum is the time of the boot's clock.
    shift_ns: i64,
    /// Reads the wall clock.
    wall: fn() -> SystemTime,
}

impl Host {
    /// This machine.
    pub(crate) fn this() -> Self {
        let (boot, shift_ns) = boot();
        Self { boot, clock: Clock::system(), shift_ns, wall: SystemTime::now }
    }

    /// Another machine, for tests.
    #[cfg(test)]
    pub(crate) fn other(boot: &str, shift_ns: i64, wall: fn() -> SystemTime) -> Self {
        Self { boot: boot.into(), clock: Clock::system(), shift_ns, wall }
    }

    /// A machine with this clock, for tests.
    #[cfg(test)]
    pub(crate) fn with_clock(clock: Clock, wall: fn() -> SystemTime) -> Self {
        Self { boot: "virtual".into(), clock, shift_ns: 0, wall }
    }

    /// The same machine with this boot id, for tests. `shift_ns` is added to the time of the boot clock.
    #[cfg(test)]
    pub(crate) fn of_boot(self, boot: &str, shift_ns: i64) -> Self {
        Self { boot: boot.into(), shift_ns, ..self }
    }

    /// The boot id.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// The present time of the boot's clock, in nanoseconds.
    pub(crate) fn now_ns(&self) -> i64 {
        i64::try_from(self.clock.now().as_nanos()).unwrap_or(i64::MAX).saturating_add(self.shift_ns)
    }

    /// The time of the wall clock. Records use this clock, because its times remain valid after a restart of the
    /// machine.
    pub(crate) fn wall(&self) -> SystemTime {
        (self.wall)()
    }

    /// The wall clock in microseconds, for fences only.
    pub(crate) fn wall_micros(&self) -> i64 {
        self.wall_nanos() / 1_000
    }

    /// The wall clock in nanoseconds, for the registry of clients only.
    pub(crate) fn wall_nanos(&self) -> i64 {
        nanos(self.wall().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

/// The boot id, and the difference in nanoseconds that is added to a time of our clock. The sum is the time of the
/// boot's clock.
///
/// A process in a time namespace sees the machine's boot id, but the process's clock has an offset. So the offset is
/// subtracted. The kernel reports only the offset of the namespace in which our child processes will run. If this is
/// not our own namespace, or if the files of the kernel cannot be read, a random boot id is used. Then each hold of
/// another process counts as a hold of another boot. Such a hold expires when this process has observed it for the
/// hold's ttl without a renewal.
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

/// This is never called, because `options::check_system` refuses these systems.
#[cfg(not(target_os = "linux"))]
fn boot() -> (String, i64) {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ours = i64::try_from(Clock::system().now().as_nanos()).unwrap_or(i64::MAX);
    ("wall clock".into(), nanos(wall).saturating_sub(ours))
}

/// The offset of a time namespace's boot clock in nanoseconds. It is in the line `boottime SECONDS NANOSECONDS`.
#[cfg(any(target_os = "linux", test))]
pub(crate) fn boottime_offset(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.trim().strip_prefix("boottime"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}
