//! A client: one engine over one backend, and the handles that keep it alive.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use bandog_core::{
    Backend, ClientId, Clock, Error, ErrorKind, Finding, Holder, Key, Member, Notifier, Pattern, Result, Row,
    Subscription,
};
use tokio::sync::oneshot;

use crate::{
    ClientOptions, Mutex, Notifications, OutageReporter, Owner, blocking, engine::Msg, handle::Handle, prefix,
};

/// A client of one store, which makes its locks. Clones are the same client; it lives as long as any of its handles or
/// guards.
///
/// Its engine has a thread of its own, so locks are renewed and released even while the user's runtime is blocked or
/// has ended.
///
/// # At the end of a program
/// No client keeps a process alive. [`Client::close`] releases everything, and takes two request timeouts at most.
/// Without it, the drop of the last handle or guard waits up to 100 ms for releases that the store has not answered.
/// Locks whose release the store has not received by then expire after their ttl. That holds for all locks that are
/// held at `process::exit`, at an abort, and for guards and clients that are leaked or live in a static.
///
/// After [`ClientOptions::on_current_runtime`] no drop waits: the engine ends with its runtime. The end of a Tokio
/// runtime waits for its `spawn_blocking` threads, and so for a blocking call that waits for a lock in one of them.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    pub(crate) fn of(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    /// A client with default options over a backend. No I/O is done yet.
    ///
    /// # Errors
    /// As [`ClientOptions::over`].
    pub fn over(backend: impl Backend) -> Result<Self> {
        Self::options().over(backend)
    }

    /// Options to change before [`ClientOptions::over`].
    pub fn options() -> ClientOptions {
        ClientOptions::default()
    }

    /// This client's id: the first half of its owners' names in the store.
    pub fn id(&self) -> ClientId {
        self.handle.id
    }

    /// The lock of this name, 1 to 1024 bytes without control characters. Cheap, no I/O; a bad name is an error of the
    /// first call that locks.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(Arc::clone(&self.handle), name.as_ref())
    }

    /// A new owner, for re-entry with [`Mutex::by`].
    pub fn owner(&self) -> Owner {
        Owner::new(self.handle.id)
    }

    /// The same client for code without async.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// let client = bandog::ConnectOptions::parse("memory:")?.connect_lazy()?;
    /// let guard = client.blocking()?.mutex("orders").lock()?;
    /// # guard.release() }
    /// ```
    ///
    /// # Errors
    /// `Misused` after [`ClientOptions::on_current_runtime`]: that engine cannot run while a call blocks.
    pub fn blocking(&self) -> Result<blocking::Client> {
        blocking::Client::of(self)
    }

    /// Waits until the store has answered, for at most 5 s.
    ///
    /// # Errors
    /// `Denied` at once for a refused user or password; `Unavailable` when nothing answered.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn ready(&self) -> Result<()> {
        self.request(Msg::Ping).await?
    }

    /// One lock as the store sees it, held or not, by any client.
    ///
    /// # Errors
    /// `Misused` for a bad name, `Unavailable`, `Denied` when the key is something else than a lock, `Closed`.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn show(&self, name: impl AsRef<str>) -> Result<Row> {
        let key = self.handle.key(name.as_ref())?;
        let mut row = self.query(|backend| Box::pin(async move { backend.show(&key).await })).await?;
        self.describe_rows(std::slice::from_mut(&mut row), self.known_members().await?).await?;
        Ok(row)
    }

    /// Several locks in the given order, with the clients that hold them and without those that wait. It queries these
    /// locks and their holders only, however large the store is.
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

    /// The locks that are held now and whose names match, sorted by name.
    ///
    /// On Redis this is the only query that scans all keys of the server. It scans in steps of about a millisecond, and
    /// rests nine times as long after each step. So with millions of other keys this call is slow, and the server is
    /// not. Call it rarely, and cache a result for several times as long as the query took.
    ///
    /// # Errors
    /// `Unavailable`, `Denied`, `Closed`.
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

    /// The clients in the store's registry: those that hold or wait for a lock, and those that did so less than a ttl
    /// ago.
    ///
    /// On Redis these are the clients in the index of clients, which earlier versions do not use.
    ///
    /// # Errors
    /// As [`Client::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn members(&self) -> Result<Vec<Member>> {
        self.query(|backend| Box::pin(async move { backend.members().await })).await
    }

    /// The registered clients, or none if this user may not read the registry: a query of a lock must not fail for
    /// that.
    async fn known_members(&self) -> Result<Vec<Member>> {
        match self.members().await {
            Err(error) if error.kind() == ErrorKind::Denied => {
                if self.handle.is_first_denial() {
                    tracing::warn!(%error, "this user may not read the registry of clients and waiters");
                }
                Ok(Vec::new())
            }
            members => members,
        }
    }

    /// Adds the holders and waiters of these locks, and removes the prefix from their names. Holders that are not among
    /// these members are queried by id: earlier versions are not in the index.
    async fn describe_rows(&self, rows: &mut [Row], mut members: Vec<Member>) -> Result<()> {
        let known: HashSet<ClientId> = members.iter().map(|member| member.id).collect();
        let others: HashSet<ClientId> = rows
            .iter()
            .flat_map(|row| &row.holders)
            .filter_map(Holder::client)
            .filter(|id| !known.contains(id))
            .collect();
        if !others.is_empty() {
            let others: Vec<ClientId> = others.into_iter().collect();
            match self.query(|backend| Box::pin(async move { backend.members_of(&others).await })).await {
                Err(error) if error.kind() == ErrorKind::Denied => {}
                found => members.extend(found?),
            }
        }
        for row in rows {
            row.tell(&members);
            row.name = self.handle.without_prefix(std::mem::take(&mut row.name));
        }
        Ok(())
    }

    /// Takes a lock from its holder. Returns the row that the lock had then, if it was held. Waiting clients are
    /// notified.
    ///
    /// A guard of this client is lost at once, a guard of another client at its next renewal, which is after a third of
    /// its ttl. Until then two guards may seem valid, and only the fence, which continues to rise, distinguishes them.
    /// A guard with a fixed lease in another client is not lost before its lease ends.
    ///
    /// # Errors
    /// As [`Client::show`].
    ///
    /// # Cancel safety
    /// After the first poll, the lock may be freed even if the future is dropped.
    pub async fn evict(&self, name: impl AsRef<str>) -> Result<Option<Row>> {
        let key = self.handle.key(name.as_ref())?;
        let wanted = key.clone();
        let evicted = self.query(|backend| Box::pin(async move { backend.evict(&key).await })).await?;
        self.handle.send(Msg::Recheck(wanted))?;
        let Some(mut row) = evicted else { return Ok(None) };
        // The lock is free, even if the store does not answer the query for these clients.
        let bare = Row { name: self.handle.without_prefix(row.name.clone()), ..row.clone() };
        let described =
            async { self.describe_rows(std::slice::from_mut(&mut row), self.known_members().await?).await }.await;
        Ok(Some(if described.is_ok() { row } else { bare }))
    }

    /// Findings about the store and its environment: what may endanger locks, and what is fine.
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
                format!("could not check whether one prefix in use begins another: {error}"),
                "run the check as a user who may read the registry of clients",
            ),
        });
        Ok(findings)
    }

    /// Notifications of a record, which is named without the client's prefix: one for each swap of the record with
    /// [`Swap::notifies`](bandog_core::Swap::notifies), by any client. No I/O is done yet: the client subscribes at the
    /// store in the background, and retries until it succeeds. The first notification comes when it has subscribed,
    /// since the record may have changed before, and another one after each reconnection.
    ///
    /// A notification is a hint. A caller that must not miss a change also polls the record.
    ///
    /// ```
    /// use bandog::{Key, backend::{Records, Swap}};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let client = bandog::connect("memory:").await?;
    /// let news = Key::new("news")?;
    /// let mut notifications = client.subscribe(&news)?;
    /// notifications.next().await?; // The client has subscribed.
    /// client.swap(&[Swap { notifies: true, ..Swap::new(news, None, "first") }]).await?;
    /// notifications.next().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Misused` for a name that is too long with the prefix, `Closed`.
    pub fn subscribe(&self, record: &Key) -> Result<Notifications> {
        Notifications::through(|notifier| self.subscribe_record(record, notifier))
    }

    /// Calls the notifier until the subscription is dropped.
    pub(crate) fn subscribe_record(&self, record: &Key, notifier: Notifier) -> Result<Subscription> {
        let (id, key) = (self.handle.ticket(), self.handle.key(record.as_str())?);
        self.handle.send(Msg::SubscribeRecord { id, key, notifier })?;
        let mailbox = self.handle.mailbox();
        Ok(Subscription::new(move || {
            // An engine that has ended has no subscriptions.
            let _ = mailbox.send(Msg::UnsubscribeRecord(id));
        }))
    }

    /// A description of the store, without secrets.
    pub fn store(&self) -> &str {
        self.handle.store()
    }

    /// Releases every guard, ends every wait and the engine, and returns when the store has answered or after twice the
    /// request timeout. Guards and calls are `Closed` from then on.
    ///
    /// # Errors
    /// None at present: a client that had ended before is closed.
    ///
    /// # Cancel safety
    /// The client closes even if the future is dropped after its first poll.
    pub async fn close(&self) -> Result<()> {
        match self.request(Msg::Close).await {
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Waits until no release is pending and no call is in flight: for tests that inspect the store.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn idle(&self) {
        // An engine that has ended is idle too.
        let _ = self.request(Msg::WaitForIdle).await;
    }

    /// The clock that this client reads.
    pub fn clock(&self) -> Clock {
        self.handle.clock
    }

    /// The ttl of locks without a lease: [`ClientOptions::watchdog`].
    pub fn ttl(&self) -> Duration {
        self.handle.watchdog_ttl()
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(Arc<dyn Backend>) -> QueryFuture<T> + Send + 'static,
    ) -> Result<T> {
        let wrapped = |reply: oneshot::Sender<Result<T>>| {
            Msg::Query(Box::new(move |backend| {
                let query = query(backend);
                Box::pin(async move {
                    let mut reply = reply;
                    // The query ends when its caller has gone.
                    tokio::select! {
                        biased;
                        () = reply.closed() => {}
                        found = query => {
                            let _ = reply.send(found);
                        }
                    }
                })
            }))
        };
        self.request(wrapped).await?
    }

    pub(crate) async fn request<T>(&self, msg: impl FnOnce(oneshot::Sender<T>) -> Msg) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.handle.send(msg(reply))?;
        answer.await.map_err(|_| Error::closed())
    }
}

impl Client {
    /// From now on until the reporter is dropped, the caller logs outages of the store, and the engine does not.
    #[doc(hidden)]
    pub fn outage_reporter(&self) -> OutageReporter {
        OutageReporter::new(Arc::clone(&self.handle))
    }
}

pub(crate) type QueryFuture<T> = futures_util::future::BoxFuture<'static, Result<T>>;

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.handle.id).finish_non_exhaustive()
    }
}
