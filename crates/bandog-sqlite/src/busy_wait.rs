//! Lets the statements of a thread wait while another process has a transaction open, and finds that process.

use std::{cell::Cell, fmt, path::Path, thread, time::Duration};

use bandog_core::{Clock, Moment};

use crate::open_files::FileId;

thread_local! {
    /// If another connection has locked the database, the statements of this thread wait until this time at the latest.
    /// None if the statements do not wait. It is a thread-local variable, because the busy handler is a plain function
    /// and cannot have other state.
    static DEADLINE: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// Makes the statements of this thread wait if another connection has locked the database. A statement that still waits
/// at the time `deadline` fails.
pub(crate) fn set_deadline(deadline: Moment) {
    DEADLINE.set(Some(deadline));
}

/// Makes the statements of this thread fail immediately if another connection has locked the database.
pub(crate) fn clear_deadline() {
    DEADLINE.set(None);
}

/// The busy handler of SQLite, which SQLite calls when another connection has locked the database. The handler sleeps
/// and returns true, so that SQLite retries. If there is no deadline, or if the deadline has passed, the handler
/// returns false, so that the statement fails. `attempt` is the number of earlier calls for the same lock.
pub(crate) fn handle_busy(attempt: i32) -> bool {
    if DEADLINE.get().is_none_or(|deadline| Clock::system().now() >= deadline) {
        return false;
    }
    thread::sleep(backoff(attempt));
    true
}

/// Time until the next attempt. SQLite has no queue of waiting processes. So this function makes the interval between
/// two attempts shorter during a wait. Thus a process that began to wait earlier makes more attempts, and probably gets
/// the lock before the processes that began to wait later.
///
/// The table compares intervals. Each cell has the value for 8 processes, and then the value for 16 processes. The
/// processes only took and released locks. One take and one release are a cycle. The values are medians of 7 runs on 2
/// busy cores, and each run lasted 3 seconds:
///
/// | intervals | cycles/s | p99.9 of a take | worst take |
/// |---|---|---|---|
/// | SQLite's own, 1 ms growing to 100 ms | 19.0k, 14.0k | 20 ms, 46 ms | 0.18 s, 0.21 s |
/// | 10 times 50 us, then 0.5 ms | 12.5k, 8.8k | 14 ms, 19 ms | 0.21 s, 0.15 s |
/// | the intervals of this function | 17.6k, 14.1k | 8 ms, 15 ms | 0.08 s, 0.07 s |
///
/// If a wait takes longer than about 0.1 s, the blocking process is probably stopped or has a slow disk. Then frequent
/// polling would only cost CPU time. So the interval grows again.
fn backoff(attempt: i32) -> Duration {
    Duration::from_micros(match attempt {
        ..=0 => 2_000,
        1..=2 => 500,
        3..1_000 => 50,
        1_000.. => 250,
    })
}

/// A process that is in the middle of a write transaction, or that copies the log into the database.
#[derive(Debug)]
pub(crate) struct WriterProcess {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// Whether a signal or a debugger has stopped the process.
    pub(crate) is_stopped: bool,
}

impl WriterProcess {
    /// The process that writes to this database or to its log now. None if there is no such process, or if the system
    /// does not report the process.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_database(database: &Path) -> Option<Self> {
        use std::{fs, os::unix::fs::MetadataExt};
        let mut index = database.as_os_str().to_owned();
        index.push("-shm");
        // The index (the `-shm` file) is not opened, because closing any descriptor of the index would release our own
        // locks on it.
        Self::of_inode(fs::metadata(&index).ok()?.ino())
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of_database(_: &Path) -> Option<Self> {
        None
    }

    /// The process that writes to the log to which this index belongs, or that copies this log into the database. None
    /// if there is no such process, or if the system does not report the process.
    #[cfg(target_os = "linux")]
    pub(crate) fn of_index(index: FileId) -> Option<Self> {
        Self::of_inode(index.inode())
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of_index(_: FileId) -> Option<Self> {
        None
    }

    /// The process that holds the write lock or the checkpoint lock of the index with this inode number. A checkpoint
    /// copies the log into the database.
    #[cfg(target_os = "linux")]
    fn of_inode(inode: u64) -> Option<Self> {
        use std::fs;
        // The kernel returns the list of locks in pieces. If the list changes between two pieces, an entry may be
        // missing. So the list is read up to three times.
        let pid = (0..3).find_map(|_| writer_in(&fs::read_to_string("/proc/locks").ok()?, inode))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(Self { pid, name, is_stopped: status.contains("State:\tT") || status.contains("State:\tt") })
    }
}

impl fmt::Display for WriterProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, name, is_stopped } = self;
        let hint = if *is_stopped { " (it is stopped: continue or kill it)" } else { "" };
        write!(f, "process {pid}, {name:?}{hint},")
    }
}

/// A text that names the process that has locked the database, such as `process 12, "shop",`. If that process is not
/// known, the text is `another process`. The text is the subject of a sentence in an error message.
pub(crate) fn locking_process(database: &Path) -> String {
    WriterProcess::of_database(database).map_or_else(|| "another process".into(), |process| process.to_string())
}

/// Finds the process that holds the write lock or the checkpoint lock of the index with this inode number. `locks` is
/// the text of `/proc/locks`. The two locks are the bytes 120 and 121 of the index. The kernel merges adjacent locks
/// into one line.
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
