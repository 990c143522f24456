//! The errors of the database, as errors of bandog.

use bandog_core::{Error, ErrorKind, Key, SqlStatement};

/// SQLSTATE: the schema or the table does not exist.
const MISSING: [&str; 2] = ["3F000", "42P01"];
/// SQLSTATE: another transaction was in the way: a serialization failure, a deadlock, or a timeout of a lock.
const CONTENDED: [&str; 3] = ["40001", "40P01", "55P03"];
/// SQLSTATE: a right is missing.
const NO_RIGHT: &str = "42501";
/// The classes of SQLSTATE with which the answer to a commit says nothing about the transaction: the connection has
/// failed, an operator or the system has ended the session, or an internal error. A pooler also answers with them.
const UNKNOWN: [&str; 4] = ["08", "57", "58", "XX"];
/// SQLSTATE: it is not known whether the statement was completed.
const COMPLETION_UNKNOWN: &str = "40003";

/// What a statement or a commit was for: the verb of its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The check of a lock.
    Fence,
    /// The completion of a run.
    Complete,
}

impl Purpose {
    fn verb(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Complete => "complete",
        }
    }

    fn refused(self) -> &'static str {
        match self {
            Self::Fence => "the database refused the check of the lock",
            Self::Complete => "the database refused the completion of the run",
        }
    }

    fn contended(self) -> &'static str {
        match self {
            Self::Fence => {
                "another transaction was in the way, or this transaction began before the lock was granted; repeat it"
            }
            Self::Complete => "another transaction was in the way; repeat the transaction",
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

/// The error of a statement.
pub(crate) fn of_statement(purpose: Purpose, statement: &SqlStatement, error: sqlx::Error) -> Error {
    let key = &statement.key;
    let Some(said) = error.as_database_error() else { return no_answer(purpose, key, error) };
    if let Some(refused) = statement.refusal(said.message()) {
        return purpose.add_to(refused, key).caused_by(error);
    }
    match said.code().as_deref() {
        Some(code) if MISSING.contains(&code) => purpose.add_to(statement.other_database(), key).caused_by(error),
        Some(NO_RIGHT) => {
            let message = "the user of the transaction lacks a right; docs/postgres.md lists the rights";
            purpose.add_to(Error::new(ErrorKind::Denied, message), key).caused_by(error)
        }
        Some(code) if CONTENDED.contains(&code) => contended(purpose, key, error),
        Some(_) | None => purpose.add_to(Error::unavailable(purpose.refused()), key).caused_by(error),
    }
}

/// The error of a commit.
pub(crate) fn of_commit(purpose: Purpose, key: &Key, error: sqlx::Error) -> Error {
    let Some(said) = error.as_database_error() else { return no_answer(purpose, key, error).ambiguous() };
    match said.code().as_deref() {
        Some(code) if CONTENDED.contains(&code) => contended(purpose, key, error),
        Some(code) if !is_unknown(code) => {
            purpose.add_to(Error::new(ErrorKind::Denied, "the database refused the commit"), key).caused_by(error)
        }
        Some(_) | None => {
            let message = "the session has ended during the commit, so the transaction may have been committed";
            purpose.add_to(Error::unavailable(message), key).caused_by(error).ambiguous()
        }
    }
}

/// Whether a commit with this SQLSTATE may have been executed.
fn is_unknown(code: &str) -> bool {
    code == COMPLETION_UNKNOWN || UNKNOWN.iter().any(|class| code.starts_with(class))
}

fn no_answer(purpose: Purpose, key: &Key, error: sqlx::Error) -> Error {
    purpose.add_to(Error::unavailable("the database did not answer"), key).caused_by(error)
}

fn contended(purpose: Purpose, key: &Key, error: sqlx::Error) -> Error {
    purpose.add_to(Error::unavailable(purpose.contended()), key).caused_by(error)
}

#[cfg(test)]
mod tests;
