//! Opens the database, and makes it if it is not there: many processes may do so at once.

use std::{fs, io, path::Path};

use bandog_core::{Error, ErrorKind};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::{fault::Fault, patience, sql};

/// `bdog`, which `file` and others can see in the header.
const APPLICATION: i64 = 0x6264_6f67;
/// The schema that this version writes.
const VERSION: i64 = 1;

/// A connection that is ready for work, and which file it is of.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) conn: Connection,
    file: FileId,
}

impl Store {
    /// Opens the database, waiting for others as long as this thread's patience lasts.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        loop {
            // SQLite does not wait by itself while another process switches the journal or recovers it.
            match Self::try_open(path) {
                Err(fault) if fault.is_busy() && patience::busy(i32::MAX) => {}
                done => return done,
            }
        }
    }

    /// Whether the path still leads to this file. If not, others may use another one by now.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        FileId::of(path).is_ok_and(|file| file == self.file)
    }

    fn try_open(path: &Path) -> Result<Self, Fault> {
        create(path).map_err(Fault::Files)?;
        let file = FileId::of(path).map_err(Fault::Files)?;
        #[allow(unused_mut, reason = "rusqlite before 0.41 sets the handler without it")]
        let mut conn = Connection::open_with_flags(path, flags())?;
        conn.busy_handler(Some(patience::busy as fn(i32) -> bool))?;
        conn.set_prepared_statement_cache_capacity(32);
        let is_new = is_new(&conn, path)?;
        use_wal(&conn, path)?;
        if is_new {
            make_tables(&conn, path)?;
        }
        let store = Self { conn, file };
        if !store.is_at(path) {
            return Err(Fault::Told(Error::unavailable(format!("{path:?} was replaced while it was opened"))));
        }
        Ok(store)
    }
}

fn flags() -> OpenFlags {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if cfg!(target_os = "linux") { flags } else { flags | OpenFlags::SQLITE_OPEN_CREATE }
}

/// Whether the tables are yet to be made; or why the database is not for us.
fn is_new(conn: &Connection, path: &Path) -> Result<bool, Fault> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    match conn.query_row(sql::IDENTITY, [], read)? {
        (0, 0, 0) => Ok(true),
        (APPLICATION, VERSION, _) => Ok(false),
        (APPLICATION, version, _) => Err(Fault::Told(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{path:?} has version {version} of the tables and this program knows {VERSION}: update the program"
            ),
        ))),
        (_, _, _) => Err(Fault::Told(Error::new(
            ErrorKind::Corrupt,
            format!("{path:?} is the database of another program, which is left alone: name another file"),
        ))),
    }
}

/// Readers then see the last commit while somebody writes. A lost power supply may cost the last commits, which is
/// enough for leases.
fn use_wal(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        let message =
            format!("the file system of {path:?} has no shared memory, so SQLite cannot share the file there");
        return Err(Fault::Told(Error::new(ErrorKind::Unsupported, message)));
    }
    Ok(conn.pragma_update(None, "synchronous", "normal")?)
}

fn make_tables(conn: &Connection, path: &Path) -> Result<(), Fault> {
    let transaction = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    if !is_new(&transaction, path)? {
        return Ok(()); // Somebody else was faster.
    }
    transaction.execute_batch(sql::SCHEMA)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit().map_err(Fault::Commit)
}

/// Makes the directory and an empty file, both for their owner only, if they are not there.
fn create(path: &Path) -> io::Result<()> {
    if fs::exists(path)? {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(directory)?;
    }
    match create_file(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// The file is never opened for that: another handle of this process may have it open by then, and closing any
/// descriptor of a file gives up all of a process's locks of it.
#[cfg(target_os = "linux")]
fn create_file(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0)?)
}

#[cfg(not(target_os = "linux"))]
fn create_file(_: &Path) -> io::Result<()> {
    Ok(()) // SQLite makes it, with the rights that the process gives to new files.
}

/// Which file it is, whatever its name.
#[derive(Debug, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    #[cfg(unix)]
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).map(|file| Self(file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    fn of(_: &Path) -> io::Result<Self> {
        Ok(Self(0, 0))
    }
}
