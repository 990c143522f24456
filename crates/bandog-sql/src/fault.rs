//! The faults of a request, and the errors for callers.

use bandog_core::{Error, ErrorKind};
use tokio_postgres::error::{DbError, Severity, SqlState};

/// A failure of a request.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server has refused a statement. The transaction of the statement has changed nothing.
    Refused(Refusal),
    /// The connection has ended, so the server may have applied the request. The text is what the server has said.
    Broken(Option<String>),
    /// An error for the caller.
    Described(Error),
}

/// Why the server has refused a statement.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    /// The message of the server, and its code.
    pub(crate) message: String,
}

/// The reason of a refusal, as far as it matters for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A row stayed locked by another transaction for too long.
    RowLocked,
    /// Another transaction was in the way, such as in a deadlock.
    Disturbed,
    /// The tables are gone, or the server is read-only now. A new session finds out.
    Gone,
    /// The user lacks a right.
    Denied,
    /// The tables were changed.
    Changed,
    /// A row exists already.
    Duplicate,
    /// A setting of the server does not allow such statements.
    #[cfg(feature = "mysql")]
    Unsupported,
    /// The server has interrupted the statement. A block of statements may have been committed before.
    #[cfg(feature = "mysql")]
    Interrupted,
    /// The server is overloaded, shuts down, or has cancelled the statement.
    Other,
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        // An error with a higher severity ends the session.
        match error.as_db_error().map(DbError::parsed_severity) {
            Some(Some(Severity::Error) | None) => Self::Refused(refusal(&error)),
            Some(Some(_)) | None => Self::broken(&error),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Described(error)
    }
}

impl Fault {
    /// The end of a connection to PostgreSQL.
    pub(crate) fn broken(error: &tokio_postgres::Error) -> Self {
        Self::Broken(error.as_db_error().map(|said| said.message().to_owned()))
    }

    fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(refusal) => Some(refusal.reason),
            Self::Broken(_) | Self::Described(_) => None,
        }
    }

    /// Whether the same request can succeed if it is repeated at once: other transactions were in its way.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.reason(), Some(Reason::RowLocked | Reason::Disturbed))
    }

    /// Whether a row stayed locked by another transaction for too long.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        self.reason() == Some(Reason::RowLocked)
    }

    /// Rows that another transaction has locked.
    pub(crate) fn row_locked() -> Self {
        let message = "another transaction has locked the row of the lock for too long".into();
        Self::Refused(Refusal { reason: Reason::RowLocked, message })
    }

    /// Whether a row exists already.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.reason() == Some(Reason::Duplicate)
    }

    /// Whether the server may have committed the transaction of the statement.
    pub(crate) fn may_be_committed(&self) -> bool {
        match self.reason() {
            #[cfg(feature = "mysql")]
            Some(Reason::Interrupted) => true,
            Some(_) => false,
            None => matches!(self, Self::Broken(_)),
        }
    }

    /// Whether the user lacks a right.
    pub(crate) fn is_denied(&self) -> bool {
        self.reason() == Some(Reason::Denied)
    }

    /// Whether a table is missing, or the server is read-only.
    pub(crate) fn is_gone(&self) -> bool {
        self.reason() == Some(Reason::Gone)
    }

    /// Whether the tables are not those that the statement needs.
    pub(crate) fn is_changed(&self) -> bool {
        self.reason() == Some(Reason::Changed)
    }

    /// Whether the session cannot be used any more: it has ended, or the tables are gone, which a new session creates.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self, Self::Broken(_)) || self.reason() == Some(Reason::Gone)
    }

    /// The error for the caller. `store` is the address of the store.
    pub(crate) fn describe(self, store: &str) -> Error {
        match self {
            Self::Described(error) => error,
            Self::Broken(said) => {
                let said = said.map(|said| format!(": {said}"));
                let message = format!("the connection to {store} has ended{}", said.unwrap_or_default());
                Error::unavailable(message).ambiguous()
            }
            Self::Refused(refusal) => refusal.describe(store),
        }
    }
}

impl Refusal {
    fn describe(self, store: &str) -> Error {
        let Self { reason, message } = self;
        match reason {
            Reason::Denied => Error::new(ErrorKind::Denied, format!("{store}: {message}")),
            Reason::Changed => {
                Error::new(ErrorKind::Corrupt, format!("{store}: {message}; the tables of bandog were changed"))
            }
            #[cfg(feature = "mysql")]
            Reason::Unsupported => Error::new(ErrorKind::Unsupported, format!("{store}: {message}")),
            #[cfg(feature = "mysql")]
            Reason::Interrupted => Error::unavailable(format!("{store}: {message}")).ambiguous(),
            Reason::RowLocked | Reason::Disturbed | Reason::Gone | Reason::Duplicate | Reason::Other => {
                Error::unavailable(format!("{store}: {message}"))
            }
        }
    }
}

/// A refusal by PostgreSQL.
fn refusal(error: &tokio_postgres::Error) -> Refusal {
    let (code, said) = match error.as_db_error() {
        Some(refusal) => (refusal.code().clone(), refusal.message().to_owned()),
        None => (SqlState::INTERNAL_ERROR, error.to_string()),
    };
    let reason = match code {
        SqlState::LOCK_NOT_AVAILABLE => Reason::RowLocked,
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => Reason::Disturbed,
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME | SqlState::READ_ONLY_SQL_TRANSACTION => Reason::Gone,
        SqlState::UNIQUE_VIOLATION => Reason::Duplicate,
        SqlState::INSUFFICIENT_PRIVILEGE => Reason::Denied,
        SqlState::UNDEFINED_COLUMN | SqlState::DATATYPE_MISMATCH | SqlState::UNDEFINED_FUNCTION => Reason::Changed,
        _ => Reason::Other,
    };
    let hint = if reason == Reason::Denied {
        "; `bandog schema --print` grants the rights that locks need, and docs/postgres.md lists them"
    } else {
        ""
    };
    Refusal { reason, message: format!("{said} (SQLSTATE {}){hint}", code.code()) }
}
