//! The backend, and the implementation of [`Leases`].

use std::{
    num::NonZeroU32,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, ClientId, Error, Fence, Holding, Key, Kinds, Leases, LockState, Member, Notifier, Profile, Renewal,
    Result, SqlStatement, Step, Subscription, Swap, Swaps,
};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

use crate::{
    fault::Fault,
    fence,
    held::Held,
    job::{Pending, Query, Reply, Work},
    lane::Lane,
    listen::{Channel, Listener},
    mutexes::KnownNames,
    options::{Address, Dialect, Layout, SqlOptions},
    registry::{Announce, Withdraw},
    session::Link,
    statements::Statements,
    states,
};

/// The time for which a server can lose what it has answered: in a failover to a replica without the last commits, or in a
/// crash without `synchronous_commit`.
const MAY_UNDO: Duration = Duration::from_secs(10);
/// Maximum time for which the notifications leave a free connection to the lanes.
const YIELD_TIME: Duration = Duration::from_secs(1);

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
/// A backend has at most four connections: for claims, releases and queries about locks, for renewals, for records and the
/// registry, and for notifications. Each is opened when it is first needed. Clones share them. While the server has no free
/// connection, one is enough for all requests, and waiters poll. Each must lead to one session of the server. A pooler, such
/// as PgBouncer, is refused, unless the URL says `?pooler=session`.
#[derive(Debug, Clone)]
pub struct Sql(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    context: Arc<Context>,
    steps: Lane,
    renewals: Lane,
    others: Lane,
    /// The sessions that hold locks of the database. None in layouts without them.
    held: Option<Arc<Held>>,
}

/// The lanes end by themselves when their queues are dropped.
impl Drop for Shared {
    fn drop(&mut self) {
        self.context.listener.close();
        if let Some(held) = &self.held {
            held.close();
        }
    }
}

/// What the tasks of a backend share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: SqlOptions,
    pub(crate) statements: Arc<Statements>,
    pub(crate) listener: Listener,
    pub(crate) known_names: KnownNames,
    /// The id of the tables, and the host of the last session. None before the first connection.
    id: Mutex<Option<(String, Address)>>,
    /// Whether [`Context::is_first_use`] was called.
    was_used: AtomicBool,
    /// The number of lanes that have a session.
    lanes: watch::Sender<usize>,
    epoch: watch::Sender<u64>,
}

/// Counts a lane while it has a session.
#[derive(Debug)]
pub(crate) struct CountedLane(Arc<Context>);

impl CountedLane {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        context.lanes.send_modify(|lanes| *lanes += 1);
        Self(context.clone())
    }
}

impl Drop for CountedLane {
    fn drop(&mut self) {
        self.0.lanes.send_modify(|lanes| *lanes -= 1);
    }
}

impl Context {
    pub(crate) fn new(options: SqlOptions, statements: Statements) -> Self {
        Self {
            options,
            statements: Arc::new(statements),
            listener: Listener::default(),
            known_names: KnownNames::default(),
            id: Mutex::default(),
            was_used: AtomicBool::new(false),
            lanes: watch::Sender::new(0),
            epoch: watch::Sender::new(0),
        }
    }

    /// The id of the tables, which distinguishes them from those of other databases. None before the first connection.
    pub(crate) fn id(&self) -> Option<String> {
        self.used().as_ref().map(|(id, _)| id.clone())
    }

    /// Records the id of the tables at this host.
    ///
    /// # Errors
    /// As [`Context::check_id`].
    pub(crate) fn set_id(&self, id: String, host: &Address) -> Result<()> {
        let mut used = self.used();
        self.compare(used.as_ref(), Some(&id), host)?;
        *used = Some((id, host.clone()));
        Ok(())
    }

    /// Whether this client can use the tables with this id at this host. None if the host has no tables.
    ///
    /// # Errors
    /// `Unavailable`: the client has used another host of its URL, whose tables have another id. So the hosts are not
    /// servers of one cluster, and other clients can hold the same locks there.
    pub(crate) fn check_id(&self, id: Option<&str>, host: &Address) -> Result<()> {
        self.compare(self.used().as_ref(), id, host)
    }

    fn compare(&self, used: Option<&(String, Address)>, id: Option<&str>, host: &Address) -> Result<()> {
        match used {
            Some((first, other)) if other != host && id != Some(first) => {
                let at = |address: &Address| self.options.at(address.clone()).store();
                Err(Error::unavailable(format!(
                    "{} does not have the tables that this client has used at {}: the hosts of a URL must be servers of \
                     one cluster, else two clients hold a lock at once; name one of the two (a client that starts anew \
                     accepts either)",
                    at(host),
                    at(other)
                )))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn used(&self) -> MutexGuard<'_, Option<(String, Address)>> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no session has made this call before.
    pub(crate) fn is_first_use(&self) -> bool {
        !self.was_used.swap(true, Ordering::Relaxed)
    }

    /// The server has no free connection for a lane. If no lane has one, the notifications give theirs up: waiters can poll,
    /// but a hold that is not renewed is lost.
    pub(crate) fn yield_to_lanes(&self) {
        if *self.lanes.borrow() == 0 {
            self.listener.yield_connection();
        }
    }

    /// Waits until a lane has a session, for at most [`YIELD_TIME`].
    pub(crate) async fn lane_connected(&self) {
        // Without a lane that needs a session, the time passes.
        let _ = timeout(YIELD_TIME, self.lanes.subscribe().wait_for(|lanes| *lanes > 0)).await;
    }

    /// Records a new connection. If another one of the same lane has ended before, the server may have lost data.
    pub(crate) fn connected(&self, again: bool) {
        self.epoch.send_if_modified(|epoch| {
            let counts = again || *epoch == 0;
            *epoch += u64::from(counts);
            counts
        });
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
        let mut refused = None;
        for lane in [lane, &self.0.steps, &self.0.renewals, &self.0.others] {
            if lane.is_refused() {
                continue;
            }
            match lane.call(context, deadline, &work).await {
                Ok(answer) if answer.is_refused() => refused = Some(answer),
                done => return done,
            }
        }
        match refused {
            Some(answer) => Ok(answer),
            None => lane.call(context, deadline, &work).await,
        }
    }

    async fn query_in<Q: Query>(&self, lane: &Lane, query: Q) -> Result<Q::Output> {
        let query = Arc::new(query);
        let work = |reply| Work::Other(Box::new(Pending { query: query.clone(), answer: None, reply }));
        self.call(lane, work).await?
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.0.context
    }

    /// Executes a query about locks after all steps that were sent before it.
    pub(crate) async fn query_in_order<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.query_in(&self.0.steps, query).await
    }

    /// Executes a query that is neither a step nor a renewal. It may overtake steps.
    pub(crate) async fn query<Q: Query>(&self, query: Q) -> Result<Q::Output> {
        self.query_in(&self.0.others, query).await
    }
}

#[async_trait]
impl Leases for Sql {
    async fn ping(&self) -> Result<()> {
        // The connection for steps is opened, because the first lock needs it.
        self.query_in_order(Ping).await.map_err(|error| error.during("connect"))
    }

    async fn apply(&self, steps: &[Step]) -> Vec<Result<Answer>> {
        let answers = match &self.0.held {
            None => self.apply_leases(steps).await,
            Some(held) => self.apply_held(held, steps).await,
        };
        // The connection for renewals is opened before the first renewal is due, and after that for steps: there may be only
        // one.
        self.0.renewals.open(self.context());
        let with_context =
            |(answer, step): (Result<Answer>, &Step)| answer.map_err(|error| error.during(step.verb()).at(step.key()));
        answers.into_iter().zip(steps).map(with_context).collect()
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let answers = match &self.0.held {
            None => self.renew_leases(claims).await,
            Some(held) => self.renew_held(held, claims).await,
        };
        let with_context =
            |(answer, claim): (Result<Renewal>, &Claim)| answer.map_err(|error| error.during("renew").at(&claim.key));
        answers.into_iter().zip(claims).map(with_context).collect()
    }

    async fn subscribe(&self, claim: &Claim, notifier: Notifier) -> Result<Subscription> {
        let channel = Channel::of_claim(claim);
        let failed = |error: Error| error.during("subscribe").at(&claim.key);
        let subscription = Listener::subscribe(self.context(), channel, Some(claim), notifier).await;
        let subscription = subscription.map_err(failed)?;
        if channel == Channel::of_lock(&claim.key) {
            self.query(Want(claim.key.clone())).await.map_err(failed)?;
        }
        Ok(subscription)
    }

    async fn set_limit(&self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>> {
        let query = states::SetLimit { key: key.clone(), permits };
        self.query_in_order(query).await.flatten().map_err(|error| error.during("set_limit").at(key))
    }

    async fn fence_sql(&self, holding: &Holding, fence: Fence) -> Result<SqlStatement> {
        fence::check(self.context(), holding, fence).map_err(|error| error.during("fence").at(&holding.key))
    }

    async fn announce(&self, member: &Member, ttl: Duration) -> Result<()> {
        self.query(Announce(member.clone(), ttl)).await.map_err(|error| error.during("announce"))
    }

    async fn withdraw(&self, client: ClientId) -> Result<()> {
        self.query(Withdraw(client)).await.map_err(|error| error.during("withdraw"))
    }

    async fn setting(&self, name: &str, text: Option<&str>) -> Result<Option<String>> {
        self.query(Setting { name: format!("setting {name}"), text: text.map(Into::into) }).await
    }

    fn profile(&self) -> Profile {
        let Context { options, epoch, statements, .. } = &**self.context();
        let dialect = options.dialect.for_users();
        Profile {
            store: options.store(),
            timeout: options.timeout,
            kinds: match options.layout {
                Layout::Leases => LockState::KINDS,
                Layout::ShedLock(_) | Layout::RowLock(_) | Layout::Advisory => Kinds::MUTEX,
            },
            outlive_clients: match options.layout {
                Layout::Leases => LockState::KINDS,
                Layout::ShedLock(_) => Kinds::MUTEX,
                Layout::RowLock(_) | Layout::Advisory => Kinds::NONE, // A hold needs a session of the database.
            },
            has_records: true,
            fence_survives_failover: true,
            may_undo: MAY_UNDO,
            checks_locks_in: statements.can_keep_fences().then_some(dialect),
            completes_runs_in: Some(dialect),
            expiry: "the clock of the database server",
            max_steps: Profile::MAX_STEPS,
            epoch: epoch.subscribe(),
        }
    }
}

/// Checks that the server answers.
struct Ping;

#[async_trait]
impl Query for Ping {
    type Output = ();

    async fn run(&self, link: &Link, _: &Context) -> Result<(), Fault> {
        link.query(&link.statements.time, &[]).await.map(drop)
    }
}

/// Marks a lock as one for which a subscriber waits. A lock without rows gets rows.
///
/// It never waits for a row that another transaction has locked, because it shares its lane with records and the registry.
/// Then the mark is missing. This does no harm: the claims of the subscriber set it, too, and while the row stays locked, they
/// are sent again every 50 ms.
pub(crate) struct Want(pub(crate) Key);

#[async_trait]
impl Query for Want {
    type Output = ();

    async fn run(&self, link: &Link, _: &Context) -> Result<(), Fault> {
        if link.table.as_ref().is_some_and(|table| table.refuse(&self.0).is_some()) {
            return Ok(()); // No claim can hold it.
        }
        let names = [self.0.as_str()];
        link.query(&link.statements.insert, &[&&names[..]]).await?;
        let rows = link.begin(&link.statements.lock_leases, &[&&names[..]]).await?;
        let is_wanted: Option<bool> = rows.first().map(|row| row.try_get(4)).transpose()?;
        match is_wanted {
            Some(false) => link.end(&[(&link.statements.want, &[&&names[..]])]).await.map(drop),
            Some(true) | None => link.roll_back().await,
        }
    }
}

/// Reads a setting, and first keeps it if it is new.
struct Setting {
    name: String,
    text: Option<String>,
}

#[async_trait]
impl Query for Setting {
    type Output = Option<String>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Option<String>, Fault> {
        if let Some(text) = &self.text {
            link.query(&link.statements.setting, &[&self.name, text]).await?;
        }
        let rows = link.query(&link.statements.meta, &[&self.name]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }
}
