//! The databases whose transactions can check a lock or complete a run.

use bandog_core::{SqlDialect, SqlStatement};
#[cfg(feature = "mysql")]
use sqlx::MySql;
use sqlx::{Database, Executor, Postgres, Transaction};

use crate::fault::Purpose;

/// Rolls back, and begins the next transaction, so that a later statement is not committed at once.
const UNDO: &str = "rollback and chain";

/// A database whose transactions can check a lock or complete a run.
pub trait Supported: Database {
    const DIALECT: SqlDialect;

    /// Executes a statement. Returns whether it has checked the lock or completed the run. Otherwise its result was empty:
    /// a setting of the session limits the rows.
    ///
    /// # Cancel safety
    /// If the future is dropped, the statement may have been executed.
    fn execute(
        purpose: Purpose,
        statement: &SqlStatement,
        tx: &mut Transaction<'_, Self>,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Undoes what the transaction has done. It stays open.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction must be rolled back.
    fn undo(tx: &mut Transaction<'_, Self>) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Prevents a transaction whose check was not sent from committing its writes.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction must be rolled back.
    fn refuse(tx: &mut Transaction<'_, Self>) -> impl Future<Output = ()> + Send;

    /// The same for a transaction whose check has failed.
    fn after_refusal(tx: &mut Transaction<'_, Self>) -> impl Future<Output = ()> + Send;
}

impl Supported for Postgres {
    const DIALECT: SqlDialect = SqlDialect::Postgres;

    async fn execute(
        _: Purpose,
        statement: &SqlStatement,
        tx: &mut Transaction<'_, Self>,
    ) -> Result<bool, sqlx::Error> {
        let query =
            statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value.as_str()));
        Ok(query.fetch_optional(&mut **tx).await?.is_some())
    }

    async fn undo(tx: &mut Transaction<'_, Self>) -> Result<(), sqlx::Error> {
        (&mut **tx).execute(UNDO).await.map(drop)
    }

    /// After a statement that fails, the server refuses each further statement, and rolls back instead of the commit. If
    /// this statement gets no answer, the session has ended, and the server rolls back.
    async fn refuse(tx: &mut Transaction<'_, Self>) {
        let _ = (&mut **tx).execute("select 'bandog: the check of this transaction has failed'::bigint").await;
    }

    /// The check was such a statement.
    async fn after_refusal(_: &mut Transaction<'_, Self>) {}
}

#[cfg(feature = "mysql")]
impl Supported for MySql {
    const DIALECT: SqlDialect = SqlDialect::MySql;

    async fn execute(
        purpose: Purpose,
        statement: &SqlStatement,
        tx: &mut Transaction<'_, Self>,
    ) -> Result<bool, sqlx::Error> {
        let query =
            statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value.as_str()));
        match purpose {
            // The completion of a run in memory is a query.
            Purpose::Complete if statement.dialect == SqlDialect::Any => {
                Ok(query.fetch_optional(&mut **tx).await?.is_some())
            }
            Purpose::Fence => Ok(query.fetch_optional(&mut **tx).await?.is_some()),
            Purpose::Complete => Ok(query.execute(&mut **tx).await?.rows_affected() > 0),
        }
    }

    async fn undo(tx: &mut Transaction<'_, Self>) -> Result<(), sqlx::Error> {
        (&mut **tx).execute(UNDO).await.map(drop)
    }

    /// A statement that was refused does not end the transaction. If this fails, the session has ended, and the server rolls
    /// back.
    async fn refuse(tx: &mut Transaction<'_, Self>) {
        let _ = Self::undo(tx).await;
    }

    async fn after_refusal(tx: &mut Transaction<'_, Self>) {
        Self::refuse(tx).await;
    }
}
