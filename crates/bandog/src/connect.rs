//! Makes a client from a URL.

use std::{error::Error as StdError, fmt, time::Duration};

use bandog_core::{Error, ErrorKind, MAX_TTL, Result};
use bandog_net::{Credentials, CredentialsSource};
use bandog_sync::{Client, ClientOptions};

use crate::{
    blocking, paused,
    store::StoreOptions,
    url::{Parts, Scheme, redact},
};

/// Connects to the store that the URL names, waits for its first answer, and returns a client for the store.
///
/// - `redis://user:password@host:6379/0`: one Redis server. The keys have the format of Redisson.
/// - `rediss://user:password@host:6379/0`: the same over TLS. By default, the client trusts the authorities that the
///   system trusts. With `?ca=PATH`, the client trusts the authorities in a file instead. With `?cert=PATH&key=PATH`,
///   the client sends a certificate to the server. All files are PEM.
/// - `redis+unix://user:password@/run/redis.sock?db=0`: the same over a Unix socket.
/// - `redis+cluster://user:password@host:6379,host:6379`: a Redis Cluster. One reachable node is enough; the others are
///   found. `rediss+cluster://` is the same over TLS. With `?address_map=10.0.0.1:7000>cache-1:17000`, and commas between
///   several pairs, a node that the cluster names by the first address is reached at the second one (also of sentinels).
/// - `redis+sentinel://user:password@host1:26379,host2:26379,host3:26379/MASTER/0`: the master that these sentinels name,
///   and its successor after a failover. With `?sentinel_password=PASSWORD`, and optionally `?sentinel_user=USER`, the
///   client logs in to the sentinels. `rediss+sentinel://` is the same over TLS, with the options of `rediss://`.
/// - `redis+quorum://user:password@host1:6379,host2:6379,host3:6379/0`: a majority of several independent Redis servers.
///   The URL names three or more servers, and all clients must name the same ones. There are mutexes and read-write locks.
///   `rediss+quorum://` is the same over TLS, with the options of `rediss://`.
/// - `valkey` instead of `redis`, and `valkeys` instead of `rediss`: the same for Valkey.
/// - `postgres://user:password@host:5432/database`: a PostgreSQL database (feature `postgres`), also written `postgresql`.
///   `?schema=NAME` is the schema of the tables; the default is `bandog`. `?tables=PREFIX` is the beginning of their names; the
///   default is `bandog_`. With `?create=false`, the client does not create the tables ([`ConnectOptions::schema_sql`]). A
///   pooler between the client and the server is refused; `?pooler=session` allows one that is in this mode.
///   The `DATABASE_URL` of a service can be used as it is. For TLS:
///   `?sslmode=verify-full`, and optionally `&sslrootcert=PATH`, `&sslcert=PATH` and `&sslkey=PATH`. For a Unix socket:
///   `postgres://user@/database?host=/DIRECTORY`.
/// - `mysql://user:password@host:3306/database`: a database of MySQL or MariaDB (feature `mysql`), also written `mariadb`.
///   The database must exist. `?tables`, `?create` and the options for TLS are those of `postgres`. For a Unix socket:
///   `mysql://user@/database?socket=/PATH`.
/// - A URL of `postgres` or `mysql` with `?layout=shedlock`, and optionally `&table=NAME`: mutexes are rows of the
///   table of ShedLock, a Java library, and exclude its jobs. There are no other kinds of locks. `&session_zone=ZONE`
///   is the time zone of the sessions of ShedLock, which is needed if the times of the table depend on it. With
///   `?mode=rowlock`, `&table=NAME` and `&column=NAME`, or with `?mode=advisory`, a mutex also locks a row, or takes an
///   advisory lock (on MySQL: `GET_LOCK`), so it excludes programs that do so by hand. `&connections=NUMBER` is the
///   maximum number of such locks.
/// - `sqlite:PATH`: one file, shared by processes of one machine (feature `sqlite`).
/// - `zookeeper://user:password@host1:2181,host2:2181/folder`: a ZooKeeper ensemble (feature `zookeeper`). The user and the
///   password are those of the scheme `digest`. The lock `orders` is the folder `/folder/orders`, with the layout of
///   Curator. There are locks of all kinds. `?session=DURATION` is the requested duration of the session; the default is
///   `10s`.
/// - `zookeeper+tls://host1:2281,host2:2281/folder`: the same over TLS (feature `zookeeper-tls`), with the options `ca`,
///   `cert` and `key` of `rediss://`.
/// - `memory:`: a new store in this process.
/// - `memory:NAME`: the store with this name in this process. All clients that use the same name share it.
///
/// White space around a URL is removed. Quotes around it, and control characters in it, are [`ErrorKind::Misused`].
///
/// Every URL accepts these options:
///
/// - `?watchdog=DURATION`: the ttl of locks without a lease, between 100 ms and 365 days; the default is `30s`. A
///   watchdog renews such a lock whenever a third of the ttl has passed. A lock with a lease is not renewed. (The
///   method `lease` of a mutex sets a lease.)
/// - `?timeout=DURATION`: the maximum duration of one request to the store; the default is `3s`.
/// - `?prefix=TEXT`: a prefix, which the client adds to every name in the store. The prefix must end in `:`. See
///   [`ClientOptions::prefix`].
///
/// A URL of a quorum also accepts `?max_ttl=DURATION`: the maximum ttl of its locks; the default is `60s`. The watchdog's
/// ttl must not exceed it (the default does not), and all clients must name the same one. A server has a vote when it has
/// run for longer than this. A third of `timeout` is the time in which a server must answer.
///
/// Each URL of Redis also accepts `?java_skew=DURATION`: the time by which the clocks of Java clients may be ahead of the
/// server's clock; the default is `2s`. Only semaphores use it. `?replicas=NUMBER` is the number of replicas that must
/// acknowledge each grant and each renewal of a lock; the default is 0. Two more options choose the format of the data:
///
/// - `?layout=setnx`: mutexes are strings that are written as with `SET NX PX`, and can be shared with hand-written locks,
///   rslock and redsync. There are no other kinds of locks. The default is `redisson`.
/// - `?semaphores=plain`: semaphores have the format of Redisson's `RSemaphore`. The permits of a Java client that dies
///   are lost forever. The default is `leased`: the format of `RPermitExpirableSemaphore`.
///
/// Each URL with a login accepts `?password_file=PATH` instead of the password, and a URL of sentinels also
/// `?sentinel_password_file=PATH`. The file is read for each new connection (on ZooKeeper: for each session), so a changed
/// password needs no restart. One line end at its end is no part of the password. An empty or missing file is an error that
/// names the path; after the first connection, it is retried as a store that is not available.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let client = bandog::connect("memory:?watchdog=10s").await?;
/// assert!(bandog::connect("mongo://localhost").await.is_err());
/// # client.close().await }
/// ```
///
/// # Errors
/// - [`ErrorKind::Misused`]: the URL is wrong, or a file that the URL names cannot be used.
/// - [`ErrorKind::Unsupported`]: the backend is not compiled in, the URL names an unsupported
///   store, or the server is of another kind or too old.
/// - [`ErrorKind::Denied`]: the server refused the user, the password or the certificate.
/// - [`ErrorKind::Unavailable`]: nothing answered within 5 s.
///
/// # Paused time
/// In a test with `#[tokio::test(start_paused = true)]`, tokio's clock jumps over each wait, and the machine's clock
/// does not. A store of `memory:` uses the machine's clock. So after a wait of hours in such a test, a lease of seconds
/// would still be valid. To avoid this, the call fails with [`ErrorKind::Misused`] in such a test. Use
/// [`testing::client()`](crate::testing::client) instead.
///
/// With Redis, PostgreSQL or SQLite, the call only logs a warning in such a test: while a call waits for the store, the timers of
/// the runtime fire immediately.
///
/// # Cancel safety
/// If the future is dropped, the client that this call has started is stopped.
pub async fn connect(url: impl AsRef<str>) -> Result<Client> {
    ConnectOptions::parse(url)?.connect().await
}

/// The options of a client. Some of them can also be set in the URL.
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
    /// The URL without its secrets.
    shown: String,
    scheme: Scheme,
    store: StoreOptions,
    /// The ttl of locks without a lease.
    ttl: Duration,
    /// The maximum duration of one request.
    timeout: Duration,
    replicas: u8,
    client: ClientOptions,
    /// Whether the client's background task runs on the current runtime.
    current_runtime: bool,
}

/// Default ttl of locks without a lease: the default of Redisson's `lockWatchdogTimeout`.
const WATCHDOG: Duration = Duration::from_secs(30);

/// Default maximum duration of one request, which is the same for all backends.
const TIMEOUT: Duration = Duration::from_secs(3);

impl ConnectOptions {
    /// Reads a URL, without I/O. White space around the URL is removed.
    ///
    /// # Errors
    /// - [`ErrorKind::Misused`]: the URL is wrong.
    /// - [`ErrorKind::Unsupported`]: the backend is not compiled in, or the URL names an unsupported store.
    pub fn parse(url: impl AsRef<str>) -> Result<Self> {
        let url = url.as_ref().trim();
        let parts = Parts::parse(url)?;
        let timeout = parts.timeout.unwrap_or(TIMEOUT);
        let store = StoreOptions::of(&parts)?.timeout(timeout);
        let ttl = parts.watchdog.unwrap_or(WATCHDOG.min(store.max_ttl()));
        let options = Self {
            shown: redact(url),
            scheme: parts.scheme,
            store,
            ttl,
            timeout,
            replicas: parts.replicas.unwrap_or(0),
            client: Client::options().watchdog(ttl).prefix(parts.prefix),
            current_runtime: false,
        };
        options.check()?;
        Ok(options)
    }

    /// Sets the ttl of locks without a lease, between 100 ms and 365 days. The default is the ttl in the URL, or 30 s
    /// if the URL has none (on a quorum, at most its `max_ttl`).
    #[must_use]
    pub fn watchdog(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self.client = self.client.watchdog(ttl);
        self
    }

    /// The ttl of locks without a lease, as set by [`ConnectOptions::watchdog`] or the URL.
    pub fn get_watchdog(&self) -> Duration {
        self.ttl
    }

    /// Sets the maximum duration of one request, between 10 ms and 365 days. The default is the timeout in the URL, or
    /// 3 s if the URL has none.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self.store = self.store.timeout(timeout);
        self
    }

    /// The maximum duration of one request, as set by [`ConnectOptions::timeout`] or the URL. The default is 3 s.
    pub fn get_timeout(&self) -> Duration {
        self.timeout
    }

    /// The number of replicas that must acknowledge each grant (`?replicas=` in the URL). The default is 0.
    pub fn get_replicas(&self) -> u8 {
        self.replicas
    }

    /// With this option, the client never creates the SQLite file. The option is for programs that only read a store.
    /// It has no effect for other stores.
    ///
    /// If the file does not exist, [`ConnectOptions::connect`] fails with [`ErrorKind::Unavailable`] after 5 s.
    /// [`ConnectOptions::connect_lazy`] succeeds, and each call of its client fails with the same error immediately.
    #[must_use]
    pub fn must_exist(mut self) -> Self {
        self.store = self.store.must_exist();
        self
    }

    /// Sets a function that gives the credentials of each new connection, such as a token that expires or a user that a vault
    /// makes. They replace the password of the URL and its `password_file`, and also the user, if they name one. It has no
    /// effect for stores without a login. At sentinels, the login of the URL stays.
    ///
    /// The function is called for each connection (on ZooKeeper: for each session), several times at the start of a client,
    /// so it should keep a token until shortly before its end. It runs on the runtime of the client: code that blocks the
    /// thread delays renewals. It has nine tenths of a connection attempt, which takes at most `timeout` and 5 s. If the
    /// server ends connections whose credentials have expired, held locks are kept if the next login succeeds before their
    /// deadline. With users that change, create the tables of SQL once, grant them to a role of all these users, and add
    /// `?create=false` to the URL.
    ///
    /// ```
    /// use bandog::{ConnectOptions, Credentials};
    ///
    /// async fn new_token(region: &str) -> std::io::Result<String> {
    ///     // Ask the provider, or return the last token if it is valid for some more minutes.
    /// #   Ok(format!("a token of {region}"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let url = "memory:";
    /// let options = ConnectOptions::parse(url)?; // such as rediss://locks@cache.example.com
    /// let options = options.credentials(async || new_token("eu-west-1").await.map(Credentials::password));
    /// let client = options.connect().await?;
    /// # client.close().await }
    /// ```
    ///
    /// # Errors
    /// If the function fails, panics or takes too long, the connection attempt fails with [`ErrorKind::Unavailable`], and is
    /// repeated as if the server did not answer.
    ///
    /// # Cancel safety
    /// If the function takes too long, or nothing needs the connection any more, its future is dropped.
    #[must_use]
    pub fn credentials<F, G, E>(mut self, give: F) -> Self
    where
        F: Fn() -> G + Send + Sync + 'static,
        G: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.store = self.store.credentials(CredentialsSource::new(give));
        self
    }

    /// The SQL text that creates the tables of the store. This is for teams whose administrators create tables. Without
    /// it, the first client creates them. On PostgreSQL, the text also grants the needed rights to the user of the URL.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`]: the store has no tables that an administrator creates.
    pub fn schema_sql(&self) -> Result<String> {
        self.store.schema_sql().ok_or_else(|| {
            let message = "this store has no tables that an administrator creates; only PostgreSQL and MySQL have";
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// See [`ClientOptions::local_turns`]. The default is 64.
    #[must_use]
    pub fn local_turns(mut self, turns: u32) -> Self {
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

    /// See [`ClientOptions::max_waiting`]. The default is 100,000.
    #[must_use]
    pub fn max_waiting(mut self, calls: usize) -> Self {
        self.client = self.client.max_waiting(calls);
        self
    }

    /// See [`ClientOptions::program`]. The default is the name of the running program.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.client = self.client.program(name);
        self
    }

    /// See [`ClientOptions::lends`].
    #[doc(hidden)]
    #[must_use]
    pub fn lends(mut self) -> Self {
        self.client = self.client.lends();
        self
    }

    /// See [`ClientOptions::prefix`]. The default is the prefix in the URL, or no prefix if the URL has none.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.client = self.client.prefix(prefix);
        self
    }

    /// Starts a client and waits for the store's first answer.
    ///
    /// # Errors
    /// The same errors as [`connect()`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the client that this call has started is stopped.
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
    /// The same errors as [`connect()`], and [`ErrorKind::Misused`] in async code and after
    /// [`ConnectOptions::on_current_runtime`].
    pub fn connect_blocking(self) -> Result<blocking::Client> {
        // Here it does not matter whether tokio's clock is paused: blocking calls wait on the caller's thread, and use
        // the machine's clock.
        let client = self.start()?.blocking()?;
        client.ready()?;
        Ok(client)
    }

    /// Starts a client without waiting for the store. The first call of the client waits for the store's first answer.
    ///
    /// # Errors
    /// - [`ErrorKind::Misused`]: a method has set a wrong value, or the clock is paused or the runtime missing.
    /// - [`ErrorKind::Unavailable`]: no thread could be started.
    pub fn connect_lazy(self) -> Result<Client> {
        paused::check(self.scheme, self.current_runtime)?;
        self.start()
    }

    fn start(self) -> Result<Client> {
        self.check()?;
        self.store.start(self.client)
    }

    /// Checks the values that the URL and the methods have set.
    fn check(&self) -> Result<()> {
        let (timeout, ttl, max_ttl) = (self.timeout, self.ttl, self.store.max_ttl());
        if !(Duration::from_millis(10)..=MAX_TTL).contains(&timeout) {
            return Err(Error::misused(format!(
                "the request timeout is {timeout:?}; it must be between 10 ms and 365 days"
            )));
        }
        self.client.check()?;
        if ttl > max_ttl {
            return Err(Error::misused(format!(
                "the watchdog's ttl is {ttl:?}; on this quorum it must be at most {max_ttl:?} (max_ttl in the URL)"
            )));
        }
        self.store.check()
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions").field("url", &self.shown).field("client", &self.client).finish()
    }
}
