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
//! let mut tx = guard.begin(&pool).await?; // in the database of the locks
//! sqlx::query("update orders set state = 'returned' where state = 'unpaid'").execute(&mut *tx).await?;
//! tx.commit().await?; // Err(Lost), and nothing is written, if the lock was lost
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

mod begin;
mod check;
mod checked;
mod complete;
mod database;
mod fault;
mod locks;
mod work;

use bandog_core::Result;
use bandog_sync::{AllGuard, Guard};
#[cfg(feature = "mysql")]
use sqlx::MySql;
use sqlx::{Pool, Postgres, Transaction};

pub use self::{
    begin::{LockTransaction, RunTransaction},
    check::check,
    checked::Completion,
    complete::CompleteIn,
    work::{DoneIn, OpenTransaction, PushIn},
};
use self::{
    checked::{check_all, checked},
    database::Supported,
    fault::Purpose,
    locks::Locks,
};

/// Checks the lock of a guard in a transaction of the database `DB`.
///
/// It is implemented for [`Guard`], to which the guard of a writer dereferences, and for [`AllGuard`]: then all locks must be
/// in the database of the transaction. It is not implemented for the guards of readers and permits, nor of lists with one
/// of them, because other holders can have these locks at the same time.
pub trait FenceIn<DB: Supported> {
    /// Begins a transaction of this pool whose [`LockTransaction::commit`] checks the lock.
    ///
    /// If the transaction is idle between two statements for longer than the ttl of the lock ([`Guard::ttl`], at least 1 s),
    /// the server ends its session and rolls back. So the rows that a stopped process has locked are free soon after its
    /// lock. A renewal of the lock does not change the limit, and statements may last longer. A shorter limit of the session
    /// stays.
    ///
    /// On PostgreSQL, the limit is `idle_in_transaction_session_timeout` of this transaction. MySQL has no limit for
    /// transactions, so there and on MariaDB it is `wait_timeout` of the session. The end of the transaction restores it; if
    /// the transaction is dropped, its connection is closed.
    ///
    /// # Errors
    /// - `ErrorKind::Lost`: the lock was lost.
    /// - `ErrorKind::Unsupported`: the store is no database in which users have transactions.
    /// - `ErrorKind::Unavailable`: the pool has no free connection, or the database did not answer.
    /// - `ErrorKind::Closed`: the client of the guard was closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, no transaction stays open.
    fn begin<'g>(&'g self, pool: &Pool<DB>) -> impl Future<Output = Result<LockTransaction<'g, DB>>> + Send;

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
    /// - `ErrorKind::Misused`: the transaction is in another database than the lock, or it is a savepoint. Or no transaction
    ///   is open, which only MariaDB knows, or the session limits the rows of results to none.
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
    /// As [`FenceIn::fence_in`]. If the transaction may have been committed, because the answer was lost or the session
    /// was ended during the commit, the kind is `ErrorKind::Unavailable` and `Error::maybe_applied` is true. If the
    /// database refuses the commit, for example because of a deferred constraint, the kind is `ErrorKind::Denied`.
    /// After an error the transaction is rolled back, as after its drop.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction is rolled back, unless the commit has been sent.
    fn commit(&self, tx: Transaction<'_, DB>) -> impl Future<Output = Result<()>> + Send;
}

/// Implements the trait for the guards of a database.
macro_rules! fence_in {
    ($database:ty, $guard:ty) => {
        impl FenceIn<$database> for $guard {
            async fn begin<'g>(&'g self, pool: &Pool<$database>) -> Result<LockTransaction<'g, $database>> {
                LockTransaction::begin(self.into(), pool).await
            }

            async fn fence_in(&self, tx: &mut Transaction<'_, $database>) -> Result<()> {
                match Locks::from(self).statements().await {
                    Ok(statements) => {
                        for statement in statements {
                            checked::<$database>(Purpose::Fence, Ok(statement), tx).await?;
                        }
                        Ok(())
                    }
                    Err(error) => checked::<$database>(Purpose::Fence, Err(error), tx).await,
                }
            }

            async fn commit(&self, mut tx: Transaction<'_, $database>) -> Result<()> {
                // After an error, the drop of the transaction rolls it back.
                let key = check_all::<$database>(self.into(), &mut tx).await?;
                tx.commit().await.map_err(|error| fault::of_commit(Purpose::Fence, &key, error))
            }
        }
    };
}

fence_in!(Postgres, Guard);
fence_in!(Postgres, AllGuard);
#[cfg(feature = "mysql")]
fence_in!(MySql, Guard);
#[cfg(feature = "mysql")]
fence_in!(MySql, AllGuard);
