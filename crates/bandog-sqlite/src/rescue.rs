//! Brings into the database what stands in a log that was deleted, before anybody opens the files anew.
//!
//! Processes that had the log open share its index and see all of it. A process that opens the files later sees the
//! database alone. So the first process that notices keeps later ones out and copies the log into the database. SQLite
//! does not open an index while another process has locked it, so a lock of the new index is the gate. The copy takes
//! the locks of the old index, so it waits for processes that write into the old log. None of their commits is left
//! out: each of them holds that lock when it looks whether its files are still there, and then commits.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use rusqlite::Connection;

use crate::{
    fault::Fault,
    patience::Writing,
    place::{FileId, Names, Place},
};

/// What has become of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    /// The database has all of it.
    Kept,
    /// Another process has opened the files anew, or a reader was in the way: the commits that the database had not
    /// yet are lost.
    Lost,
}

/// Copies a log into its database, if the files beside it were deleted and nobody has opened them anew.
///
/// A fault that is busy says that a process is in the middle of a write, and that it is to be tried again.
pub(crate) fn copy(conn: &Connection, place: &Place) -> Result<Log, Fault> {
    let (names, ours, found) = (place.names(), place.files, place.names().look());
    if found.database != Some(ours.database) {
        return Ok(Log::Lost);
    }
    if found.index == Some(ours.index) {
        // It belongs to our log, which is not there any more. With another log it makes no sense.
        let _ = fs::remove_file(&names.index);
    }
    if is_used(&names.log, found.log.filter(|log| *log != ours.log)) {
        return Ok(Log::Lost);
    }
    let Some(_gate) = shut(names)? else { return Ok(Log::Lost) };
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (busy, all, copied): (i64, i64, i64) = conn.query_row("pragma wal_checkpoint(full)", [], read)?;
    if busy == 0 && all == copied {
        return Ok(Log::Kept);
    }
    match Writing::into(ours.index) {
        Some(writing) => Err(Fault::Moved(Some(writing))),
        None => Ok(Log::Lost), // A reader is in the way, perhaps without an end.
    }
}

/// Keeps other processes from opening the index that lies at its name, until the file is closed. None if one of them has
/// it open already, or has written by it.
#[cfg(target_os = "linux")]
fn shut(names: &Names) -> Result<Option<File>, Fault> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    // Closing it gives up the locks that this process has of it. It has none: no connection of this process opens the
    // new index while another has the old one open.
    let gate = crate::disk::create_like(&names.index, &names.database).map_err(Fault::Files)?;
    // SQLite has a lock of it as long as it has it open.
    if fcntl_lock(&gate, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let is_there = FileId::of_file(&gate).is_ok_and(|gate| FileId::of(&names.index).is_ok_and(|now| now == gate));
    Ok(if is_there && was_only_read(&gate) { Some(gate) } else { None })
}

/// Whether no commit was made by this index: the third number in it counts them. It is empty when it is new.
#[cfg(target_os = "linux")]
fn was_only_read(index: &File) -> bool {
    use std::os::unix::fs::FileExt;
    let mut head = [0; 12];
    index.read_at(&mut head, 0).is_ok() && head[8..] == [0; 4]
}

#[cfg(not(target_os = "linux"))]
fn shut(_: &Names) -> Result<Option<File>, Fault> {
    Ok(None)
}

/// Removes the files that a deleted database has left beside a new one, and an index whose log was deleted.
pub(crate) fn clear(names: &Names) {
    let found = names.look();
    let is_new = is_empty(&names.database);
    let is_left = is_new || found.log.is_none();
    // SQLite creates the log before the index, and deletes it after the index. An empty index may be a gate.
    if is_left && is_used(&names.index, found.index) {
        let _ = fs::remove_file(&names.index);
    }
    if is_new && found.log.is_some() {
        let _ = fs::remove_file(&names.log);
    }
}

fn is_used(path: &Path, found: Option<FileId>) -> bool {
    found.is_some() && !is_empty(path)
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path)
        .map(|file| file.len())
        .map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |len| len == 0)
}
