//! How long we wait for the transactions of others, and who they are.

use std::{cell::Cell, fmt, path::Path, thread, time::Duration};

use bandog_core::{Clock, Moment};

use crate::place::FileId;

thread_local! {
    /// Until when this thread's statements may wait. The busy handler is a plain function, so it has no other state.
    static UNTIL: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// From now on, this thread's statements wait for other connections until this moment.
pub(crate) fn wait_until(deadline: Moment) {
    UNTIL.set(Some(deadline));
}

/// From now on, this thread's statements wait for nobody.
pub(crate) fn wait_never() {
    UNTIL.set(None);
}

/// Whether this thread's statements may still wait.
pub(crate) fn is_left() -> bool {
    UNTIL.get().is_some_and(|until| Clock::system().now() < until)
}

/// The busy handler: sleeps for a while, or gives up. `times` counts the calls for one lock.
pub(crate) fn busy(times: i32) -> bool {
    if !is_left() {
        return false;
    }
    thread::sleep(pause(times));
    true
}

/// Whoever has waited longer asks more often, so that he comes before those who came later: SQLite has no queue.
///
/// Medians of 7 runs of 3 s, 8 and 16 processes that did nothing but take and release, on 2 busy cores:
///
/// | pauses | cycles/s | p99.9 of a take | worst |
/// |---|---|---|---|
/// | SQLite's own, 1 ms growing to 100 ms | 19.0k, 14.0k | 20 ms, 46 ms | 0.18 s, 0.21 s |
/// | 10 times 50 us, then 0.5 ms | 12.5k, 8.8k | 14 ms, 19 ms | 0.21 s, 0.15 s |
/// | these | 17.6k, 14.1k | 8 ms, 15 ms | 0.08 s, 0.07 s |
///
/// After some 0.1 s the writer in the way is stopped or has a slow disk, and asking more often is only heat.
fn pause(times: i32) -> Duration {
    Duration::from_micros(match times {
        ..=0 => 2_000,
        1..=2 => 500,
        3..1_000 => 50,
        1_000.. => 250,
    })
}

/// A process that is in the middle of a write transaction.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// Whether it stands still by a signal or a debugger.
    pub(crate) is_stopped: bool,
}

impl Writing {
    /// Who it is, if it is anybody and can be known.
    #[cfg(target_os = "linux")]
    pub(crate) fn to(database: &Path) -> Option<Self> {
        use std::{fs, os::unix::fs::MetadataExt};
        let mut index = database.as_os_str().to_owned();
        index.push("-shm");
        // Only looked at, never opened: closing any descriptor of the file would give up our own locks of it.
        Self::in_index(fs::metadata(&index).ok()?.ino())
    }

    /// Who writes into the log of this index, or copies it.
    #[cfg(target_os = "linux")]
    pub(crate) fn into(index: FileId) -> Option<Self> {
        Self::in_index(index.inode())
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn into(_: FileId) -> Option<Self> {
        None
    }

    #[cfg(target_os = "linux")]
    fn in_index(inode: u64) -> Option<Self> {
        use std::fs;
        // The kernel gives the list in pieces, between which it may change, so an entry may be passed over.
        let pid = (0..3).find_map(|_| writer_in(&fs::read_to_string("/proc/locks").ok()?, inode))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(Self { pid, name, is_stopped: status.contains("State:\tT") || status.contains("State:\tt") })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn to(_: &Path) -> Option<Self> {
        None
    }
}

impl fmt::Display for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, name, is_stopped } = self;
        let hint = if *is_stopped { " (it is stopped: let it go on, or kill it)" } else { "" };
        write!(f, "process {pid}, {name:?}{hint},")
    }
}

/// The process that is in the middle of a write transaction, in words.
pub(crate) fn who_locks(database: &Path) -> String {
    Writing::to(database).map_or_else(|| "another process".into(), |writing| writing.to_string())
}

/// Who holds the lock of writing or of copying of a WAL index, which are the bytes 120 and 121 of that file, in the
/// text of `/proc/locks`. The kernel tells locks side by side as one.
#[cfg(any(target_os = "linux", test))]
pub(crate) fn writer_in(locks: &str, inode: u64) -> Option<u32> {
    let inode = inode.to_string();
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX", _, "WRITE", pid, file, first, last] = fields[..] else {
            return None;
        };
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if first > 121 || last < 120 {
            return None;
        }
        if file.rsplit(':').next()? == inode { pid.parse().ok() } else { None }
    })
}
