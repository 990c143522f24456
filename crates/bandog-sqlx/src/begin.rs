//! Transactions that begin under a lock or in a run: the server ends them if their process stops.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use bandog_core::{Error, Result};
use bandog_schedule::Run;
use sqlx::{Pool, TransactionManager, pool::PoolConnection};

use crate::{
    checked::{Completion, check_all, complete},
    database::{Begin, Supported},
    fault::{self, Purpose},
    locks::Locks,
};

/// The shortest idle limit. A shorter one could end a transaction of a process that is only slow.
const MIN_IDLE: Duration = Duration::from_secs(1);

/// A transaction that [`FenceIn::begin`](crate::FenceIn::begin) has begun. Its commit checks the lock. It dereferences to
/// the connection, so `&mut *tx` executes statements. Dropping it rolls back.
///
/// It borrows the guard, so the guard cannot be released before the transaction has ended.
#[must_use = "a transaction is rolled back as soon as it is dropped"]
#[derive(Debug)]
pub struct LockTransaction<'g, DB: Supported> {
    open: Open<DB>,
    locks: Locks<'g>,
}

/// A transaction that [`crate::CompleteIn::begin`] has begun. Its commit completes the run. It dereferences to the connection, so
/// `&mut *tx` executes statements. Dropping it rolls back.
#[must_use = "a transaction is rolled back as soon as it is dropped"]
#[derive(Debug)]
pub struct RunTransaction<'r, DB: Supported> {
    open: Open<DB>,
    run: &'r Run,
}

impl<'g, DB: Supported> LockTransaction<'g, DB> {
    pub(crate) async fn begin(locks: Locks<'g>, pool: &Pool<DB>) -> Result<Self> {
        let key = locks.key()?;
        // A lock that is lost, or that no transaction can check, is an error before the work.
        locks.statements().await?;
        let begun = Open::begin(pool, Purpose::Fence, locks.ttl()).await;
        let open = begun.map_err(|error| fault::no_answer(Purpose::Fence, &key, error))?;
        Ok(Self { open, locks })
    }

    /// Checks the lock as [`FenceIn::fence_in`](crate::FenceIn::fence_in) does, and commits.
    ///
    /// # Errors
    /// Those of [`FenceIn::commit`](crate::FenceIn::commit). If the server has ended the transaction because it was idle for
    /// longer than the ttl, the kind is `ErrorKind::Lost` or `ErrorKind::Unavailable`, and nothing was written.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction is rolled back, unless the commit has been sent.
    pub async fn commit(mut self) -> Result<()> {
        let key = check_all::<DB>(self.locks, &mut self.open).await?;
        self.open.commit().await.map_err(|error| fault::of_commit(Purpose::Fence, &key, error))
    }

    /// Rolls back. [`drop`] does the same without an answer.
    ///
    /// # Errors
    /// `ErrorKind::Unavailable`: the database did not answer. Nothing was committed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction is rolled back.
    pub async fn rollback(self) -> Result<()> {
        self.open.rollback().await
    }
}

impl<'r, DB: Supported> RunTransaction<'r, DB> {
    pub(crate) async fn begin(run: &'r Run, pool: &Pool<DB>) -> Result<Self> {
        let open = Open::begin(pool, Purpose::Complete, run.lease()).await.map_err(|error| {
            let message = format!("no transaction could begin for the run of the job {:?}", run.name());
            Error::unavailable(message).during("complete").caused_by(error)
        })?;
        Ok(Self { open, run })
    }

    /// Completes the run as [`crate::CompleteIn::complete_in`] does, and commits.
    ///
    /// # Errors
    /// Those of [`crate::CompleteIn::commit`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction is rolled back, unless the commit has been sent.
    pub async fn commit(mut self) -> Result<Completion> {
        let statement = self.run.completion_sql().await?;
        let key = statement.key.clone();
        if let Completion::AlreadyCompleted = complete::<DB>(statement, &mut self.open).await? {
            self.open.rollback().await?;
            return Ok(Completion::AlreadyCompleted);
        }
        self.open.commit().await.map_err(|error| fault::of_commit(Purpose::Complete, &key, error))?;
        Ok(Completion::Committed)
    }

    /// Rolls back. [`drop`] does the same without an answer.
    ///
    /// # Errors
    /// `ErrorKind::Unavailable`: the database did not answer. Nothing was committed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction is rolled back.
    pub async fn rollback(self) -> Result<()> {
        self.open.rollback().await
    }
}

impl<DB: Supported> Deref for LockTransaction<'_, DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.open
    }
}

impl<DB: Supported> DerefMut for LockTransaction<'_, DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.open
    }
}

impl<DB: Supported> Deref for RunTransaction<'_, DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.open
    }
}

impl<DB: Supported> DerefMut for RunTransaction<'_, DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.open
    }
}

/// A connection of a pool with an open transaction. It goes back to the pool with its own settings.
#[derive(Debug)]
struct Open<DB: Supported> {
    connection: PoolConnection<DB>,
    purpose: Purpose,
    /// Whether the transaction has ended, and the settings of the session are those of before.
    is_over: bool,
}

impl<DB: Supported> Open<DB> {
    async fn begin(pool: &Pool<DB>, purpose: Purpose, lease: Duration) -> Result<Self, sqlx::Error> {
        let mut open = Self { connection: pool.acquire().await?, purpose, is_over: false };
        let begin = Begin { purpose, idle: lease.max(MIN_IDLE) };
        DB::begin(begin, &mut open.connection).await?;
        Ok(open)
    }

    async fn commit(&mut self) -> Result<(), sqlx::Error> {
        DB::TransactionManager::commit(&mut self.connection).await?;
        self.restore().await;
        Ok(())
    }

    async fn rollback(mut self) -> Result<()> {
        let rolled_back = DB::TransactionManager::rollback(&mut self.connection).await;
        rolled_back.map_err(|error| {
            Error::unavailable("the rollback has failed; nothing was committed").during("rollback").caused_by(error)
        })?;
        self.restore().await;
        Ok(())
    }

    /// If this fails, the drop closes the connection.
    async fn restore(&mut self) {
        self.is_over = DB::restore(self.purpose, &mut self.connection).await.is_ok();
    }
}

impl<DB: Supported> Deref for Open<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.connection
    }
}

impl<DB: Supported> DerefMut for Open<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

impl<DB: Supported> Drop for Open<DB> {
    fn drop(&mut self) {
        if !self.is_over {
            DB::TransactionManager::start_rollback(&mut self.connection);
            DB::abandon(&mut self.connection);
        }
    }
}
