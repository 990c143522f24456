//! What SQLite says, in our words: whether to try again, and what to do about it.

use std::{io, path::Path};

use bandog_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

use crate::{
    disk,
    patience::{self, Writing},
};

pub(crate) const MOVE_IT_AWAY: &str = "when nobody holds a lock of it, move it, its -wal and its -shm away";

/// Why work on the database did not come to its end.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was only allowed to look, and there is something to write.
    MustWrite,
    /// A statement failed, so the transaction was rolled back.
    Sql(rusqlite::Error),
    /// The commit failed, so nobody knows.
    Commit(rusqlite::Error),
    /// There is no database, and none shall be made.
    NeverUsed,
    /// The database can only be read.
    ReadOnly,
    /// The files cannot be had.
    Files(io::Error),
    /// Files of it were deleted or replaced, so it must be opened again; or somebody still writes into those that were.
    Moved(Option<Writing>),
    /// They were deleted or replaced during the commit, so nobody knows.
    Unsure,
    /// It is already said in our words.
    Told(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// Whether another connection was in the way all the time.
    pub(crate) fn is_busy(&self) -> bool {
        let is_moved = matches!(self, Self::Moved(_));
        is_moved || matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the connection may be of use though it failed: a full disk is no better for a new one, and what stands
    /// in files that were deleted can still be saved.
    pub(crate) fn leaves_the_connection(&self) -> bool {
        self.is_full() || matches!(self, Self::Unsure)
    }

    /// Whether the disk has no room.
    fn is_full(&self) -> bool {
        self.code() == Some(ErrorCode::DiskFull)
    }

    /// Whether it is one row's fault, and the transaction can go on.
    pub(crate) fn is_of_one_row(&self) -> bool {
        match self {
            Self::Sql(rusqlite::Error::SqliteFailure(..)) => {
                matches!(self.code(), Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig))
            }
            Self::Sql(_) => true, // A value of another type than the schema has.
            Self::MustWrite | Self::NeverUsed | Self::ReadOnly | Self::Commit(_) | Self::Files(_) => false,
            Self::Moved(_) | Self::Unsure | Self::Told(_) => false,
        }
    }

    /// The error for users.
    pub(crate) fn error(self, database: &Path) -> Error {
        match self {
            Self::MustWrite => Error::unavailable("a look turned into a change; this is a fault of bandog"),
            Self::NeverUsed => {
                Error::unavailable(format!("there is no database at {database:?}: no lock was ever taken there"))
            }
            Self::ReadOnly => Error::new(ErrorKind::Denied, not_writable(database)),
            Self::Moved(Some(writing)) => Error::unavailable(format!(
                "{writing} still writes into files beside {database:?} that were deleted or replaced"
            )),
            Self::Moved(None) => Error::unavailable(format!(
                "{database:?} or files beside it were deleted or replaced, and it cannot be opened again yet"
            )),
            Self::Unsure => Error::unavailable(format!(
                "{database:?} or files beside it were deleted or replaced while this was written"
            ))
            .ambiguous(),
            Self::Told(error) => error,
            Self::Files(cause) => files_error(cause, database),
            Self::Commit(cause) => sql_error(cause, database).ambiguous(),
            Self::Sql(cause) => sql_error(cause, database),
        }
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sql(error) | Self::Commit(error) => error.sqlite_error_code(),
            Self::MustWrite | Self::NeverUsed | Self::ReadOnly | Self::Files(_) => None,
            Self::Moved(_) | Self::Unsure | Self::Told(_) => None,
        }
    }
}

fn sql_error(cause: rusqlite::Error, database: &Path) -> Error {
    let (kind, what) = match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Unavailable, format!("{} keeps {database:?} locked", patience::who_locks(database)))
        }
        Some(ErrorCode::DiskFull) => full(database),
        Some(ErrorCode::SystemIoFailure) => broken_disk(database),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (ErrorKind::Denied, not_writable(database))
        }
        Some(ErrorCode::CannotOpen) => cannot_open(database),
        Some(ErrorCode::NotADatabase) => {
            let what = format!(
                "{database:?} is no SQLite database, or its header is damaged: name another file, or {MOVE_IT_AWAY}"
            );
            return Error::new(ErrorKind::Corrupt, what); // SQLite adds nothing to that.
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            return Error::new(ErrorKind::Corrupt, format!("{database:?} is damaged: {MOVE_IT_AWAY}"));
        }
        Some(ErrorCode::Unknown) | None => {
            (ErrorKind::Corrupt, format!("{database:?} has not the tables that bandog made: was it changed by hand?"))
        }
        Some(_) => (ErrorKind::Unavailable, format!("SQLite cannot use {database:?} now")),
    };
    Error::new(kind, what).caused_by(cause)
}

fn files_error(cause: io::Error, database: &Path) -> Error {
    let what = match cause.kind() {
        io::ErrorKind::StorageFull => full(database).1,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => not_writable(database),
        _ => format!("no database at {database:?}"),
    };
    Error::new(files_kind(&cause), what).caused_by(cause)
}

fn full(database: &Path) -> (ErrorKind, String) {
    let what = format!(
        "no space left on the disk of {database:?}: free some; until then nothing is granted, renewed or released, \
         and holds end with their ttl"
    );
    (ErrorKind::Unavailable, what)
}

/// A full disk shows itself in more ways than one.
fn broken_disk(database: &Path) -> (ErrorKind, String) {
    match disk::room(database) {
        Ok(room) if room.bytes == 0 => full(database),
        Ok(_) | Err(_) => (
            ErrorKind::Unavailable,
            format!("the disk of {database:?} failed: look at the kernel's log, and for quotas and limits"),
        ),
    }
}

fn not_writable(database: &Path) -> String {
    if disk::room(database).is_ok_and(|room| room.is_read_only) {
        return format!(
            "the file system of {database:?} is mounted read-only: mount it to be written, or name a file elsewhere"
        );
    }
    let rights = "give it the right to write them and their directory, or run it as their owner";
    format!("this process may not write {database:?} and the files beside it: {rights}")
}

/// SQLite does not tell why it cannot open a file, so the file is asked.
fn cannot_open(database: &Path) -> (ErrorKind, String) {
    if database.is_dir() {
        return (ErrorKind::Misused, format!("{database:?} is a directory; name a file in it"));
    }
    match disk::may_write(database) {
        Err(cause) if files_kind(&cause) == ErrorKind::Denied => (ErrorKind::Denied, not_writable(database)),
        Err(cause) => (files_kind(&cause), format!("cannot open {database:?} and the files beside it: {cause}")),
        Ok(()) => (ErrorKind::Unavailable, format!("cannot open {database:?} and the files beside it now")),
    }
}

fn files_kind(cause: &io::Error) -> ErrorKind {
    use io::ErrorKind as Io;
    match cause.kind() {
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
        Io::NotADirectory | Io::IsADirectory | Io::InvalidFilename | Io::InvalidInput => ErrorKind::Misused,
        _ => ErrorKind::Unavailable,
    }
}
