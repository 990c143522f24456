//! Work queues in a transaction of the user.

use std::ops::DerefMut;

use bandog_core::Result;
use bandog_work::{Delivery, ElementId, IntoPush, Push, PushAll, PushBatch, Submit, SubmitAll, SubmitBatch};
#[cfg(feature = "mysql")]
use sqlx::MySql;
use sqlx::{Postgres, Transaction};

use crate::{LockTransaction, RunTransaction, checked::checked, database::Supported, fault::Purpose};

/// An open transaction of the database `DB`: one of sqlx, or one that [`FenceIn::begin`](crate::FenceIn::begin) or
/// [`CompleteIn::begin`](crate::CompleteIn::begin) has begun. A type of a program that dereferences to the connection of such a
/// transaction may implement it.
pub trait OpenTransaction<DB: Supported>: DerefMut<Target = DB::Connection> + Send {}

impl<DB: Supported> OpenTransaction<DB> for Transaction<'_, DB> {}
impl<DB: Supported> OpenTransaction<DB> for LockTransaction<'_, DB> {}
impl<DB: Supported> OpenTransaction<DB> for RunTransaction<'_, DB> {}

/// Pushes elements in a transaction of the database `DB`: they are there if the transaction commits.
///
/// ```no_run
/// use bandog::work::{ClientWork, WorkQueue};
/// use bandog_sqlx::PushIn;
///
/// # async fn order(pool: &sqlx::PgPool, client: &bandog::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mails: WorkQueue<String> = client.work_queue("mails")?;
/// let mut tx = pool.begin().await?;
/// sqlx::query("insert into orders (id) values (7)").execute(&mut *tx).await?;
/// mails.push("order 7").push_in(&mut tx).await?;
/// tx.commit().await?; // both, or none
/// # Ok(()) }
/// ```
pub trait PushIn<DB: Supported>: Sized {
    /// The id of the element, or the ids of the elements in their order.
    type Ids;

    /// Pushes in the transaction. An element with an id of `once` that was pushed before adds nothing: no element has the id that
    /// is returned for it.
    ///
    /// # Errors
    /// After an error, the transaction must be rolled back; dropping it does so.
    /// - `ErrorKind::Misused`: an option is not allowed, or the transaction is in another database than the queue.
    /// - `ErrorKind::Unsupported`: the store of the queue is no database of this kind.
    /// - `ErrorKind::Denied`: the user of the transaction lacks a right.
    /// - `ErrorKind::Unavailable`: another transaction was in the way, or the database did not answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, roll the transaction back.
    fn push_in(self, tx: &mut impl OpenTransaction<DB>) -> impl Future<Output = Result<Self::Ids>> + Send;
}

/// Settles an element of a work queue in a transaction of the database `DB`: the effects of the transaction and the end of
/// the element are one.
///
/// ```no_run
/// use bandog::work::{Delivery, WorkQueue};
/// use bandog_sqlx::DoneIn;
///
/// # fn start(queue: &WorkQueue<i64>, pool: sqlx::PgPool) -> bandog::work::Running {
/// queue.workers(8).run(move |order: Delivery<i64>| {
///     let pool = pool.clone();
///     async move {
///         let mut tx = pool.begin().await?;
///         sqlx::query("update stock set pieces = pieces - 1 where sku = $1").bind(*order).execute(&mut *tx).await?;
///         order.done_in(&mut tx).await?;
///         tx.commit().await?;
///         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
///     }
/// })
/// # }
/// ```
pub trait DoneIn<DB: Supported> {
    /// Settles the element as done if the transaction commits. If the handler ends without a commit, the element is delivered
    /// again.
    ///
    /// # Errors
    /// After an error, the transaction must be rolled back; dropping it does so.
    /// - `ErrorKind::Lost`: another worker may have the element.
    /// - `ErrorKind::Misused`: the transaction is a savepoint, or in another database than the queue.
    /// - The others are those of [`PushIn::push_in`].
    ///
    /// # Cancel safety
    /// If the future is dropped, roll the transaction back.
    fn done_in(&self, tx: &mut impl OpenTransaction<DB>) -> impl Future<Output = Result<()>> + Send;
}

async fn push<DB: Supported>(
    elements: Result<(std::sync::Arc<dyn bandog_core::queues::Queues>, bandog_core::queues::Push)>,
    tx: &mut DB::Connection,
) -> Result<Vec<ElementId>> {
    let (queues, push) = elements?;
    if push.elements.is_empty() {
        return Ok(Vec::new());
    }
    for statement in queues.push_sql(&push).await? {
        checked::<DB>(Purpose::Push, Ok(statement), tx).await?;
    }
    let mut ids: Vec<_> = push.elements.iter().map(|element| element.id).collect();
    ids.rotate_left(usize::from(bandog_work::has_last(&push.elements)));
    Ok(ids)
}

macro_rules! pushes_many {
    ($database:ty: $([$($parameters:tt)*] $type:ty),+) => {
        $(impl<$($parameters)*> PushIn<$database> for $type {
            type Ids = Vec<ElementId>;

            async fn push_in(self, tx: &mut impl OpenTransaction<$database>) -> Result<Vec<ElementId>> {
                push::<$database>(self.into_push(), tx).await
            }
        })+
    };
}

macro_rules! pushes_one {
    ($database:ty: $([$($parameters:tt)*] $type:ty),+) => {
        $(impl<$($parameters)*> PushIn<$database> for $type {
            type Ids = ElementId;

            async fn push_in(self, tx: &mut impl OpenTransaction<$database>) -> Result<ElementId> {
                Ok(push::<$database>(self.into_push(), tx).await?[0])
            }
        })+
    };
}

/// Implements the traits for a database.
macro_rules! in_transactions {
    ($database:ty) => {
        pushes_many!($database: [] PushAll, [] PushBatch, [R: Send] SubmitAll<R>, [R: Send, L: Send] SubmitBatch<R, L>);
        pushes_one!($database: [] Push, [R: Send] Submit<R>);

        impl<T: Send + Sync> DoneIn<$database> for Delivery<T> {
            async fn done_in(&self, tx: &mut impl OpenTransaction<$database>) -> Result<()> {
                match self.done_sql().await {
                    Ok(statements) => {
                        for statement in statements {
                            checked::<$database>(Purpose::Settle, Ok(statement), tx).await?;
                        }
                        self.done_in_transaction();
                        Ok(())
                    }
                    // The transaction must not commit the effects of the work.
                    Err(error) => checked::<$database>(Purpose::Settle, Err(error), tx).await,
                }
            }
        }
    };
}

in_transactions!(Postgres);
#[cfg(feature = "mysql")]
in_transactions!(MySql);
