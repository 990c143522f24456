//! Copies the contents of a deleted log into the database, before other processes open new files.
//!
//! The processes that had the log open when it was deleted share the old index and see the whole log. A process that
//! opens the database later sees only the database file. So the first process that detects the deletion blocks such
//! later processes, and copies the log into the database:
//!
//! - To block the later processes, the first process locks the new index. SQLite does not open an index while another
//!   process has locked it.
//! - To copy the log, the first process takes the locks of the old index. So it waits for the processes that write to
//!   the old log. The copy includes all of their commits: each of these processes takes a lock of the old index before
//!   it checks whether its files are in place, and keeps the lock until it has committed.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use rusqlite::Connection;

use crate::{
    busy_wait::WriterProcess,
    fault::Fault,
    open_files::{FileId, FilePaths, OpenFiles},
};

/// The result of the attempt to save a deleted log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RescueOutcome {
    /// The database contains the whole log.
    Saved,
    /// Another process has already opened new files, or a reader blocked the copy. Commits that were only in the log
    /// are lost.
    Lost,
}

/// Copies a log into its database, if files beside the database were deleted and no process has opened new files.
///
/// If another process is in the middle of a write, this returns a fault for which [`Fault::is_busy`] is true. Then the
/// caller retries.
pub(crate) fn copy(conn: &Connection, files: &OpenFiles) -> Result<RescueOutcome, Fault> {
    let (paths, ours, found) = (files.paths(), files.ids, files.paths().find());
    if found.database != Some(ours.database) {
        return Ok(RescueOutcome::Lost);
    }
    if found.index == Some(ours.index) {
        // The index belongs to our deleted log, so it must not be used with a new log.
        let _ = fs::remove_file(&paths.index);
    }
    if is_used(&paths.log, found.log.filter(|log| *log != ours.log)) {
        return Ok(RescueOutcome::Lost);
    }
    let Some(_index_lock) = lock_index(paths)? else { return Ok(RescueOutcome::Lost) };
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (busy, all, copied): (i64, i64, i64) = conn.query_row("pragma wal_checkpoint(full)", [], read)?;
    if busy == 0 && all == copied {
        return Ok(RescueOutcome::Saved);
    }
    match WriterProcess::of_index(ours.index) {
        Some(process) => Err(Fault::FilesReplaced(Some(process))),
        None => Ok(RescueOutcome::Lost), // A reader blocks the copy. This may take a long time.
    }
}

/// Locks the index that is at its path now, so that no other process can open it until the returned file is closed.
/// Returns None if another process already has this index open, or has made a commit with it.
#[cfg(target_os = "linux")]
fn lock_index(paths: &FilePaths) -> Result<Option<File>, Fault> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    // Closing this file releases all locks that this process has on it. There are no such locks, because no connection
    // of this process opens the new index while another connection of the process has the old index open.
    let index = crate::disk::create_like(&paths.index, &paths.database).map_err(Fault::Files)?;
    // Each process that has the index open holds a lock on it.
    if fcntl_lock(&index, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let is_in_place =
        FileId::of_file(&index).is_ok_and(|locked| FileId::of(&paths.index).is_ok_and(|now| now == locked));
    Ok(if is_in_place && was_only_read(&index) { Some(index) } else { None })
}

/// Whether no commit was made with this index. The bytes 8 to 11 of the index contain a number that counts the commits.
/// If the index is new and empty, the number counts as 0.
#[cfg(target_os = "linux")]
fn was_only_read(index: &File) -> bool {
    use std::os::unix::fs::FileExt;
    let mut head = [0; 12];
    index.read_at(&mut head, 0).is_ok() && head[8..] == [0; 4]
}

#[cfg(not(target_os = "linux"))]
fn lock_index(_: &FilePaths) -> Result<Option<File>, Fault> {
    Ok(None)
}

/// Removes the log and the index that a deleted database has left beside a new, empty database. Also removes an index
/// whose log was deleted.
pub(crate) fn remove_leftovers(paths: &FilePaths) {
    let found = paths.find();
    let is_new = is_empty(&paths.database);
    let is_leftover = is_new || found.log.is_none();
    // SQLite creates the log before the index, and deletes the index before the log. So an index without a log is a
    // leftover. But an empty index is kept, because `lock_index` of another process may have just created it.
    if is_leftover && is_used(&paths.index, found.index) {
        let _ = fs::remove_file(&paths.index);
    }
    if is_new && found.log.is_some() {
        let _ = fs::remove_file(&paths.log);
    }
}

/// Whether a file was found at this path, and is not empty.
fn is_used(path: &Path, found: Option<FileId>) -> bool {
    found.is_some() && !is_empty(path)
}

/// Whether the file is empty or missing.
fn is_empty(path: &Path) -> bool {
    fs::metadata(path)
        .map(|file| file.len())
        .map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |len| len == 0)
}
