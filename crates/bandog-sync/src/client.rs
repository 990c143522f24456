//! The client of a store. A client has one backend and one engine (an actor). The engine makes all calls of the
//! backend.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use bandog_core::{
    Backend, ClaimId, ClientId, Clock, Error, ErrorKind, Fence, Finding, Holder, Holding, Key, Member, Moment,
    Notifier, Pattern, Result, Row, SqlStatement, Subscription,
    messages::Messages,
    queues::Queues,
    structures::{CacheReport, Cursor, ObjectRow, ObjectState, Structures, read_cache_reports},
};
use tokio::sync::oneshot;

use crate::{
    Health, Notifications, OutageReporter, Owner, StoreProfile,
    engine::Msg,
    handle::{Handle, QueryFuture},
    prefix,
    terms::Ticket,
};

/// A client of one store. [`Client::mutex`] makes the locks of a client. Clones are the same client. The client lives
/// until the last of its clones, locks and guards is dropped.
///
/// The client renews and releases locks on its own thread. So locks are renewed and released even while the user's
/// runtime is blocked, and even after that runtime has ended.
///
/// # At the end of a program
/// A client does not keep its process alive. [`Client::close`] releases all locks, which takes two request timeouts at
/// most. Without `close`, releases are sent in the background. The client ends when the last of its clones, locks and
/// guards is dropped. That drop waits up to 100 ms for releases that the store has not answered. If the process ends
/// before a release has reached the store, the lock stays held until its ttl has passed. The same happens to locks that
/// are held at `process::exit` or at an abort. The same also happens to locks whose guard or client is leaked or is in
/// a static, because Rust does not drop such values.
///
/// With [`on_current_runtime`](crate::ClientOptions::on_current_runtime) no drop waits, and the client ends when its
/// runtime ends. The end of a Tokio runtime always waits for the `spawn_blocking` threads of that runtime. So if a
/// blocking call in such a thread waits for a lock, the end of the runtime also waits for that call.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    pub(crate) fn of(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// This client's id. The store writes it into each lock that the client holds.
    pub fn id(&self) -> ClientId {
        self.handle.id
    }

    /// A new owner. With [`Mutex::by`](crate::Mutex::by), an owner can take a lock again while it holds it.
    pub fn owner(&self) -> Owner {
        Owner::new(self.handle.id)
    }

    /// A new owner on whose behalf other clients hold these claims. The search for deadlocks counts these claims as holds
    /// of the owner. This is for processes that run under a lock of another process.
    #[doc(hidden)]
    pub fn owner_under(&self, claims: Vec<ClaimId>) -> Owner {
        Owner::with(self.handle.id, claims)
    }

    /// The key of a name in the store: the client's prefix, and the name.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the name is not allowed.
    pub fn key(&self, name: &str) -> Result<Key> {
        self.handle.key(name)
    }

    /// The objects of the client's store, for programs that build on them as the grid does. Their keys have the prefix
    /// ([`Client::key`]). None if the store has no objects.
    pub fn structures(&self) -> Option<&Arc<dyn Structures>> {
        self.handle.structures.as_ref()
    }

    /// A page of the objects of the store whose names match, for operators. The store examines about this number of names,
    /// whether they match or not, so the page may be empty although more pages follow. Names are without the prefix. None:
    /// the store has no objects.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the cursor is not that of a page of this store.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unavailable`: the store did not answer.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn objects(
        &self,
        pattern: &Pattern,
        from: &Cursor,
        about: usize,
    ) -> Result<Option<(Vec<ObjectRow>, Option<Cursor>)>> {
        let Some(structures) = self.structures() else { return Ok(None) };
        let (rows, next) = structures.objects(&pattern.after(self.handle.prefix()), from, about).await?;
        Ok(Some((rows.into_iter().filter_map(|row| self.unprefixed(row)).collect(), next)))
    }

    /// The object with this name, for operators: see [`Structures::describe`]. Nothing is changed. None: the store has no
    /// objects.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name is not allowed.
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unavailable`: the store did not answer.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn describe(&self, name: impl AsRef<str>) -> Result<Option<Vec<ObjectState>>> {
        let key = self.handle.key(name.as_ref())?;
        let Some(structures) = self.structures() else { return Ok(None) };
        let found = structures.describe(&key).await?.into_iter();
        Ok(Some(found.filter_map(|state| Some(ObjectState { row: self.unprefixed(state.row)?, ..state })).collect()))
    }

    /// What clients have counted of their caches, for operators: the reports of the last minutes, by name and client. Names
    /// are without the prefix. None: the store has no objects.
    ///
    /// # Errors
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unavailable`: the store did not answer.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn cache_reports(&self) -> Result<Option<Vec<CacheReport>>> {
        let Some(structures) = self.structures() else { return Ok(None) };
        let (reports, _) = read_cache_reports(&**structures, self.clock()).await?;
        let unprefixed = |report: CacheReport| {
            let cache = Key::new(report.cache.as_str().strip_prefix(self.handle.prefix())?).ok()?;
            Some(CacheReport { cache, ..report })
        };
        Ok(Some(reports.into_iter().filter_map(unprefixed).collect()))
    }

    /// The row with the name without the prefix. None if the name is the prefix.
    fn unprefixed(&self, row: ObjectRow) -> Option<ObjectRow> {
        let key = Key::new(row.key.as_str().strip_prefix(self.handle.prefix())?).ok()?;
        Some(ObjectRow { key, ..row })
    }

    /// The messages of the client's store, as [`Client::structures`]. None if the store has no channels.
    pub fn messages(&self) -> Option<&Arc<dyn Messages>> {
        self.handle.messages.as_ref()
    }

    /// The program and the machine of this client, as operators see them: `program@host`.
    pub fn identity(&self) -> &str {
        &self.handle.identity
    }

    /// The work queues of the client's store, as [`Client::structures`]. None if the store has no work queues.
    pub fn queues(&self) -> Option<&Arc<dyn Queues>> {
        self.handle.queues.as_ref()
    }

    /// Waits until the store answers, for at most 5 s.
    ///
    /// # Errors
    /// - `ErrorKind::Denied`: the store refused the user or the password. This error is returned immediately.
    /// - `ErrorKind::Unavailable`: the store did not answer within 5 s.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn ready(&self) -> Result<()> {
        self.request(Msg::Ping).await?
    }

    /// The state of one lock in the store, whether it is held or free. The holder can be any client.
    ///
    /// # Errors
    /// - `ErrorKind::Misused`: the name is not allowed.
    /// - `ErrorKind::Denied`: the store refused the request, or the key contains something that is not a lock.
    /// - `ErrorKind::Unavailable`: the store did not answer.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn show(&self, name: impl AsRef<str>) -> Result<Row> {
        let key = self.handle.key(name.as_ref())?;
        let mut row = self.query(|backend| Box::pin(async move { backend.show(&key).await })).await?;
        self.describe_rows(std::slice::from_mut(&mut row), self.known_members().await?).await?;
        Ok(row)
    }

    /// The states of several locks, in the given order. Each state contains the clients that hold the lock, but not the
    /// clients that wait for the lock. The cost depends only on the number of these locks, not on the size of the
    /// store.
    ///
    /// # Errors
    /// As [`Client::show`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn holders(&self, names: &[impl AsRef<str> + Sync]) -> Result<Vec<Row>> {
        let keys = names.iter().map(|name| self.handle.key(name.as_ref())).collect::<Result<Vec<_>>>()?;
        let mut rows = self.query(|backend| Box::pin(async move { backend.show_all(&keys).await })).await?;
        self.describe_rows(&mut rows, Vec::new()).await?;
        Ok(rows)
    }

    /// All locks that are held now and whose names match the pattern, sorted by name.
    ///
    /// On Redis this is the only query that scans all keys of the server. The scan has steps of about a millisecond,
    /// with pauses of nine times that length. So if there are millions of other keys, this call takes a long time, but
    /// it does not slow the server down. Call it rarely. Cache each result for several times the duration of the call.
    ///
    /// # Errors
    /// - `ErrorKind::Denied`: the store refused the request.
    /// - `ErrorKind::Unavailable`: the store did not answer.
    /// - `ErrorKind::Closed`: the client was closed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the scan, and changes nothing.
    pub async fn list(&self, pattern: Pattern) -> Result<Vec<Row>> {
        let pattern = pattern.after(self.handle.prefix());
        let mut rows = self.query(|backend| Box::pin(async move { backend.list(&pattern).await })).await?;
        let members = if rows.is_empty() { Vec::new() } else { self.known_members().await? };
        self.describe_rows(&mut rows, members).await?;
        Ok(rows)
    }

    /// The clients in the store's registry. These are the clients that hold a lock or wait for a lock. The list can
    /// also contain clients that did so less than a ttl ago.
    ///
    /// On Redis, clients of earlier versions of bandog are missing, because they do not write into the registry's
    /// index.
    ///
    /// # Errors
    /// As [`Client::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn members(&self) -> Result<Vec<Member>> {
        self.query(|backend| Box::pin(async move { backend.members().await })).await
    }

    /// The registered clients. Returns an empty list if the store does not allow this user to read the registry, or if
    /// the registry is on a node of the store that does not answer. This is no error, because a query of a lock must also
    /// work without the registry.
    async fn known_members(&self) -> Result<Vec<Member>> {
        match self.members().await {
            Err(error) if hides_clients(&error) => {
                let is_denial = error.kind() == ErrorKind::Denied && !error.is_about_login();
                if is_denial && self.handle.is_first_denial() {
                    tracing::warn!(%error, "this user may not read the registry of clients and waiters");
                } else if !is_denial && self.handle.is_first_silence() {
                    tracing::warn!(%error, "the registry of clients and waiters could not be read");
                }
                Ok(Vec::new())
            }
            members => members,
        }
    }

    /// Adds the holding and waiting clients to these rows, and removes the prefix from the names of the locks. Holders
    /// that are not in `members` are queried by their ids, because clients of earlier versions of bandog are not in the
    /// registry's index.
    async fn describe_rows(&self, rows: &mut [Row], mut members: Vec<Member>) -> Result<()> {
        let known: HashSet<ClientId> = members.iter().map(|member| member.id).collect();
        let unknown_ids: HashSet<ClientId> = rows
            .iter()
            .flat_map(|row| &row.holders)
            .filter_map(Holder::client)
            .filter(|id| !known.contains(id))
            .collect();
        if !unknown_ids.is_empty() {
            let unknown_ids: Vec<ClientId> = unknown_ids.into_iter().collect();
            match self.query(|backend| Box::pin(async move { backend.members_of(&unknown_ids).await })).await {
                Err(error) if hides_clients(&error) => {}
                found => members.extend(found?),
            }
        }
        for row in rows {
            row.add_members(&members);
            row.name = self.handle.without_prefix(std::mem::take(&mut row.name));
        }
        Ok(())
    }

    /// Takes a lock from its holder, so that it is free. Returns the previous state of the lock, or `None` if it was
    /// not held. Waiting clients are notified.
    ///
    /// If a guard of this client holds the lock, that guard is lost immediately. If a guard of another client holds the
    /// lock, that guard is lost at the lock's next renewal, after a third of the ttl at most. But if the lock has a
    /// fixed lease, it is never renewed, and that guard is lost when the lease expires. Until the old guard is lost, it
    /// is possible that the old guard and the guard of the next holder both seem valid. The next holder's fence is
    /// larger, so a resource that checks fences can refuse the old holder.
    ///
    /// # Errors
    /// As [`Client::show`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the lock might be freed nevertheless.
    pub async fn evict(&self, name: impl AsRef<str>) -> Result<Option<Row>> {
        let key = self.handle.key(name.as_ref())?;
        let evicted_key = key.clone();
        let evicted = self.query(|backend| Box::pin(async move { backend.evict(&key).await })).await?;
        self.handle.send(Msg::Recheck(evicted_key))?;
        let Some(mut row) = evicted else { return Ok(None) };
        // The lock is free now. So the call succeeds even if the query for the names of the clients fails.
        let without_clients = Row { name: self.handle.without_prefix(row.name.clone()), ..row.clone() };
        let described =
            async { self.describe_rows(std::slice::from_mut(&mut row), self.known_members().await?).await }.await;
        Ok(Some(if described.is_ok() { row } else { without_clients }))
    }

    /// Deletes all that the store keeps for a name, if the lock is free: the last fence, and the number of permits of a
    /// semaphore. Returns whether the lock was free. This is for names that no client uses any more: the next fence of
    /// the name may be smaller than its last one.
    ///
    /// # Errors
    /// As [`Client::show`], and `ErrorKind::Unsupported`: the store cannot delete names.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the name might be deleted nevertheless.
    #[doc(hidden)]
    pub async fn forget(&self, name: impl AsRef<str>) -> Result<bool> {
        let key = self.handle.key(name.as_ref())?;
        self.query(|backend| Box::pin(async move { backend.forget(&key).await })).await
    }

    /// Checks the store and its environment. Returns findings: what might endanger locks, and what is fine.
    ///
    /// # Errors
    /// As [`Client::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(&self) -> Result<Vec<Finding>> {
        let prefix = self.handle.prefix().to_owned();
        let mut findings = self.query(|backend| Box::pin(async move { backend.check_for(&prefix).await })).await?;
        findings.push(match self.members().await {
            Ok(members) => prefix::finding(self.handle.prefix(), &members),
            Err(error) => Finding::advice(
                "prefix",
                format!("could not check whether one prefix in use begins with another: {error}"),
                if error.kind() == ErrorKind::Denied {
                    "run the check as a user who may read the registry of clients"
                } else {
                    "run the check again when the store answers"
                },
            ),
        });
        Ok(findings)
    }

    /// See [`ClientRecords::subscribe`](crate::ClientRecords::subscribe).
    pub(crate) fn subscribe(&self, record: &Key) -> Result<Notifications> {
        Notifications::through(|notifier| self.subscribe_record(record, notifier))
    }

    /// Calls the notifier for each change of the record, until the returned subscription is dropped.
    pub(crate) fn subscribe_record(&self, record: &Key, notifier: Notifier) -> Result<Subscription> {
        let key = self.handle.key(record.as_str())?;
        self.subscription(|id| Msg::SubscribeRecord { id, key, notifier })
    }

    /// Calls the notifier when the latch becomes open, at least once a second, and at the moment `until`. The calls end
    /// when the returned subscription is dropped. `key` contains the prefix.
    pub(crate) fn subscribe_latch(&self, key: &Key, until: Option<Moment>, notifier: Notifier) -> Result<Subscription> {
        self.subscription(|id| Msg::SubscribeLatch { id, key: key.clone(), notifier, until })
    }

    /// Sends a message that subscribes. The drop of the returned subscription sends the message that unsubscribes.
    fn subscription(&self, msg: impl FnOnce(Ticket) -> Msg) -> Result<Subscription> {
        let id = self.handle.ticket();
        self.handle.send(msg(id))?;
        let mailbox = self.handle.mailbox();
        Ok(Subscription::new(move || {
            // If the engine has ended, there is no subscription to end.
            let _ = mailbox.send(Msg::UnsubscribeRecord(id));
        }))
    }

    /// A description of the store, without secrets.
    pub fn store(&self) -> &str {
        self.handle.store()
    }

    /// Closes the client: releases all of its locks, and ends all of its waiting calls. Returns when the store has
    /// answered the releases, or after two request timeouts at the latest. From then on, guards and calls of this
    /// client return `ErrorKind::Closed`.
    ///
    /// # Errors
    /// None at present. It is no error if the client was closed before.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the client closes nevertheless.
    pub async fn close(&self) -> Result<()> {
        match self.request(Msg::Close).await {
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Waits until the store has answered all requests of this client. This is for tests that inspect the store.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn idle(&self) {
        // An error means that the engine has ended. In that case no request is in flight, so the error is ignored.
        let _ = self.request(Msg::WaitForIdle).await;
    }

    /// The clock that this client reads.
    pub fn clock(&self) -> Clock {
        self.handle.clock
    }

    /// The ttl that was set with [`ClientOptions::watchdog`](crate::ClientOptions::watchdog). It applies to each lock for
    /// which [`Mutex::lease`](crate::Mutex::lease) and [`Mutex::watchdog`](crate::Mutex::watchdog) set no other ttl.
    pub fn ttl(&self) -> Duration {
        self.handle.watchdog_ttl()
    }

    /// Reports the health of this client and its store. This call is cheap enough for readiness probes. If the store
    /// has answered any request within the last second, the client uses that result. Otherwise the client sends a ping,
    /// at most one per second for all callers.
    ///
    /// This call returns within half a second, or within one request timeout if that is shorter. If the store has not
    /// answered the ping by then, the store counts as not reachable until its next answer.
    ///
    /// Use this call for readiness probes, not for liveness probes. An outage of the store is no reason to restart a
    /// process: the process keeps its locks until their deadlines, and its waiting calls continue when the store
    /// answers again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::testing::client();
    /// let health = client.health().await?;
    /// let status = if health.reachable { 200 } else { 503 };
    /// // Prints "200: the store answers (last answer 0 ms ago); locks held: 0, calls waiting: 0".
    /// println!("{status}: {health}");
    /// # assert_eq!(status, 200);
    /// # client.close().await }
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::Closed` after [`Client::close`]. It is no error if the store does not answer: [`Health::reachable`]
    /// is false then.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn health(&self) -> Result<Health> {
        self.request(Msg::CheckHealth).await
    }

    /// The capabilities of the store of this client, so that a program can check them at its start. This call does no
    /// I/O.
    /// `bandog_sqlx::check` also asks the database of a pool.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let client = bandog::connect("memory:").await?;
    /// let profile = client.profile();
    /// assert!(profile.has_records);
    /// if profile.completes_runs_in.is_none() {
    ///     println!("{} cannot complete runs in a transaction of mine", profile.store);
    /// }
    /// # client.close().await }
    /// ```
    pub fn profile(&self) -> &StoreProfile {
        &self.handle().profile
    }

    /// A statement that checks a lock that no claim holds, for `bandog_sqlx::check`: a database that refuses it because the
    /// lock is not held is the right one.
    #[doc(hidden)]
    pub async fn check_sql(&self) -> Result<SqlStatement> {
        let holding = Holding { key: self.handle().key("bandog-check")?, id: ClaimId { client: self.id(), number: 0 } };
        self.ready().await?; // The statement contains the id of the store, which the connection reads.
        self.query(move |backend| Box::pin(async move { backend.fence_sql(&holding, Fence::new(1)).await })).await
    }

    /// As [`Handle::query`].
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(Arc<dyn Backend>) -> QueryFuture<T> + Send + 'static,
    ) -> Result<T> {
        self.handle.query(query).await
    }

    /// As [`Handle::request`].
    pub(crate) async fn request<T>(&self, msg: impl FnOnce(oneshot::Sender<T>) -> Msg) -> Result<T> {
        self.handle.request(msg).await
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }
}

impl Client {
    /// Returns a reporter. While the reporter exists, the engine does not log outages of the store, because the caller
    /// of this function logs them.
    #[doc(hidden)]
    pub fn outage_reporter(&self) -> OutageReporter {
        OutageReporter::new(Arc::clone(&self.handle))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.handle.id).finish_non_exhaustive()
    }
}

/// Whether a query of locks continues without the clients if the query for the clients has this error.
fn hides_clients(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unavailable)
}
