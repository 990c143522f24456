//! The errors of the database, as errors of bandog.

use bandog_core::{Error, ErrorKind, Key, SqlStatement};

/// SQLSTATE: the schema or the table does not exist.
const MISSING: [&str; 2] = ["3F000", "42P01"];
/// SQLSTATE: another transaction was in the way: a serialization failure, a deadlock, or a timeout of a lock.
const CONTENDED: [&str; 3] = ["40001", "40P01", "55P03"];
/// SQLSTATE: a right is missing.
const NO_RIGHT: &str = "42501";

/// The error of a check.
pub(crate) fn of_statement(statement: &SqlStatement, error: sqlx::Error) -> Error {
    let key = &statement.key;
    let Some(said) = error.as_database_error() else { return no_answer(key, error) };
    if let Some(refused) = statement.refusal(said.message()) {
        return refused.caused_by(error);
    }
    match said.code().as_deref() {
        Some(code) if MISSING.contains(&code) => statement.other_database().caused_by(error),
        Some(NO_RIGHT) => {
            let message = "the user of the transaction lacks a right; docs/postgres.md lists the rights";
            Error::new(ErrorKind::Denied, message).during("fence").at(key).caused_by(error)
        }
        Some(code) if CONTENDED.contains(&code) => contended(key, error),
        Some(_) | None => {
            Error::unavailable("the database refused the check of the lock").during("fence").at(key).caused_by(error)
        }
    }
}

/// The error of a commit.
pub(crate) fn of_commit(key: &Key, error: sqlx::Error) -> Error {
    let Some(said) = error.as_database_error() else { return no_answer(key, error).ambiguous() };
    match said.code().as_deref() {
        Some(code) if CONTENDED.contains(&code) => contended(key, error),
        Some(_) | None => {
            Error::new(ErrorKind::Denied, "the database refused the commit").during("fence").at(key).caused_by(error)
        }
    }
}

fn no_answer(key: &Key, error: sqlx::Error) -> Error {
    Error::unavailable("the database did not answer").during("fence").at(key).caused_by(error)
}

fn contended(key: &Key, error: sqlx::Error) -> Error {
    let message =
        "another transaction was in the way, or this transaction began before the lock was granted; repeat it";
    Error::unavailable(message).during("fence").at(key).caused_by(error)
}
