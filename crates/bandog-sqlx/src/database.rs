//! The databases whose transactions can check a lock or complete a run.

use std::time::Duration;

use bandog_core::{SqlDialect, SqlStatement};
#[cfg(feature = "mysql")]
use sqlx::MySql;
use sqlx::{Database, Executor, Postgres, TransactionManager, pool::PoolConnection};

use crate::fault::Purpose;

/// Rolls back, and begins the next transaction, so that a later statement is not committed at once.
#[cfg(feature = "mysql")]
const UNDO: &str = "rollback and chain";

/// Maximum value of a limit of PostgreSQL, in ms.
const MAX_MS: u128 = i32::MAX as u128;

/// How a transaction begins.
#[derive(Debug, Clone, Copy)]
pub struct Begin {
    /// The transaction that completes a run is at the level READ COMMITTED.
    pub(crate) purpose: Purpose,
    /// Maximum time between two statements.
    pub(crate) idle: Duration,
}

/// A database whose transactions can check a lock or complete a run.
pub trait Supported: Database {
    const DIALECT: SqlDialect;

    /// Begins a transaction that the server ends if it is idle for too long. A shorter limit of the session stays.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction must be rolled back, and the connection abandoned.
    fn begin(begin: Begin, tx: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Restores the settings that the session had before, after the end of the transaction.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection must be abandoned.
    fn restore(
        purpose: Purpose,
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Keeps a connection out of its pool if its settings may differ from those before.
    fn abandon(connection: &mut PoolConnection<Self>);

    /// Executes a statement. Returns whether it has checked the lock or completed the run. Otherwise its result was empty:
    /// a setting of the session limits the rows.
    ///
    /// # Cancel safety
    /// If the future is dropped, the statement may have been executed.
    fn execute(
        purpose: Purpose,
        statement: &SqlStatement,
        tx: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Whether a run can be completed in this transaction: its level is READ COMMITTED. On MySQL and MariaDB, that of the
    /// session counts.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction must be rolled back.
    fn is_read_committed(tx: &mut Self::Connection) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Undoes what the transaction has done for a run. It stays open, at the level READ COMMITTED.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction must be rolled back.
    fn undo(tx: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Prevents a transaction whose check was not sent from committing its writes.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction must be rolled back.
    fn refuse(tx: &mut Self::Connection) -> impl Future<Output = ()> + Send;

    /// The same for a transaction whose check has failed.
    fn after_refusal(tx: &mut Self::Connection) -> impl Future<Output = ()> + Send;
}

impl Supported for Postgres {
    const DIALECT: SqlDialect = SqlDialect::Postgres;

    async fn begin(Begin { purpose, idle }: Begin, tx: &mut Self::Connection) -> Result<(), sqlx::Error> {
        <Self as Database>::TransactionManager::begin(tx, None).await?;
        let level = match purpose {
            Purpose::Fence | Purpose::Push | Purpose::Settle => "",
            Purpose::Complete => "set transaction isolation level read committed; ",
        };
        let idle = idle.as_millis().min(MAX_MS);
        tx.execute(&*format!("{level}{}", include_str!("sql/postgres/idle.sql").replace("{idle}", &idle.to_string())))
            .await
            .map(drop)
    }

    /// The settings are those of the transaction only.
    async fn restore(_: Purpose, _: &mut Self::Connection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    fn abandon(_: &mut PoolConnection<Self>) {}

    async fn execute(
        purpose: Purpose,
        statement: &SqlStatement,
        tx: &mut Self::Connection,
    ) -> Result<bool, sqlx::Error> {
        let query =
            statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value.as_str()));
        Ok(query.fetch_optional(tx).await?.is_some() || matches!(purpose, Purpose::Push | Purpose::Settle))
    }

    async fn is_read_committed(tx: &mut Self::Connection) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar(include_str!("sql/postgres/is_read_committed.sql")).fetch_one(tx).await
    }

    async fn undo(tx: &mut Self::Connection) -> Result<(), sqlx::Error> {
        tx.execute(include_str!("sql/postgres/undo.sql")).await.map(drop)
    }

    /// After a statement that fails, the server refuses each further statement, and rolls back instead of the commit. If
    /// this statement gets no answer, the session has ended, and the server rolls back.
    async fn refuse(tx: &mut Self::Connection) {
        let _ = tx.execute("select 'bandog: the check of this transaction has failed'::bigint").await;
    }

    /// The check was such a statement.
    async fn after_refusal(_: &mut Self::Connection) {}
}

#[cfg(feature = "mysql")]
impl Supported for MySql {
    const DIALECT: SqlDialect = SqlDialect::MySql;

    /// The settings are those of the session. The level of one transaction is not visible to the completion of a run.
    async fn begin(Begin { purpose, idle }: Begin, tx: &mut Self::Connection) -> Result<(), sqlx::Error> {
        let seconds = idle.as_secs() + u64::from(idle.subsec_nanos() > 0);
        let set = include_str!("sql/mysql/idle.sql").replace("{idle}", &seconds.to_string());
        tx.execute(&*set).await?;
        if purpose == Purpose::Complete {
            tx.execute(include_str!("sql/mysql/level.sql")).await?;
        }
        <Self as Database>::TransactionManager::begin(tx, None).await
    }

    async fn restore(purpose: Purpose, connection: &mut Self::Connection) -> Result<(), sqlx::Error> {
        if purpose == Purpose::Complete {
            connection.execute(include_str!("sql/mysql/restore_level.sql")).await?;
        }
        connection.execute(include_str!("sql/mysql/restore_idle.sql")).await.map(drop)
    }

    fn abandon(connection: &mut PoolConnection<Self>) {
        connection.close_on_drop();
    }

    async fn execute(
        purpose: Purpose,
        statement: &SqlStatement,
        tx: &mut Self::Connection,
    ) -> Result<bool, sqlx::Error> {
        let query =
            statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value.as_str()));
        match purpose {
            // The completion of a run in memory is a query.
            Purpose::Complete if statement.dialect == SqlDialect::Any => Ok(query.fetch_optional(tx).await?.is_some()),
            Purpose::Fence => Ok(query.fetch_optional(tx).await?.is_some()),
            Purpose::Complete => Ok(query.execute(tx).await?.rows_affected() > 0),
            Purpose::Push | Purpose::Settle => query.execute(tx).await.map(|_| true),
        }
    }

    async fn is_read_committed(tx: &mut Self::Connection) -> Result<bool, sqlx::Error> {
        sqlx::query_scalar(include_str!("sql/mysql/is_read_committed.sql")).fetch_one(tx).await
    }

    async fn undo(tx: &mut Self::Connection) -> Result<(), sqlx::Error> {
        tx.execute(UNDO).await.map(drop)
    }

    /// A statement that was refused does not end the transaction. If this fails, the session has ended, and the server rolls
    /// back.
    async fn refuse(tx: &mut Self::Connection) {
        let _ = Self::undo(tx).await;
    }

    async fn after_refusal(tx: &mut Self::Connection) {
        Self::refuse(tx).await;
    }
}
