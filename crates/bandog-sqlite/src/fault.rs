//! What SQLite says, in our words: whether to try again, and what to do about it.

use std::{io, path::Path};

use bandog_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

use crate::patience;

/// Why work on the database did not come to its end.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was only allowed to look, and there is something to write.
    MustWrite,
    /// A statement failed, so the transaction was rolled back.
    Sql(rusqlite::Error),
    /// The commit failed, so nobody knows.
    Commit(rusqlite::Error),
    /// The files cannot be had.
    Files(io::Error),
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
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether it is one row's fault, and the transaction can go on.
    pub(crate) fn is_of_one_row(&self) -> bool {
        match self {
            Self::Sql(rusqlite::Error::SqliteFailure(..)) => {
                matches!(self.code(), Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig))
            }
            Self::Sql(_) => true, // A value of another type than the schema has.
            Self::MustWrite | Self::Commit(_) | Self::Files(_) | Self::Told(_) => false,
        }
    }

    /// The error for users.
    pub(crate) fn error(self, database: &Path) -> Error {
        match self {
            Self::MustWrite => Error::unavailable("a look turned into a change; this is a fault of bandog"),
            Self::Told(error) => error,
            Self::Files(cause) => {
                Error::new(files_kind(&cause), format!("no database at {database:?}")).caused_by(cause)
            }
            Self::Commit(cause) => sql_error(cause, database).ambiguous(),
            Self::Sql(cause) => sql_error(cause, database),
        }
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sql(error) | Self::Commit(error) => error.sqlite_error_code(),
            Self::MustWrite | Self::Files(_) | Self::Told(_) => None,
        }
    }
}

fn sql_error(cause: rusqlite::Error, database: &Path) -> Error {
    let (kind, what) = match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Unavailable, format!("{} keeps {database:?} locked", patience::who_locks(database)))
        }
        Some(ErrorCode::DiskFull) => {
            (ErrorKind::Unavailable, format!("no room on the disk of {database:?}: make some"))
        }
        Some(ErrorCode::SystemIoFailure) => {
            (ErrorKind::Unavailable, format!("the disk of {database:?} does not do its work; is it full?"))
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (ErrorKind::Denied, format!("this process may not write {database:?} and the files beside it"))
        }
        Some(ErrorCode::CannotOpen) => cannot_open(database),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Corrupt,
            format!(
                "{database:?} is damaged or no database: when nobody holds a lock of it, move it and its -wal away"
            ),
        ),
        Some(ErrorCode::Unknown) | None => {
            (ErrorKind::Corrupt, format!("{database:?} has not the tables that bandog made: was it changed by hand?"))
        }
        Some(_) => (ErrorKind::Unavailable, format!("SQLite cannot use {database:?} now")),
    };
    Error::new(kind, what).caused_by(cause)
}

/// SQLite does not tell why it cannot open a file, so the file is asked.
fn cannot_open(database: &Path) -> (ErrorKind, String) {
    if database.is_dir() {
        return (ErrorKind::Misused, format!("{database:?} is a directory; name a file in it"));
    }
    match may_write(database) {
        Err(cause) => (files_kind(&cause), format!("cannot open {database:?} and the files beside it: {cause}")),
        Ok(()) => (ErrorKind::Unavailable, format!("cannot open {database:?} and the files beside it now")),
    }
}

#[cfg(target_os = "linux")]
fn may_write(database: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    access(database, Access::READ_OK | Access::WRITE_OK)?;
    let directory = database.parent().unwrap_or(Path::new("."));
    Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(not(target_os = "linux"))]
fn may_write(database: &Path) -> io::Result<()> {
    std::fs::metadata(database).map(drop)
}

fn files_kind(cause: &io::Error) -> ErrorKind {
    use io::ErrorKind as Io;
    match cause.kind() {
        Io::PermissionDenied | Io::ReadOnlyFilesystem => ErrorKind::Denied,
        Io::NotADirectory | Io::IsADirectory | Io::InvalidFilename | Io::InvalidInput => ErrorKind::Misused,
        _ => ErrorKind::Unavailable,
    }
}
