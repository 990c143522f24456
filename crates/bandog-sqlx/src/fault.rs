//! The errors of the database, as errors of bandog.

use bandog_core::{Error, ErrorKind, Key, SqlDialect, SqlStatement};
use sqlx::error::DatabaseError;

/// The classes of SQLSTATE with which the answer to a commit says nothing about the transaction: the connection has
/// failed, an operator or the system has ended the session, or an internal error. A pooler also answers with them. `HY` and
/// `70` are those of MySQL.
const UNKNOWN: [&str; 6] = ["08", "57", "58", "XX", "HY", "70"];
/// The message about a statement that was cancelled.
const CANCELLED: &str = "the statement was cancelled by a limit of its session or by an operator, possibly while it \
                         waited for another transaction; repeat the transaction";
/// SQLSTATE: it is not known whether the statement was completed; and the limit of a transaction's time, which can end a
/// session just after its commit.
const COMPLETION_UNKNOWN: [&str; 2] = ["40003", "25P04"];

/// Why a database has refused a statement or a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The schema or the table does not exist.
    Missing,
    /// Another transaction was in the way: a serialization failure, a deadlock, or a timeout of a lock.
    Contended,
    /// The statement was cancelled, by a limit of its session or by an operator.
    Cancelled,
    /// The session was ended before this statement, because the transaction was idle or open for too long.
    TooLong,
    /// A right is missing.
    NoRight,
    Other,
}

fn reason(said: &dyn DatabaseError) -> Reason {
    #[cfg(feature = "mysql")]
    if let Some(said) = said.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return match said.number() {
            1049 | 1146 => Reason::Missing,
            // The last one: a row has changed since the snapshot of the transaction.
            1205 | 1213 | 3572 | 1020 => Reason::Contended,
            1317 | 1969 | 3024 => Reason::Cancelled,
            1044 | 1142 | 1143 | 1370 => Reason::NoRight,
            _ => Reason::Other,
        };
    }
    match said.code().as_deref() {
        Some("3F000" | "42P01") => Reason::Missing,
        Some("40001" | "40P01" | "55P03") => Reason::Contended,
        Some("57014") => Reason::Cancelled,
        Some("25P03" | "25P04") => Reason::TooLong,
        Some("42501") => Reason::NoRight,
        Some(_) | None => Reason::Other,
    }
}

/// The purpose of a statement or of a commit: the verb of its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The check of a lock.
    Fence,
    /// The completion of a run.
    Complete,
    /// A push to a work queue.
    Push,
    /// The settlement of an element of a work queue.
    Settle,
}

impl Purpose {
    fn verb(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Complete => "complete",
            Self::Push => "push",
            Self::Settle => "settle",
        }
    }

    fn refused(self) -> &'static str {
        match self {
            Self::Fence => "the database refused the check of the lock",
            Self::Complete => "the database refused the completion of the run",
            Self::Push => "the database refused the push",
            Self::Settle => "the database refused the settlement",
        }
    }

    fn contended(self) -> &'static str {
        match self {
            Self::Fence => {
                "another transaction was in the way, or this transaction began before the lock was granted; repeat it"
            }
            Self::Complete | Self::Push | Self::Settle => "another transaction was in the way; repeat the transaction",
        }
    }

    /// Adds the verb and the key to an error.
    pub(crate) fn add_to(self, error: Error, key: &Key) -> Error {
        error.during(self.verb()).at(key)
    }
}

/// The error of a transaction that is a savepoint.
pub(crate) fn savepoint(purpose: Purpose, key: &Key) -> Error {
    let message = "the transaction is a savepoint: if the check fails, the outer transaction can still commit; use the \
                   outermost transaction";
    purpose.add_to(Error::new(ErrorKind::Misused, message), key)
}

/// The error of a statement whose result was empty.
pub(crate) fn no_row(purpose: Purpose, key: &Key) -> Error {
    let message =
        "the result of the check was empty; the session must not limit the rows of results, as sql_select_limit does";
    purpose.add_to(Error::misused(message), key)
}

/// The error of a further completion in one transaction.
pub(crate) fn completed_twice(key: &Key) -> Error {
    let message = "this transaction has completed the run before, and nothing was committed; call complete_in and then \
                   tx.commit(), or only commit";
    Purpose::Complete.add_to(Error::misused(message), key)
}

/// Whether the database has refused a completion because the run was completed.
pub(crate) fn is_completed(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|said| said.message().contains(SqlStatement::COMPLETED))
}

/// Whether this is the error of such a refusal.
pub(crate) fn says_completed(error: &Error) -> bool {
    let words = SqlStatement::COMPLETED.trim_start_matches("bandog: ");
    error.kind() == ErrorKind::Lost && error.to_string().contains(words)
}

/// The error of a statement.
pub(crate) fn of_statement(purpose: Purpose, statement: &SqlStatement, error: sqlx::Error) -> Error {
    let key = &statement.key;
    let Some(said) = error.as_database_error() else { return no_answer(purpose, key, error) };
    if let Some(refused) = statement.refusal(said.message()) {
        // The database has no error for this: its text is about a conversion or a lock, and says nothing more.
        return purpose.add_to(refused, key);
    }
    match reason(said) {
        Reason::Missing => purpose.add_to(statement.other_database(), key).caused_by(error),
        Reason::NoRight => {
            let page = match statement.dialect {
                SqlDialect::MySql => "docs/mysql.md",
                _ => "docs/postgres.md",
            };
            let message = format!("the user of the transaction lacks a right; {page} lists the rights");
            purpose.add_to(Error::new(ErrorKind::Denied, message), key).caused_by(error)
        }
        Reason::Contended => contended(purpose, key, error),
        Reason::Cancelled => purpose.add_to(Error::unavailable(CANCELLED), key).caused_by(error),
        Reason::TooLong => too_long(purpose, key, error),
        Reason::Other => purpose.add_to(Error::unavailable(purpose.refused()), key).caused_by(error),
    }
}

/// The error of a commit.
pub(crate) fn of_commit(purpose: Purpose, key: &Key, error: sqlx::Error) -> Error {
    let Some(said) = error.as_database_error() else { return no_answer(purpose, key, error).ambiguous() };
    match reason(said) {
        Reason::Contended => return contended(purpose, key, error),
        Reason::TooLong if !said.code().is_some_and(|code| is_unknown(&code)) => return too_long(purpose, key, error),
        Reason::TooLong | Reason::Missing | Reason::Cancelled | Reason::NoRight | Reason::Other => {}
    }
    match said.code().as_deref() {
        Some(code) if !is_unknown(code) => {
            let refused = Error::new(ErrorKind::Denied, "the database refused the commit").about_data();
            purpose.add_to(refused, key).caused_by(error)
        }
        Some(_) | None => {
            let message = "the session has ended during the commit, so the transaction may have been committed";
            purpose.add_to(Error::unavailable(message), key).caused_by(error).ambiguous()
        }
    }
}

/// The error of a rollback. The transaction has not committed, whatever the answer was.
pub(crate) fn of_rollback(purpose: Purpose, key: &Key, error: sqlx::Error) -> Error {
    purpose.add_to(Error::unavailable("the rollback has failed; nothing was committed"), key).caused_by(error)
}

/// Whether a commit with this SQLSTATE may have been executed.
fn is_unknown(code: &str) -> bool {
    COMPLETION_UNKNOWN.contains(&code) || UNKNOWN.iter().any(|class| code.starts_with(class))
}

pub(crate) fn no_answer(purpose: Purpose, key: &Key, error: sqlx::Error) -> Error {
    purpose.add_to(Error::unavailable("the database did not answer"), key).caused_by(error)
}

fn contended(purpose: Purpose, key: &Key, error: sqlx::Error) -> Error {
    purpose.add_to(Error::unavailable(purpose.contended()), key).caused_by(error)
}

/// The server rolls back before it ends such a session.
fn too_long(purpose: Purpose, key: &Key, error: sqlx::Error) -> Error {
    let message = "the database has ended the session and rolled back, because the transaction was open for longer than \
                   a limit of its session; repeat the transaction";
    purpose.add_to(Error::unavailable(message), key).caused_by(error)
}

#[cfg(test)]
mod tests;
