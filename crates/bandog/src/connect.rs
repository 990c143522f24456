//! From a URL to a client.

use std::{
    collections::HashMap,
    fmt,
    num::{NonZeroU32, NonZeroUsize},
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use bandog_core::{Clock, Error, ErrorKind, Memory, Result};
use bandog_sync::{Client, ClientOptions};

use crate::{
    blocking, paused,
    url::{Parts, Scheme, check_timeout, redact},
};

/// A client for the store that the URL names, once it has answered.
///
/// - `redis://user:password@host:6379/0`: one Redis server; keys are Redisson's.
/// - `rediss://user:password@host:6379/0`: the same over TLS, with the authorities that the system trusts.
///   `?ca=PATH` trusts those in a file instead, `?cert=PATH&key=PATH` shows the server a certificate. All are PEM.
/// - `redis+unix://user:password@/run/redis.sock?db=0`: the same over a socket of this machine.
/// - `valkey://`, `valkeys://` and `valkey+unix://`: the same for a Valkey server.
/// - `sqlite:PATH`: one file, shared by processes of one machine (feature `sqlite`).
/// - `memory:`: a store of its own in this process; `memory:NAME` is shared within the process.
///
/// Every URL takes `?watchdog=DUR` (the ttl of locks without a lease, renewed at a third of it; default `30s`,
/// 100 ms to 365 days), `?timeout=DUR` (how long one request may take; default `3s`) and `?prefix=TEXT` (what every
/// name begins with in the store; it ends in `:`, see [`ClientOptions::prefix`]).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let client = bandog::connect("memory:?watchdog=10s").await?;
/// assert!(bandog::connect("mongo://localhost").await.is_err());
/// # client.close().await }
/// ```
///
/// # Errors
/// `Misused` for a URL that is wrong or a file of it that cannot be used, `Unsupported` for a backend that is not
/// compiled in, for Sentinel, Cluster and other stores, and for a server that is none, `Denied` for a refused user, password or certificate, `Unavailable` when
/// nothing answers within 5 s.
///
/// # Paused time
/// Leases of `memory:` follow the machine's clock. Under a paused clock of tokio (`#[tokio::test(start_paused = true)]`)
/// they would never expire, so such a call is `Misused`: [`testing::client()`](crate::testing::client) gives a test its
/// client. With a real store a warning is logged: timers of that runtime fire at once while a call waits for the store.
///
/// # Cancel safety
/// Dropping the future ends the client that it was making.
pub async fn connect(url: impl AsRef<str>) -> Result<Client> {
    ConnectOptions::parse(url)?.connect().await
}

/// What a client is made of, when a URL does not say enough.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// use std::time::Duration;
/// let options = bandog::ConnectOptions::parse("memory:")?.watchdog(Duration::from_secs(10)).on_current_runtime();
/// let client = options.connect().await?;
/// # client.close().await }
/// ```
#[derive(Clone)]
pub struct ConnectOptions {
    url: String,
    parts: Parts,
    ttl: Duration,
    client: ClientOptions,
    current_runtime: bool,
    must_exist: bool,
}

/// Redisson's `lockWatchdogTimeout`.
const WATCHDOG: Duration = Duration::from_secs(30);

impl ConnectOptions {
    /// Reads a URL. No I/O is done.
    ///
    /// # Errors
    /// As [`connect`], but for what needs I/O.
    pub fn parse(url: impl AsRef<str>) -> Result<Self> {
        let url = url.as_ref();
        let parts = Parts::parse(url)?;
        let ttl = parts.watchdog.unwrap_or(WATCHDOG);
        let client = Client::options().watchdog(ttl).prefix(&parts.prefix);
        Ok(Self { url: url.to_owned(), parts, ttl, client, current_runtime: false, must_exist: false })
    }

    /// The ttl of locks without a lease. Default 30 s, or what the URL says; 100 ms to 365 days.
    #[must_use]
    pub fn watchdog(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self.client = self.client.watchdog(ttl);
        self
    }

    /// The ttl of locks without a lease, as [`ConnectOptions::watchdog`] or the URL have it.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How long one request may take. Default 3 s, or what the URL says; 10 ms to 365 days.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.parts.timeout = Some(timeout);
        self
    }

    /// Never creates the store, for those who only look: of a SQLite file that is not there every call says
    /// `Unavailable`, after [`ConnectOptions::connect_lazy`] at once and in [`ConnectOptions::connect`] after 5 s.
    /// Other stores are not made by their clients, so nothing changes for them.
    #[must_use]
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// See [`ClientOptions::local_turns`]. Default 64.
    #[must_use]
    pub fn local_turns(mut self, turns: NonZeroU32) -> Self {
        self.client = self.client.local_turns(turns);
        self
    }

    /// See [`ClientOptions::on_current_runtime`].
    #[must_use]
    pub fn on_current_runtime(mut self) -> Self {
        self.client = self.client.on_current_runtime();
        self.current_runtime = true;
        self
    }

    /// See [`ClientOptions::max_waiting`]. Default 100,000.
    #[must_use]
    pub fn max_waiting(mut self, calls: NonZeroUsize) -> Self {
        self.client = self.client.max_waiting(calls);
        self
    }

    /// See [`ClientOptions::program`]. Default: the name of the running program.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.client = self.client.program(name);
        self
    }

    /// See [`ClientOptions::prefix`]. Default: nothing, or what the URL says.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.client = self.client.prefix(prefix);
        self
    }

    /// Starts a client and waits for the store's first answer.
    ///
    /// # Errors
    /// As [`connect()`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the client that it was making.
    pub async fn connect(self) -> Result<Client> {
        let client = self.connect_lazy()?;
        client.ready().await?;
        Ok(client)
    }

    /// Starts a client for code without async, and waits for the store's first answer.
    ///
    /// ```
    /// # fn main() -> bandog::Result<()> {
    /// use std::time::Duration;
    /// let options = bandog::ConnectOptions::parse("memory:")?.watchdog(Duration::from_secs(10));
    /// let client = options.connect_blocking()?;
    /// # client.close() }
    /// ```
    ///
    /// # Errors
    /// As [`connect()`]; `Misused` in async code, and after [`ConnectOptions::on_current_runtime`].
    pub fn connect_blocking(self) -> Result<blocking::Client> {
        // Blocking calls wait on their own thread, by the machine's clock.
        let client = self.start()?.blocking()?;
        client.ready()?;
        Ok(client)
    }

    /// Starts a client without waiting for the store: its first call does.
    ///
    /// # Errors
    /// As [`connect()`], but for what needs I/O.
    pub fn connect_lazy(self) -> Result<Client> {
        paused::check(self.parts.scheme, self.current_runtime)?;
        self.start()
    }

    fn start(self) -> Result<Client> {
        let timeout = self.parts.timeout.map(check_timeout).transpose()?;
        match self.parts.scheme {
            Scheme::Redis => redis(self.client, &self.parts.rest, timeout),
            Scheme::Sqlite => sqlite(self.client, &self.parts.place, timeout, self.must_exist),
            Scheme::Memory => self.client.over(memory(&self.parts.place)),
        }
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions").field("url", &redact(&self.url)).field("client", &self.client).finish()
    }
}

/// The store of this name, one for the whole process; without a name, a new one.
fn memory(name: &str) -> Memory {
    static NAMED: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);
    let fresh = || Memory::new(Clock::system());
    if name.is_empty() {
        return fresh();
    }
    NAMED.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_insert_with(fresh).clone()
}

#[cfg(feature = "redis")]
fn redis(client: ClientOptions, url: &str, timeout: Option<Duration>) -> Result<Client> {
    let mut options = bandog_redis::RedisOptions::from_url(url)?;
    if let Some(timeout) = timeout {
        options = options.timeout(timeout);
    }
    client.over(bandog_redis::Redis::new(options)?)
}

#[cfg(not(feature = "redis"))]
fn redis(_: ClientOptions, _: &str, _: Option<Duration>) -> Result<Client> {
    Err(not_compiled_in("redis"))
}

#[cfg(feature = "sqlite")]
fn sqlite(client: ClientOptions, place: &str, timeout: Option<Duration>, must_exist: bool) -> Result<Client> {
    let mut options = bandog_sqlite::SqliteOptions::at(crate::file::path(place)?);
    if let Some(timeout) = timeout {
        options = options.timeout(timeout);
    }
    if must_exist {
        options = options.must_exist();
    }
    client.over(bandog_sqlite::Sqlite::new(options)?)
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: ClientOptions, _: &str, _: Option<Duration>, _: bool) -> Result<Client> {
    Err(not_compiled_in("sqlite"))
}

#[cfg_attr(all(feature = "redis", feature = "sqlite"), expect(dead_code, reason = "everything is compiled in"))]
fn not_compiled_in(feature: &str) -> Error {
    let message = format!("this program was built without bandog's feature {feature:?}; add it in Cargo.toml");
    Error::new(ErrorKind::Unsupported, message)
}
