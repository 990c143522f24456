//! Faults of SQLite and of the files: whether the caller may retry, and what the user can do about them.

use std::{io, path::Path};

use bandog_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

use crate::{
    busy_wait::{self, WriterProcess},
    disk,
};

/// Part of an error message: the advice for a damaged database.
pub(crate) const MOVE_IT_AWAY: &str = "when no process holds a lock in it, move it, its -wal and its -shm file away";

/// The reason why a request was not executed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The request ran in a read-only transaction, and has something to write.
    MustWrite,
    /// A statement failed, so the transaction was rolled back.
    Sql(rusqlite::Error),
    /// The commit failed, so it is unknown whether the request was applied.
    Commit(rusqlite::Error),
    /// There is no database, and this request is not allowed to create one.
    NoDatabase,
    /// The database can only be read.
    ReadOnly,
    /// The files cannot be created or examined.
    Files(io::Error),
    /// Files of the database were deleted or replaced, so the database must be opened again. The value is the process
    /// that still writes to the deleted files, if there is one.
    FilesReplaced(Option<WriterProcess>),
    /// Files of the database were deleted or replaced during the commit, so it is unknown whether the request was
    /// applied.
    ReplacedDuringCommit,
    /// The rules of locks refuse this step, with an error whose text for users is complete.
    Refused(Error),
    /// An error whose text for users is complete.
    Described(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// Whether the request was blocked by another connection or process. Then a retry can succeed.
    pub(crate) fn is_busy(&self) -> bool {
        let is_replaced = matches!(self, Self::FilesReplaced(_));
        is_replaced || matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the connection is kept after this fault. If the disk is full, a new connection does not help. If files
    /// were deleted or replaced, their contents can still be saved through the old connection.
    pub(crate) fn keeps_the_connection(&self) -> bool {
        self.is_full() || matches!(self, Self::ReplacedDuringCommit)
    }

    /// Whether the disk is full.
    fn is_full(&self) -> bool {
        self.code() == Some(ErrorCode::DiskFull)
    }

    /// Whether the fault affects only one row. Then the transaction can continue.
    pub(crate) fn concerns_one_row(&self) -> bool {
        match self {
            Self::Sql(rusqlite::Error::SqliteFailure(..)) => {
                matches!(self.code(), Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig))
            }
            Self::Refused(_) => true,
            Self::Sql(_) => true, // A value does not have the type that the schema requires.
            Self::MustWrite | Self::NoDatabase | Self::ReadOnly | Self::Commit(_) | Self::Files(_) => false,
            Self::FilesReplaced(_) | Self::ReplacedDuringCommit | Self::Described(_) => false,
        }
    }

    /// The error for users.
    pub(crate) fn error(self, database: &Path) -> Error {
        match self {
            Self::MustWrite => Error::unavailable("a read-only request tried to write; this is a bug of bandog"),
            Self::NoDatabase => {
                Error::unavailable(format!("there is no database at {database:?}: no lock was ever taken there"))
            }
            Self::ReadOnly => Error::new(ErrorKind::Denied, not_writable(database)),
            Self::FilesReplaced(Some(process)) => Error::unavailable(format!(
                "{process} still writes to files beside {database:?} that were deleted or replaced"
            )),
            Self::FilesReplaced(None) => Error::unavailable(format!(
                "{database:?} or files beside it were deleted or replaced, and it cannot be opened again yet"
            )),
            Self::ReplacedDuringCommit => Error::unavailable(format!(
                "{database:?} or files beside it were deleted or replaced while this was written"
            ))
            .ambiguous(),
            Self::Refused(error) | Self::Described(error) => error,
            Self::Files(cause) => files_error(cause, database),
            Self::Commit(cause) => sql_error(cause, database).ambiguous(),
            Self::Sql(cause) => sql_error(cause, database),
        }
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sql(error) | Self::Commit(error) => error.sqlite_error_code(),
            Self::MustWrite | Self::NoDatabase | Self::ReadOnly | Self::Files(_) => None,
            Self::FilesReplaced(_) | Self::ReplacedDuringCommit | Self::Refused(_) | Self::Described(_) => None,
        }
    }
}

/// The error for users after an error of SQLite.
fn sql_error(cause: rusqlite::Error, database: &Path) -> Error {
    let (kind, what) = match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Unavailable, format!("{} keeps {database:?} locked", busy_wait::locking_process(database)))
        }
        Some(ErrorCode::DiskFull) => full(database),
        Some(ErrorCode::SystemIoFailure) => broken_disk(database),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (ErrorKind::Denied, not_writable(database))
        }
        Some(ErrorCode::CannotOpen) => cannot_open(database),
        Some(ErrorCode::NotADatabase) => {
            let what = format!(
                "{database:?} is not a SQLite database, or its header is damaged: name another file, or {MOVE_IT_AWAY}"
            );
            return Error::new(ErrorKind::Corrupt, what); // SQLite's message contains no further information.
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            return Error::new(ErrorKind::Corrupt, format!("{database:?} is damaged: {MOVE_IT_AWAY}"));
        }
        Some(ErrorCode::Unknown) | None => (
            ErrorKind::Corrupt,
            format!("{database:?} does not have the tables that bandog created: was it changed by hand?"),
        ),
        Some(_) => (ErrorKind::Unavailable, format!("SQLite cannot use {database:?} now")),
    };
    Error::new(kind, what).caused_by(cause)
}

/// The error for users after an error of the file system.
fn files_error(cause: io::Error, database: &Path) -> Error {
    let what = match cause.kind() {
        io::ErrorKind::StorageFull => full(database).1,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => not_writable(database),
        _ => format!("the database {database:?} cannot be created or examined"),
    };
    Error::new(files_kind(&cause), what).caused_by(cause)
}

/// The kind and the text of the error if the disk is full.
fn full(database: &Path) -> (ErrorKind, String) {
    let what = format!(
        "no space left on the disk of {database:?}: free some space; until then nothing is granted, renewed or \
         released, and holds expire after their ttl"
    );
    (ErrorKind::Unavailable, what)
}

/// The kind and the text of the error after an I/O error of SQLite. A full disk can cause I/O errors, too, so the free
/// space is checked.
fn broken_disk(database: &Path) -> (ErrorKind, String) {
    match disk::space(database) {
        Ok(space) if space.bytes == 0 => full(database),
        Ok(_) | Err(_) => (
            ErrorKind::Unavailable,
            format!("the disk of {database:?} failed: check the kernel's log, quotas and limits"),
        ),
    }
}

/// The text of the error if this process cannot write to the files.
fn not_writable(database: &Path) -> String {
    if disk::space(database).is_ok_and(|space| space.is_read_only) {
        return format!(
            "the file system of {database:?} is mounted read-only: mount it read-write, or name a file elsewhere"
        );
    }
    let rights = "give it write permission for these files and their directory, or run it as their owner";
    format!("this process may not write {database:?} and the files beside it: {rights}")
}

/// The kind and the text of the error if SQLite cannot open a file. SQLite does not report the reason, so the file is
/// examined.
fn cannot_open(database: &Path) -> (ErrorKind, String) {
    if database.is_dir() {
        return (ErrorKind::Misused, format!("{database:?} is a directory; name a file in it"));
    }
    match disk::check_writable(database) {
        Err(cause) if files_kind(&cause) == ErrorKind::Denied => (ErrorKind::Denied, not_writable(database)),
        Err(cause) => (files_kind(&cause), format!("cannot open {database:?} and the files beside it: {cause}")),
        Ok(()) => (ErrorKind::Unavailable, format!("cannot open {database:?} and the files beside it now")),
    }
}

/// The kind of the error for an error of the file system.
fn files_kind(cause: &io::Error) -> ErrorKind {
    use io::ErrorKind as Io;
    match cause.kind() {
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
        Io::NotADirectory | Io::IsADirectory | Io::InvalidFilename | Io::InvalidInput => ErrorKind::Misused,
        _ => ErrorKind::Unavailable,
    }
}
