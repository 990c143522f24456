//! The files of a SQLite database, and its write lock.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::Process;

/// Maximum time that the nemesis waits until a worker has replaced deleted files.
const NEW_LOG_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of the attempts to stop a worker in the middle of a write.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(500);

/// Deletes the log of a SQLite database, the index of the log, or both.
pub(crate) fn delete_log(database: &Path, random: &mut fastrand::Rng) {
    let endings: &[&str] = match random.u8(..4) {
        0 => &["-wal"],
        1 => &["-shm"],
        _ => &["-wal", "-shm"],
    };
    endings.iter().for_each(|ending| drop(fs::remove_file(beside(database, ending))));
}

/// Waits until a worker has made new files for the log and its index.
pub(crate) fn await_log(database: &Path) {
    let until = Instant::now() + NEW_LOG_TIMEOUT;
    while ["-wal", "-shm"].iter().any(|ending| !beside(database, ending).exists()) && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The path of a file that belongs to a SQLite database. The path is the path of the database plus this ending.
pub(crate) fn beside(database: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", database.display()))
}

/// Stops a process at a moment when it has SQLite's write lock. If no such moment is found before the timeout, this
/// function returns false, and the process continues to run.
pub(crate) fn stop_while_writing(process: &Process, shared_memory: &Path) -> bool {
    let until = Instant::now() + SEARCH_TIMEOUT;
    while Instant::now() < until {
        process.stop();
        if has_write_lock(process.pid(), shared_memory) {
            return true;
        }
        process.cont();
        thread::sleep(Duration::from_micros(300));
    }
    false
}

/// Whether a process has SQLite's write lock, according to the kernel's list of locks.
///
/// A line of this list is `1: POSIX  ADVISORY  WRITE PID MAJOR:MINOR:INODE FIRST LAST`. A writer locks byte 120 of the
/// `-shm` file.
pub(crate) fn has_write_lock(pid: u32, shared_memory: &Path) -> bool {
    let Ok(inode) = fs::metadata(shared_memory).map(|file| file.ino().to_string()) else { return false };
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return false };
    locks.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, _, _, "WRITE", of, file, first, last] = words[..] else { return false };
        let covers =
            first.parse().is_ok_and(|first: u64| first <= 120) && last.parse().is_ok_and(|last: u64| last >= 120);
        of == pid.to_string() && file.rsplit(':').next() == Some(&inode) && covers
    })
}
