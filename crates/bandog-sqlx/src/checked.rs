//! The execution of the statements that check a lock or complete a run.

use bandog_core::{Error, Key, Result, SqlDialect, SqlStatement};
use sqlx::TransactionManager;

use crate::{
    database::Supported,
    fault::{self, Purpose},
    locks::Locks,
};

/// Whether a transaction has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Completion {
    /// The transaction has committed.
    Committed,
    /// Another attempt of this run has committed before, so the transaction was rolled back. The body should return `Ok`.
    AlreadyCompleted,
}

/// Checks locks before a commit. After an error, the caller rolls back. Returns the key of the first lock.
pub(crate) async fn check_all<DB: Supported>(locks: Locks<'_>, tx: &mut DB::Connection) -> Result<Key> {
    for statement in locks.statements().await? {
        checked::<DB>(Purpose::Fence, Ok(statement), tx).await?;
    }
    locks.key()
}

/// Completes a run. The caller commits, or rolls back if an earlier attempt has completed it.
pub(crate) async fn complete<DB: Supported>(statement: SqlStatement, tx: &mut DB::Connection) -> Result<Completion> {
    match checked::<DB>(Purpose::Complete, Ok(statement), tx).await {
        Ok(()) => Ok(Completion::Committed),
        Err(error) if fault::says_completed(&error) => Ok(Completion::AlreadyCompleted),
        Err(error) => Err(error),
    }
}

/// Whether transactions of this database can execute statements of a dialect.
pub(crate) fn fits<DB: Supported>(dialect: SqlDialect) -> bool {
    dialect == DB::DIALECT || dialect == SqlDialect::Any
}

/// Executes a statement. After an error, the transaction cannot commit what it has written, unless it is a savepoint.
pub(crate) async fn checked<DB: Supported>(
    purpose: Purpose,
    statement: Result<SqlStatement>,
    tx: &mut DB::Connection,
) -> Result<()> {
    // The end of a savepoint undoes an error, so a failed check would not stop the transaction. A push checks nothing.
    let is_savepoint = purpose != Purpose::Push && DB::TransactionManager::get_transaction_depth(tx) > 1;
    let fitting = statement.and_then(|statement| match statement.dialect {
        // A lock in another kind of database has no statement for this transaction.
        dialect if !fits::<DB>(dialect) => Err(purpose.add_to(statement.other_database(), &statement.key)),
        _ if is_savepoint => Err(fault::savepoint(purpose, &statement.key)),
        _ => Ok(statement),
    });
    let statement = match fitting {
        Ok(statement) => statement,
        Err(error) => {
            // The caller still uses the transaction of a savepoint.
            if !is_savepoint {
                DB::refuse(tx).await;
            }
            return Err(error);
        }
    };
    // The statement of a store in memory is for any database, so it does not compare the level.
    if purpose == Purpose::Complete && statement.dialect == SqlDialect::Any {
        let error = match DB::is_read_committed(tx).await {
            Ok(true) => None,
            Ok(false) => statement.refusal(SqlStatement::ISOLATION),
            Err(error) => Some(fault::of_statement(purpose, &statement, error)),
        };
        if let Some(error) = error {
            DB::refuse(tx).await;
            return Err(error);
        }
    }
    let error = match DB::execute(purpose, &statement, tx).await {
        Ok(true) => return Ok(()),
        Ok(false) => fault::no_row(purpose, &statement.key),
        Err(error) if fault::is_completed(&error) => completed_before::<DB>(&statement, error, tx).await,
        Err(error) => {
            DB::after_refusal(tx).await;
            return Err(fault::of_statement(purpose, &statement, error));
        }
    };
    DB::refuse(tx).await;
    Err(error)
}

/// The error of a run that is completed. Without what this transaction has done, the statement is refused again if another
/// transaction has completed the run. Otherwise this one has, and its effects must not count as done.
async fn completed_before<DB: Supported>(
    statement: &SqlStatement,
    refused: sqlx::Error,
    tx: &mut DB::Connection,
) -> Error {
    const PURPOSE: Purpose = Purpose::Complete;
    let again = match DB::undo(tx).await {
        Ok(()) => DB::execute(PURPOSE, statement, tx).await,
        Err(error) => Err(error),
    };
    match again {
        Err(error) if fault::is_completed(&error) => fault::of_statement(PURPOSE, statement, refused),
        Err(error) => fault::of_statement(PURPOSE, statement, error),
        Ok(_) => fault::completed_twice(&statement.key),
    }
}
