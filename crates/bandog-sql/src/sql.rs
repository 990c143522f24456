//! The backend: its connections, and the calls that use them.

use std::{sync::Arc, time::Instant};

use bandog_core::{Answer, Claim, Renewal, Result, Step, Swap, Swaps};
use tokio::sync::oneshot;

use crate::{
    context::Context,
    held::Held,
    job::{Pending, Query, Reply, Work},
    lane::Lane,
    options::{Dialect, Layout, SqlOptions},
    statements::Statements,
};

/// Locks in a PostgreSQL database, or, with the feature `mysql`, in a database of MySQL or MariaDB.
///
/// # Promises
/// - The time of the database decides when a lease expires. If its clock is set forward, leases expire too early.
/// - A grant is answered when its transaction is committed. So it is as durable as the settings of the server say: with
///   `fsync` and `synchronous_commit`, or on MySQL `innodb_flush_log_at_trx_commit` = 1, it survives a crash of the server.
///   On PostgreSQL a release does not wait for the disk. After a crash, a lock that was released shortly before (three times
///   `wal_writer_delay`, 0.6 s by default) can stay held until its ttl ends.
/// - The fences of a name rise, also after a crash. After a failover to a replica that has not got the last commits, they
///   rise too, if the clock of the new server is not behind.
/// - After a failover to such a replica, a lock can be granted although a client holds it.
///
/// # Connections
/// A backend has at most four connections: for claims, releases and queries about locks, for renewals, for records and
/// the registry, and for notifications. A fifth one is for work queues, if they are used, a sixth for requests about
/// them that may wait for a transaction of another program: pushes with `once`, and changes by operators, and a seventh for the
/// extension of the leases of their elements, so that no large push or take delays it. Each is opened when it is first needed. Clones share them. While the server has no free connection, one is enough for all requests,
/// and waiters poll. Each must lead to one session of the server. A pooler, such as PgBouncer, is refused, unless the URL
/// says `?pooler=session`.
#[derive(Debug, Clone)]
pub struct Sql(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    context: Arc<Context>,
    steps: Lane,
    renewals: Lane,
    others: Lane,
    queues: Lane,
    /// For requests about work queues that may wait for a transaction of another program.
    waits: Lane,
    /// For the extension of the leases of elements, which waits for no other request.
    extensions: Lane,
    /// The sessions that hold locks of the database. None in layouts without them.
    held: Option<Arc<Held>>,
}

/// The lanes end by themselves when their queues are dropped.
impl Drop for Shared {
    fn drop(&mut self) {
        self.context.subscriptions.close();
        if let Some(held) = &self.held {
            held.close();
        }
    }
}

impl Sql {
    /// A backend with these options. It connects when it is first called.
    ///
    /// # Errors
    /// None at present.
    pub fn new(options: SqlOptions) -> Result<Self> {
        let statements = match (&options.layout, options.dialect) {
            (Layout::Leases, Dialect::Postgres) => Statements::postgres(),
            (Layout::ShedLock(_), Dialect::Postgres) => Statements::postgres_shedlock(),
            #[cfg(feature = "mysql")]
            (Layout::Leases, Dialect::MySql) => Statements::mysql(),
            #[cfg(feature = "mysql")]
            (Layout::ShedLock(_), Dialect::MySql) => Statements::mysql_shedlock(),
            (Layout::RowLock(_), Dialect::Postgres) => Statements::postgres_rowlock(),
            (Layout::Advisory, Dialect::Postgres) => Statements::postgres_advisory(),
            #[cfg(feature = "mysql")]
            (Layout::RowLock(_), Dialect::MySql) => Statements::mysql_rowlock(),
            #[cfg(feature = "mysql")]
            (Layout::Advisory, Dialect::MySql) => Statements::mysql_advisory(),
        };
        let statements = statements.named(&options.tables);
        let held = match options.layout {
            Layout::Leases | Layout::ShedLock(_) => None,
            Layout::RowLock(_) | Layout::Advisory => Some(Held::new(options.connections)),
        };
        Ok(Self(Arc::new(Shared {
            held,
            context: Arc::new(Context::new(options, statements)),
            steps: Lane::default(),
            renewals: Lane::reconnecting(),
            others: Lane::default(),
            queues: Lane::default(),
            waits: Lane::default(),
            extensions: Lane::reconnecting(),
        })))
    }

    /// Applies steps to leases.
    pub(crate) async fn apply_leases(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let applied = self.call(&self.0.steps, |reply| Work::Apply(steps.to_vec(), reply)).await;
        applied.unwrap_or_else(|error| vec![Err(error); steps.len()])
    }

    /// Renews leases.
    pub(crate) async fn renew_leases(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let renewed = self.call(&self.0.renewals, |reply| Work::Renew(claims.to_vec(), reply)).await;
        renewed.unwrap_or_else(|error| vec![Err(error); claims.len()])
    }

    /// Swaps records.
    pub(crate) async fn swap_records(&self, swaps: &[Swap]) -> Result<Swaps> {
        self.call(&self.0.others, |reply| Work::Swap(swaps.to_vec(), reply)).await?
    }

    /// Does this work in the lane, or in another one while the server has no free connection for it. So one connection is
    /// enough, whichever lane has got it.
    async fn call<T: Reply + Send>(
        &self,
        lane: &Lane,
        work: impl Fn(oneshot::Sender<T>) -> Work + Send + Sync,
    ) -> Result<T> {
        let (context, deadline) = (self.context(), Instant::now() + self.context().options.timeout);
        // Each lane once: a lane that the server has refused tries again soon, so one seems to be open most of the time.
        let shared = &self.0;
        let all = [&shared.steps, &shared.renewals, &shared.others, &shared.queues, &shared.waits, &shared.extensions];
        let mut untried: Vec<&Lane> = [lane].into_iter().chain(all).collect();
        let mut next = untried.iter().copied().find(|lane| !lane.is_refused()).unwrap_or(lane);
        loop {
            let answer = next.call(context, deadline, &work).await?;
            untried.retain(|lane| !std::ptr::eq(*lane, next));
            // Another lane may have got the connection meanwhile.
            match untried.iter().copied().find(|lane| !lane.is_refused()) {
                Some(other) if answer.is_refused() => next = other,
                Some(_) | None => return Ok(answer),
            }
        }
    }

    async fn query_in<Q: Query>(&self, lane: &Lane, query: Q) -> Result<Q::Output> {
        let query = Arc::new(query);
        let work = |reply| Work::Other(Box::new(Pending { query: query.clone(), answer: None, reply }));
        self.call(lane, work).await?
    }

    /// The sessions that hold locks of the database. None in layouts without them.
    pub(crate) fn held(&self) -> Option<&Arc<Held>> {
        self.0.held.as_ref()
    }

    /// Opens the connection for renewals, if it is not open.
    pub(crate) fn open_renewals(&self) {
        self.0.renewals.open(self.context());
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.0.context
    }

    /// Executes a query about locks after all steps that were sent before it.
    pub(crate) async fn query_in_order<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.query_in(&self.0.steps, query).await
    }

    /// Executes a query about work queues. It has a connection of its own.
    pub(crate) async fn query_queues<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.query_in(&self.0.queues, query).await
    }

    /// Executes a query about work queues that may wait for a transaction of another program, and delays no others meanwhile.
    pub(crate) async fn wait_in_queues<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.query_in(&self.0.waits, query).await
    }

    /// Executes an extension of the leases of elements. It waits for no other request.
    pub(crate) async fn extend_in_queues<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.query_in(&self.0.extensions, query).await
    }

    /// Executes a query that is neither a step nor a renewal. It may overtake steps.
    pub(crate) async fn query<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.query_in(&self.0.others, query).await
    }
}
