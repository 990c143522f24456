//! A client: one engine over one backend, and the handles that keep it alive.

use std::{
    collections::HashSet,
    fmt,
    num::{NonZeroU32, NonZeroUsize},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{
    Backend, ClientId, Clock, Error, ErrorKind, Finding, Key, Member, Notifier, Pattern, Profile, Result, Row,
    Subscription, check_ttl,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Mutex, Notifications, Owner, blocking,
    engine::{Engine, Msg, Runner, TURNS, Terms, Ticket},
    prefix,
};

/// How long the last handle waits for what is still owed to the store.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// How a client runs. Made by [`Client::options`].
#[derive(Debug, Clone)]
pub struct ClientOptions {
    watchdog: Duration,
    local_turns: NonZeroU32,
    clock: Clock,
    current_runtime: bool,
    max_waiting: NonZeroUsize,
    program: Option<String>,
    prefix: String,
}

/// How many calls of a client may wait by default.
const MAX_WAITING: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99_999);

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            watchdog: Duration::from_secs(30),
            local_turns: TURNS,
            clock: Clock::system(),
            current_runtime: false,
            max_waiting: MAX_WAITING,
            program: None,
            prefix: String::new(),
        }
    }
}

impl ClientOptions {
    /// The ttl of locks without a lease; they are renewed when a third of it has passed. Default 30 s, as Redisson's
    /// `lockWatchdogTimeout`; 100 ms to 365 days.
    #[must_use]
    pub fn watchdog(mut self, ttl: Duration) -> Self {
        self.watchdog = ttl;
        self
    }

    /// Maximum number of users of this client that take turns at one hold before the store is asked again, and so the
    /// number of fences that a grant reserves. Default 64, which is also the limit: a client lets others go first after
    /// 64 turns, so a larger number counts as 64. With 1 every user asks the store.
    #[must_use]
    pub fn local_turns(mut self, turns: NonZeroU32) -> Self {
        self.local_turns = turns;
        self
    }

    /// Runs the engine as a task of the runtime in which the client is made, instead of on a thread of its own.
    ///
    /// It saves two thread switches a call. The price: when that runtime is blocked for longer than a ttl, locks are
    /// lost, and when it ends, the client ends with it. A guard that is dropped just before that end may never be given
    /// back, and its lock lapses after the ttl: await [`crate::Guard::release`] or [`Client::close`] before.
    #[must_use]
    pub fn on_current_runtime(mut self) -> Self {
        self.current_runtime = true;
        self
    }

    /// Where the engine reads the time. [`Clock::tokio`] lets a test pause it, over the memory backend and on the
    /// current runtime.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How many calls of this client may wait for locks at a time; the next one is `Overloaded`. Default 100,000: a
    /// waiting call takes some hundred bytes, and a program that has more of them will not catch up.
    #[must_use]
    pub fn max_waiting(mut self, calls: NonZeroUsize) -> Self {
        self.max_waiting = calls;
        self
    }

    /// What this client calls itself in the store's registry, for operators who ask who holds a lock. Default: the
    /// name of the running program.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = Some(name.into());
        self
    }

    /// What every name of this client begins with in the store, so that several systems can share one. It ends in
    /// `:`, and has 2 to 256 bytes without control characters. Default: nothing.
    ///
    /// Names are given and listed without it; [`crate::Guard::key`] and errors have it. Two prefixes do not meet
    /// unless one begins the other: `a:` with the name `b:x` is the lock `x` of the prefix `a:b:`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Starts a client over a backend. No I/O is done yet.
    ///
    /// # Errors
    /// `Misused` for a watchdog out of bounds, a wrong prefix, or outside a runtime after [`ClientOptions::on_current_runtime`];
    /// `Unavailable` when no thread could be started.
    pub fn over(self, backend: impl Backend) -> Result<Client> {
        let ttl = check_ttl("the watchdog's ttl", self.watchdog)?;
        let prefix = prefix::check(self.prefix)?;
        let (mail, mailbox) = mpsc::unbounded_channel();
        let id = ClientId::random();
        let here = Member::here(id);
        let member = Member { program: self.program.unwrap_or(here.program), prefix: prefix.clone(), ..here };
        let Profile { store, timeout, .. } = backend.profile();
        let fences = self.local_turns.min(TURNS);
        let terms = Terms { ttl, watchdog: true, fences, max_hold: None, quiet: false };
        let engine = Engine::new(Arc::new(backend), member, terms, self.max_waiting.get(), self.clock, mailbox);
        let home =
            if self.current_runtime { Runner::on_current_runtime(engine)? } else { Runner::on_own_thread(engine)? };
        let (clock, tickets, tellers) = (self.clock, AtomicU64::new(0), AtomicUsize::new(0));
        let unseen = AtomicBool::new(false);
        let handle =
            Arc::new(Handle { mail, id, clock, store, timeout, prefix, terms, tickets, tellers, unseen, home });
        handle.send(Msg::Begin(Arc::downgrade(&handle)))?;
        Ok(Client { handle })
    }
}

/// The way to locks on one store. Clones are the same client; it lives as long as any handle or guard of it does.
///
/// Its engine has a thread of its own, so locks are renewed and given back even while the user's runtime is blocked
/// or has ended.
///
/// # At the end of a program
/// No client keeps a process alive. [`Client::close`] gives everything back, and takes two request timeouts at most.
/// Without it, the drop of the last handle or guard waits up to 100 ms for releases that the store has not answered.
/// What the store has not learnt by then lapses after its ttl. That holds for all locks that are held at
/// `process::exit`, at an abort, and for guards and clients that are leaked or live in a static.
///
/// After [`ClientOptions::on_current_runtime`] no drop waits: the engine ends with its runtime. The end of a Tokio
/// runtime waits for its `spawn_blocking` threads, so also for a blocking call that waits for a lock in one of them.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    /// A client with default options over anybody's backend. No I/O is done yet.
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

    /// The lock of this name, 1 to 1024 bytes without control characters. Cheap, no I/O; a bad name is told by the
    /// first call that locks.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(Arc::clone(&self.handle), self.handle.key(name.as_ref()))
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

    /// Waits until the store has answered, for 5 s at most.
    ///
    /// # Errors
    /// `Denied` at once for a refused user or password; `Unavailable` when nothing answered.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn ready(&self) -> Result<()> {
        self.request(Msg::Ping).await?
    }

    /// One lock as the store sees it, whoever holds it.
    ///
    /// # Errors
    /// `Misused` for a bad name, `Unavailable`, `Denied` when the key is something else than a lock, `Closed`.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn show(&self, name: impl AsRef<str>) -> Result<Row> {
        let key = self.handle.key(name.as_ref())?;
        let mut row = self.look(|backend| Box::pin(async move { backend.show(&key).await })).await?;
        self.tell(std::slice::from_mut(&mut row), self.known().await?).await?;
        Ok(row)
    }

    /// Several locks, each in its place, with the clients that hold them and without those that wait: it asks for
    /// these locks and their holders, and for nothing else, however much there is in the store.
    ///
    /// # Errors
    /// As [`Client::show`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn holders(&self, names: &[impl AsRef<str> + Sync]) -> Result<Vec<Row>> {
        let keys = names.iter().map(|name| self.handle.key(name.as_ref())).collect::<Result<Vec<_>>>()?;
        let mut rows = self.look(|backend| Box::pin(async move { backend.show_all(&keys).await })).await?;
        self.tell(&mut rows, Vec::new()).await?;
        Ok(rows)
    }

    /// The locks that are held now and whose names match, sorted by name.
    ///
    /// On Redis this is the one question that looks at every key of the server. It does so in steps of about a
    /// millisecond and rests nine times as long after each of them, so millions of other keys make it slow and not the
    /// server. Ask for few lists, and keep an answer for some multiple of the time that it took.
    ///
    /// # Errors
    /// `Unavailable`, `Denied`, `Closed`.
    ///
    /// # Cancel safety
    /// Dropping the future ends the look, and changes nothing.
    pub async fn list(&self, pattern: Pattern) -> Result<Vec<Row>> {
        let pattern = pattern.after(&self.handle.prefix);
        let mut rows = self.look(|backend| Box::pin(async move { backend.list(&pattern).await })).await?;
        let members = if rows.is_empty() { Vec::new() } else { self.known().await? };
        self.tell(&mut rows, members).await?;
        Ok(rows)
    }

    /// The clients that the store knows of: those that hold or wait for something, and those that did a ttl ago.
    ///
    /// On Redis those are the ones in the index of clients, in which clients before this version do not stand.
    ///
    /// # Errors
    /// As [`Client::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn members(&self) -> Result<Vec<Member>> {
        self.look(|backend| Box::pin(async move { backend.members().await })).await
    }

    /// Nobody, where this user may not look into the registry: that must not cost a look at a lock.
    async fn known(&self) -> Result<Vec<Member>> {
        match self.members().await {
            Err(error) if error.kind() == ErrorKind::Denied => {
                if !self.handle.unseen.swap(true, Relaxed) {
                    tracing::warn!(%error, "this user may not see which clients there are, nor who waits for a lock");
                }
                Ok(Vec::new())
            }
            members => members,
        }
    }

    /// Fills in who holds these locks and who waits, and takes the prefix off their names. Holders that are not among
    /// these members are asked for by their ids: earlier versions stand in no index.
    async fn tell(&self, rows: &mut [Row], mut members: Vec<Member>) -> Result<()> {
        let known: HashSet<ClientId> = members.iter().map(|member| member.id).collect();
        let others: HashSet<ClientId> =
            rows.iter().filter_map(Row::client).filter(|client| !known.contains(client)).collect();
        if !others.is_empty() {
            let others: Vec<ClientId> = others.into_iter().collect();
            match self.look(|backend| Box::pin(async move { backend.members_of(&others).await })).await {
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

    /// Takes a lock from whoever holds it, and gives the row that it had then, if somebody held it. Those who wait for
    /// it are rung.
    ///
    /// A holder in this client learns it at once, any other at its next renewal, which is after a third of its ttl;
    /// until then two may believe that they hold the lock, and only the fence, which goes on rising, tells them
    /// apart. A guard with a fixed lease in another client never learns it.
    ///
    /// # Errors
    /// As [`Client::show`].
    ///
    /// # Cancel safety
    /// Once it has been polled the lock may be freed all the same.
    pub async fn evict(&self, name: impl AsRef<str>) -> Result<Option<Row>> {
        let key = self.handle.key(name.as_ref())?;
        let wanted = key.clone();
        let evicted = self.look(|backend| Box::pin(async move { backend.evict(&key).await })).await?;
        self.handle.send(Msg::Recheck(wanted))?;
        let Some(mut row) = evicted else { return Ok(None) };
        // The lock is free, whether or not the store still tells who these clients are.
        let bare = Row { name: self.handle.without_prefix(row.name.clone()), ..row.clone() };
        let told = async { self.tell(std::slice::from_mut(&mut row), self.known().await?).await }.await;
        Ok(Some(if told.is_ok() { row } else { bare }))
    }

    /// What may endanger locks in the store or its surroundings, and what is well.
    ///
    /// # Errors
    /// As [`Client::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(&self) -> Result<Vec<Finding>> {
        let prefix = self.handle.prefix.clone();
        let mut findings = self.look(|backend| Box::pin(async move { backend.check_for(&prefix).await })).await?;
        findings.push(match self.members().await {
            Ok(members) => prefix::finding(&self.handle.prefix, &members),
            Err(error) => Finding::advice(
                "prefix",
                format!("whether prefixes in use begin each other could not be looked at: {error}"),
                "ask as a user who may read the registry of clients",
            ),
        });
        Ok(findings)
    }

    /// The rings of a record, named without the client's prefix: one for each swap of it, by whatever client, that says
    /// so ([`Swap::notifies`](bandog_core::Swap::notifies)). No I/O yet: from now on the store is asked to listen until it does, which is
    /// one ring, since the record may have changed before. After a connection that broke there is one, too.
    ///
    /// A ring is a hint. Whoever must not miss a change reads the record now and then, ring or no ring.
    ///
    /// ```
    /// use bandog::{Key, backend::{Records, Swap}};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let client = bandog::connect("memory:").await?;
    /// let news = Key::new("news")?;
    /// let mut news = client.subscribe(&news)?;
    /// news.next().await?; // The store listens.
    /// client.swap(&[Swap { rings: true, ..Swap::new(news, None, "first") }]).await?;
    /// news.next().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Misused` for a name that is too long with the prefix, `Closed`.
    pub fn subscribe(&self, record: &Key) -> Result<Notifications> {
        Notifications::through(|notifier| self.subscribe_record(record, notifier))
    }

    /// Notifications until the subscription is dropped.
    pub(crate) fn subscribe_record(&self, record: &Key, notifier: Notifier) -> Result<Subscription> {
        let (id, key) = (self.handle.ticket(), self.handle.key(record.as_str())?);
        self.handle.send(Msg::SubscribeRecord { id, key, notifier })?;
        let mail = self.handle.mail.clone();
        Ok(Subscription::new(move || {
            // An engine that has ended hears nothing any more.
            let _ = mail.send(Msg::UnsubscribeRecord(id));
        }))
    }

    /// The store in words, without secrets.
    pub fn store(&self) -> &str {
        &self.handle.store
    }

    /// Gives every guard back, ends every wait and the engine, and returns when the store has answered or after
    /// twice the request timeout. Guards and calls are `Closed` from then on.
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

    /// Waits until nothing is owed to the store and no call is in flight: for tests that look at the store.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn idle(&self) {
        // An engine that has ended is idle too.
        let _ = self.request(Msg::Idle).await;
    }

    /// The clock that this client reads.
    pub fn clock(&self) -> Clock {
        self.handle.clock
    }

    /// The ttl of locks without a lease: [`ClientOptions::watchdog`].
    pub fn ttl(&self) -> Duration {
        self.handle.terms.ttl
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(Arc<dyn Backend>) -> Look<T> + Send + 'static,
    ) -> Result<T> {
        let wrapped = |reply: oneshot::Sender<Result<T>>| {
            Msg::Look(Box::new(move |backend| {
                let looking = look(backend);
                Box::pin(async move {
                    let mut reply = reply;
                    // Nobody looks for a caller that has gone.
                    tokio::select! {
                        biased;
                        () = reply.closed() => {}
                        found = looking => {
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

/// Somebody who tells people when the store does not answer, and when it does again, so that the engine need not.
#[doc(hidden)]
#[derive(Debug)]
pub struct Teller(Arc<Handle>);

impl Client {
    /// Until this is dropped, whoever has it logs outages of the store: they are told once.
    #[doc(hidden)]
    pub fn teller(&self) -> Teller {
        self.handle.tellers.fetch_add(1, Relaxed);
        Teller(Arc::clone(&self.handle))
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.tellers.fetch_sub(1, Relaxed);
    }
}

pub(crate) type Look<T> = futures_util::future::BoxFuture<'static, Result<T>>;

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.handle.id).finish_non_exhaustive()
    }
}

/// What every mutex and guard keeps of its client. The last one to go ends the engine.
pub(crate) struct Handle {
    /// Unbounded, because a drop cannot wait; every message stands for a call or a guard that lives or has just died.
    mail: mpsc::UnboundedSender<Msg>,
    pub(crate) id: ClientId,
    pub(crate) clock: Clock,
    store: String,
    prefix: String,
    /// How long one request may take.
    pub(crate) timeout: Duration,
    pub(crate) terms: Terms,
    tickets: AtomicU64,
    /// How many [`Teller`]s there are.
    tellers: AtomicUsize,
    /// Whether it was told that this user may not see which clients there are.
    unseen: AtomicBool,
    home: Runner,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).field("store", &self.store).finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) fn send(&self, msg: Msg) -> Result<()> {
        self.mail.send(msg).map_err(|_| Error::closed())
    }

    /// The key of a name.
    pub(crate) fn key(&self, name: &str) -> Result<Key> {
        let key = Key::new(name)?;
        if self.prefix.is_empty() { Ok(key) } else { Key::new(format!("{}{name}", self.prefix)) }
    }

    /// What every name begins with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of a key's text.
    pub(crate) fn without_prefix(&self, key: String) -> String {
        key.strip_prefix(&self.prefix).map(ToOwned::to_owned).unwrap_or(key)
    }

    /// Resolves when the engine has ended.
    pub(crate) async fn ended(&self) {
        self.mail.closed().await;
    }

    pub(crate) fn has_own_thread(&self) -> bool {
        self.home.is_own_thread()
    }

    /// Whether somebody else than the engine tells of outages.
    pub(crate) fn has_teller(&self) -> bool {
        self.tellers.load(Relaxed) > 0
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.tickets.fetch_add(1, Relaxed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.send(Msg::LastHandleGone).is_ok() {
            self.home.wait_for_end(LAST_WAIT);
        }
    }
}
