//! The completion of a run in a transaction of the user.

use bandog_core::Result;
use bandog_schedule::Run;
#[cfg(feature = "mysql")]
use sqlx::MySql;
use sqlx::{Pool, Postgres, Transaction};

use crate::{
    begin::RunTransaction,
    checked::{Completion, checked, complete},
    database::Supported,
    fault::{self, Purpose},
};

/// Completes a run of a job in a transaction of the database `DB`, so that the effects of the run happen once.
///
/// ```no_run
/// use bandog_sqlx::{CompleteIn, Completion};
/// use bandog::schedule::{Run, Shared};
///
/// #[bandog::scheduled(cron = "0 0 6 * * ?", on_crash = "retry")]
/// async fn pay_out(run: Run, pool: Shared<sqlx::PgPool>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     let mut tx = run.begin(&pool).await?;
///     sqlx::query("insert into payouts select id, amount from due").execute(&mut *tx).await?;
///     match tx.commit().await? {
///         Completion::Committed => Ok(()),
///         Completion::AlreadyCompleted => Ok(()), // An earlier attempt has committed. This one was rolled back.
///     }
/// }
/// # fn main() {}
/// ```
pub trait CompleteIn<DB: Supported> {
    /// Begins a transaction of this pool whose [`RunTransaction::commit`] completes the run.
    ///
    /// It is at the level READ COMMITTED, which the completion needs. If it is idle between two statements for longer than
    /// [`Run::lease`] (at least 1 s), the server ends it: so the open transaction of a node that was stopped does not block
    /// the next attempt. [`FenceIn::begin`](crate::FenceIn::begin) describes this limit.
    ///
    /// # Errors
    /// `ErrorKind::Unavailable`: the pool has no free connection, or the database did not answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, no transaction stays open.
    fn begin<'r>(&'r self, pool: &Pool<DB>) -> impl Future<Output = Result<RunTransaction<'r, DB>>> + Send;

    /// Completes this run in the transaction: of all attempts of the run, on any node, one transaction can commit.
    ///
    /// Call it once, as the last statement before `tx.commit()`. [`CompleteIn::commit`] is both. If a transaction of another attempt is still open, the call waits
    /// for its end.
    ///
    /// # Errors
    /// After an error, the transaction must be rolled back; dropping it does so. If a program commits it nevertheless,
    /// the same happens as after [`FenceIn::fence_in`](crate::FenceIn::fence_in).
    /// - `ErrorKind::Lost`: another attempt has completed the run, another node has taken it over, or it has ended.
    /// - `ErrorKind::Misused`: this transaction has completed the run before; nothing was committed. No transaction is open
    ///   (only MariaDB knows it), or the session limits the rows of results. The run is in no record of a store, the transaction is in another database than the
    ///   scheduler's, it is a savepoint, or its isolation level is not READ COMMITTED. MySQL and MariaDB have another
    ///   default level; there, the level of the session counts.
    /// - `ErrorKind::Unsupported`: the scheduler's store is no database of this kind.
    /// - `ErrorKind::Denied`: the user of the transaction lacks a right.
    /// - `ErrorKind::Unavailable`: another transaction was in the way, or the database did not answer.
    /// - `ErrorKind::Closed`: the client of the scheduler was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, roll the transaction back.
    fn complete_in(&self, tx: &mut Transaction<'_, DB>) -> impl Future<Output = Result<()>> + Send;

    /// Completes this run as [`CompleteIn::complete_in`] does, and commits.
    ///
    /// # Errors
    /// As [`CompleteIn::complete_in`], except that a run that was completed before is no error; and those of
    /// [`crate::FenceIn::commit`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction is rolled back, unless the commit has been sent.
    fn commit(&self, tx: Transaction<'_, DB>) -> impl Future<Output = Result<Completion>> + Send;
}

/// Implements the trait for a database.
macro_rules! complete_in {
    ($database:ty) => {
        impl CompleteIn<$database> for Run {
            async fn begin<'r>(&'r self, pool: &Pool<$database>) -> Result<RunTransaction<'r, $database>> {
                RunTransaction::begin(self, pool).await
            }

            async fn complete_in(&self, tx: &mut Transaction<'_, $database>) -> Result<()> {
                checked::<$database>(Purpose::Complete, self.completion_sql().await, tx).await
            }

            async fn commit(&self, mut tx: Transaction<'_, $database>) -> Result<Completion> {
                let statement = self.completion_sql().await?;
                let key = statement.key.clone();
                if let Completion::AlreadyCompleted = complete::<$database>(statement, &mut tx).await? {
                    let rolled_back = tx.rollback().await;
                    rolled_back.map_err(|error| fault::of_rollback(Purpose::Complete, &key, error))?;
                    return Ok(Completion::AlreadyCompleted);
                }
                tx.commit().await.map_err(|error| fault::of_commit(Purpose::Complete, &key, error))?;
                Ok(Completion::Committed)
            }
        }
    };
}

complete_in!(Postgres);
#[cfg(feature = "mysql")]
complete_in!(MySql);
