//! What can go wrong in a request, and the errors for callers.

use bandog_core::{Error, ErrorKind};
use tokio_postgres::error::{Severity, SqlState};

/// A failure of a request.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server has refused a statement. The transaction of the statement has changed nothing.
    Refused(tokio_postgres::Error),
    /// The connection has ended, so the server may have applied the request.
    Broken(Option<tokio_postgres::Error>),
    /// An error for the caller.
    Described(Error),
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        // An error with a higher severity ends the session.
        match error.as_db_error().map(tokio_postgres::error::DbError::parsed_severity) {
            Some(Some(Severity::Error) | None) => Self::Refused(error),
            Some(Some(_)) => Self::Broken(Some(error)),
            None => Self::Broken(Some(error)),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Described(error)
    }
}

impl Fault {
    /// The code of the server's refusal.
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Refused(error) => error.code(),
            Self::Broken(_) | Self::Described(_) => None,
        }
    }

    /// Whether the same request can succeed if it is repeated at once: other transactions were in its way.
    pub(crate) fn is_transient(&self) -> bool {
        self.is_lock_timeout()
            || self.code().is_some_and(|code| {
                [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED].contains(&code)
            })
    }

    /// Whether a row stayed locked by another transaction for too long.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether the session cannot be used any more: it has ended, or the tables are gone, which a new session creates.
    pub(crate) fn ends_session(&self) -> bool {
        let is_gone = |code: &SqlState| {
            [&SqlState::UNDEFINED_TABLE, &SqlState::INVALID_SCHEMA_NAME, &SqlState::READ_ONLY_SQL_TRANSACTION]
                .contains(&code)
        };
        matches!(self, Self::Broken(_)) || self.code().is_some_and(is_gone)
    }

    /// The error for the caller. `store` is the address of the store.
    pub(crate) fn describe(self, store: &str) -> Error {
        match self {
            Self::Described(error) => error,
            Self::Broken(cause) => {
                let said =
                    cause.as_ref().and_then(|cause| cause.as_db_error()).map(|said| format!(": {}", said.message()));
                let message = format!("the connection to {store} has ended{}", said.unwrap_or_default());
                Error::unavailable(message).ambiguous()
            }
            Self::Refused(error) => refusal(&error, store),
        }
    }
}

/// The error for a statement that the server has refused.
fn refusal(error: &tokio_postgres::Error, store: &str) -> Error {
    let (code, said) = match error.as_db_error() {
        Some(refusal) => (refusal.code().clone(), refusal.message().to_owned()),
        None => (SqlState::INTERNAL_ERROR, error.to_string()),
    };
    let message = format!("{store}: {said} (SQLSTATE {})", code.code());
    if code == SqlState::INSUFFICIENT_PRIVILEGE {
        let message = format!("{message}; docs/postgres.md lists the rights that locks need");
        return Error::new(ErrorKind::Denied, message);
    }
    if code == SqlState::UNDEFINED_COLUMN || code == SqlState::DATATYPE_MISMATCH || code == SqlState::UNDEFINED_FUNCTION
    {
        return Error::new(ErrorKind::Corrupt, format!("{message}; the tables of bandog were changed"));
    }
    // The server is overloaded, shuts down, has become a replica, or has cancelled the statement.
    Error::unavailable(message)
}
