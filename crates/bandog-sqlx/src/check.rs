//! The check of a store and a pool at the start of a program.

use bandog_core::{Error, ErrorKind, Result, SqlDialect};
use bandog_sync::Client;
use sqlx::{Acquire, Pool};

use crate::{
    checked::fits,
    database::Supported,
    fault::{self, Purpose},
};

/// Checks that transactions of this pool can check the locks of this client, so that a program fails at its start and not
/// in the middle of its first work. It takes no lock and writes nothing.
///
/// ```no_run
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let client = bandog::connect("postgres://locks:secret@db/shop").await?;
/// let pool = sqlx::PgPool::connect("postgres://shop:secret@db/shop").await?;
/// bandog_sqlx::check(&client, &pool).await?; // before the first job or singleton task
/// # Ok(()) }
/// ```
///
/// # Errors
/// - `ErrorKind::Unsupported`: the store of the client is not a database of this kind, such as Redis, or its locks are in a
///   table of other programs, which transactions cannot check.
/// - `ErrorKind::Misused`: the pool is for another database than the locks.
/// - `ErrorKind::Denied`: the user of the pool lacks a right.
/// - `ErrorKind::Unavailable`: the database did not answer.
/// - `ErrorKind::Closed`: the client was closed.
///
/// # Cancel safety
/// Dropping the future changes nothing.
pub async fn check<DB: Supported>(client: &Client, pool: &Pool<DB>) -> Result<()>
where
    for<'c> &'c mut DB::Connection: Acquire<'c, Database = DB>,
{
    let profile = client.profile();
    if !profile.checks_locks_in.is_some_and(fits::<DB>) {
        let (store, dialect) = (&profile.store, DB::DIALECT);
        let message = format!("transactions of {dialect} cannot check the locks of {store}");
        return Err(Error::new(ErrorKind::Unsupported, message).during("fence"));
    }
    if profile.checks_locks_in == Some(SqlDialect::Any) {
        return Ok(()); // A store in memory, in a test.
    }
    let statement = client.check_sql().await?;
    let no_answer = |error| fault::no_answer(Purpose::Fence, &statement.key, error);
    let mut tx = pool.begin().await.map_err(no_answer)?;
    let answer = DB::execute(Purpose::Fence, &statement, &mut tx).await;
    tx.rollback().await.map_err(no_answer)?;
    match answer {
        // The claim of the statement does not exist. So the answer of the right database is that it does not hold the lock.
        Err(error) => match fault::of_statement(Purpose::Fence, &statement, error) {
            error if error.kind() == ErrorKind::Lost => Ok(()),
            error => Err(error),
        },
        Ok(true) => Ok(()),
        Ok(false) => Err(fault::no_row(Purpose::Fence, &statement.key)),
    }
}
