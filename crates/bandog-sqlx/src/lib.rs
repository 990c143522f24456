//! Checks a lock of [bandog](https://docs.rs/bandog) inside a transaction of [`sqlx`], or completes the run of a job there.
//!
//! A process can be stopped for longer than its lease, and then write although another process has the lock by now. If
//! the data are in the same database as the locks, the transaction itself can check the lock. The database is PostgreSQL or,
//! with the feature `mysql`, MySQL or MariaDB:
//!
//! ```no_run
//! use bandog_sqlx::FenceIn;
//! # async fn sweep(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let client = bandog::connect("postgres://locks:secret@db/shop").await?;
//! let guard = client.mutex("orders").lock().await?;
//! let mut tx = pool.begin().await?; // after the lock, in the database of the locks
//! sqlx::query("update orders set state = 'returned' where state = 'unpaid'").execute(&mut *tx).await?;
//! guard.commit(tx).await?; // Err(Lost), and nothing is written, if the lock was lost
//! # Ok(()) }
//! ```
//!
//! [`check`] is for the start of a program: it refuses a store that has no such transactions, and a pool for another database.
//!
//! The tests of a program can have a store in memory: with the feature `test-util` of `bandog`, its locks and runs are
//! checked in transactions of any database (`bandog::testing`).
//!
//! Until the transaction ends, no other client gets the lock, even if its lease expires meanwhile. The order of holders
//! is the order of their commits. `docs/postgres.md` and `docs/mysql.md` describe the isolation levels and the rights.

mod check;
mod complete;
mod database;
mod fault;

use bandog_core::{Error, Result, SqlDialect, SqlStatement};
use bandog_sync::{AllGuard, Guard};
#[cfg(feature = "mysql")]
use sqlx::MySql;
use sqlx::{Database, Postgres, Transaction, TransactionManager};

pub use self::{
    check::check,
    complete::{CompleteIn, Completion},
};
use self::{database::Supported, fault::Purpose};

/// Checks the lock of a guard in a transaction of the database `DB`.
///
/// It is implemented for [`Guard`], to which the guard of a writer dereferences, and for [`AllGuard`]: then all locks must be
/// in the database of the transaction.
pub trait FenceIn<DB: Database> {
    /// Checks that this guard holds its lock, and keeps the store from granting the lock to another client until the
    /// transaction ends.
    ///
    /// Call it as the last statement before the commit, and keep the guard until the commit has returned.
    /// [`FenceIn::commit`] does both. The transaction must be in the database that has the locks. It should begin after
    /// the lock was granted: at the levels REPEATABLE READ and SERIALIZABLE, an earlier one fails with `Unavailable`.
    ///
    /// # Errors
    /// After an error, the transaction must be rolled back; dropping it does so. If a program commits it nevertheless,
    /// nothing of what it wrote before this call is committed, unless it is a savepoint: PostgreSQL rolls back although
    /// the commit returns `Ok`, and refuses further statements. On MySQL and MariaDB this call has rolled back, and later
    /// statements are committed. For this, an error is a request to the database too.
    /// - `ErrorKind::Lost`: the lock was lost, or an operator took it away.
    /// - `ErrorKind::Misused`: the lock is that of a reader or the permits of a semaphore, the transaction is in another
    ///   database than the lock, or it is a savepoint. Or no transaction is open, which only MariaDB knows, or the session
    ///   limits the rows of results to none.
    /// - `ErrorKind::Unsupported`: the lock is not in a database of this kind.
    /// - `ErrorKind::Denied`: the user of the transaction lacks a right.
    /// - `ErrorKind::Unavailable`: another transaction was in the way, or the database did not answer. A new transaction
    ///   can succeed.
    /// - `ErrorKind::Closed`: the client of the guard was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction may or may not have been checked. Roll it back.
    fn fence_in(&self, tx: &mut Transaction<'_, DB>) -> impl Future<Output = Result<()>> + Send;

    /// Checks the lock as [`FenceIn::fence_in`] does, and commits.
    ///
    /// # Errors
    /// As [`FenceIn::fence_in`]. If the transaction was perhaps committed, because the answer was lost or the session was
    /// ended during the commit, the kind is `ErrorKind::Unavailable` and `Error::maybe_applied` is true. If the database
    /// refuses the commit, for example because of a deferred constraint, the kind is `ErrorKind::Denied`. After an error
    /// the transaction is rolled back, as after its drop.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction is rolled back, unless the commit has been sent.
    fn commit(&self, tx: Transaction<'_, DB>) -> impl Future<Output = Result<()>> + Send;
}

/// Implements the trait for the guards of a database.
macro_rules! fence_in {
    ($database:ty) => {
        impl FenceIn<$database> for Guard {
            async fn fence_in(&self, tx: &mut Transaction<'_, $database>) -> Result<()> {
                checked(Purpose::Fence, self.fence_sql().await, tx).await
            }

            async fn commit(&self, mut tx: Transaction<'_, $database>) -> Result<()> {
                // After an error, the drop of the transaction rolls it back.
                checked(Purpose::Fence, Ok(self.fence_sql().await?), &mut tx).await?;
                tx.commit().await.map_err(|error| fault::of_commit(Purpose::Fence, self.key(), error))
            }
        }

        impl FenceIn<$database> for AllGuard {
            async fn fence_in(&self, tx: &mut Transaction<'_, $database>) -> Result<()> {
                for guard in self.guards() {
                    guard.fence_in(tx).await?;
                }
                Ok(())
            }

            async fn commit(&self, mut tx: Transaction<'_, $database>) -> Result<()> {
                let [first, others @ ..] = self.guards() else { return Err(Error::misused("there is no lock")) };
                for guard in others {
                    checked(Purpose::Fence, Ok(guard.fence_sql().await?), &mut tx).await?;
                }
                first.commit(tx).await
            }
        }
    };
}

fence_in!(Postgres);
#[cfg(feature = "mysql")]
fence_in!(MySql);

/// Whether transactions of this database can execute statements of a dialect.
fn fits<DB: Supported>(dialect: SqlDialect) -> bool {
    dialect == DB::DIALECT || dialect == SqlDialect::Any
}

/// Executes a statement. After an error, the transaction cannot commit what it has written, unless it is a savepoint.
async fn checked<DB: Supported>(
    purpose: Purpose,
    statement: Result<SqlStatement>,
    tx: &mut Transaction<'_, DB>,
) -> Result<()> {
    // The end of a savepoint undoes an error, so a failed check would not stop the transaction.
    let is_savepoint = DB::TransactionManager::get_transaction_depth(tx) > 1;
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
    let error = match DB::execute(purpose, &statement, tx).await {
        Ok(true) => return Ok(()),
        Ok(false) => fault::no_row(purpose, &statement.key),
        Err(error) if fault::is_completed(&error) => completed_before(&statement, error, tx).await,
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
    tx: &mut Transaction<'_, DB>,
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
