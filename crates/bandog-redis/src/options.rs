//! The address of the server, the login, the timeout, and the format of the data.

mod address_map;
mod format;
mod sentinels;
mod url;

use std::{fmt, net::IpAddr, path::PathBuf, time::Duration};

use bandog_core::Result;
use bandog_net::{CredentialsSource, Login};
use bandog_tls::OptionNames;
pub(crate) use bandog_tls::TlsFiles;

pub(crate) use self::address_map::AddressMap;
pub(crate) use self::format::Format;
pub use self::format::{Layout, Semaphores};
pub(crate) use self::sentinels::{Host, Sentinels};

/// The address of a Redis server, the login, the timeout, and the format of the data.
///
/// ```
/// use std::time::Duration;
/// use bandog_redis::RedisOptions;
/// let options = RedisOptions::from_url("redis://app:secret@cache:6380/2")?.timeout(Duration::from_secs(1));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    /// The address of the server. For a cluster, it is the address of the first node in the URL.
    pub(crate) address: Address,
    /// The hosts and ports of the nodes of a cluster that the URL names. Empty for a single server.
    pub(crate) nodes: Vec<(String, u16)>,
    /// The number of the database.
    pub(crate) db: u16,
    pub(crate) login: Login,
    /// The timeout of one request.
    pub(crate) timeout: Duration,
    pub(crate) format: Format,
    /// The store, for messages. None if the address shows it.
    pub(crate) shown_as: Option<String>,
    /// Whether the address is the one of a sentinel.
    pub(crate) is_sentinel: bool,
    /// Number of replicas that must acknowledge each grant and each renewal.
    pub(crate) replicas: u8,
    /// The addresses at which servers are reached whose cluster or sentinels name others.
    pub(crate) address_map: AddressMap,
    /// The address of the server, as its cluster or its sentinels name it. None if the URL names the server.
    pub(crate) named: Option<Host>,
}

/// The address of the server, or the way to find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp {
        host: String,
        port: u16,
    },
    Tls {
        host: String,
        port: u16,
        files: TlsFiles,
    },
    Unix {
        path: PathBuf,
    },
    /// The sentinels name the server before each connection attempt.
    Sentinels(Sentinels),
}

/// The options of a URL for TLS.
pub(crate) const TLS_NAMES: OptionNames = OptionNames { ca: "ca", cert: "cert", key: "key", without_tls: "redis://" };

impl RedisOptions {
    /// Reads a URL of one of these forms:
    ///
    /// - `redis://[user:password@]host[:port][/db]`;
    /// - `rediss://[user:password@]host[:port][/db][?ca=PATH][&cert=PATH&key=PATH]`: over TLS;
    /// - `redis+unix://[user:password@]/PATH[?db=N]`: over a Unix socket;
    /// - `redis+cluster://[user:password@]host[:port][,host[:port]…]`: the nodes of a Redis Cluster. One of them is
    ///   enough; the others are found. All nodes have the same users;
    /// - `rediss+cluster://[user:password@]host[:port][,host[:port]…][?ca=PATH][&cert=PATH&key=PATH]`: the same over TLS.
    /// - `redis+sentinel://[user:password@]host[:port][,host[:port]…]/MASTER[/db]`: the master that these sentinels name,
    ///   and its successor after a failover. `rediss+sentinel://` connects to the sentinels and to the master over TLS, with
    ///   the options of `rediss://`. The options `sentinel_user` and `sentinel_password` are the login at the sentinels;
    ///   the user and the password before the hosts are the login at the master.
    ///
    /// A URL of a cluster or of sentinels accepts `?address_map=INNER:PORT>OUTER:PORT`, with commas between several pairs:
    /// a server that is named by the first address is reached at the second one, and its certificate must be valid for that.
    ///
    /// Each form also accepts `?layout=redisson` or `?layout=setnx` ([`Layout`]), and `?semaphores=leased` or
    /// `?semaphores=plain` ([`Semaphores`]).
    ///
    /// The host defaults to `localhost`, the port to 6379 (of a sentinel: 26379) and the database to 0. User, password and paths are
    /// percent-decoded. If the URL has a user and no password, the password is empty.
    ///
    /// `?password_file=PATH` names a file with the password, which is read for each new connection; `sentinel_password_file`
    /// is the same for the sentinels. One line end at the end of the file is no part of the password.
    ///
    /// Over TLS, the server's certificate must be valid for the host. It must be signed by an authority in the file
    /// `ca` or, without `ca`, by an authority that the system trusts. If the server asks for a client certificate, the
    /// client sends the certificate in `cert`. The files have PEM format, and are read at each connection attempt.
    ///
    /// # Errors
    /// Any other text is refused with `ErrorKind::Misused`. The message names the wrong part, and never contains a
    /// password.
    pub fn from_url(url: &str) -> Result<Self> {
        let url = bandog_core::url_text(url)?;
        url::read(url)
    }

    /// Sets the timeout of one request. It must be between 1 ms and one day. The default is 3 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the time by which the clocks of Java clients may be ahead of the server's clock. The default is 2 s.
    ///
    /// Java clients compare the end of a semaphore's permits with their own clocks. So the permits of a claim stay in the
    /// store for this time after the claim's ttl, and no Java client takes them too early. If a holder dies, its permits
    /// are free this much later. Other kinds of locks do not use this time.
    #[must_use]
    pub fn java_skew(self, skew: Duration) -> Self {
        Self { format: Format { java_skew: skew, ..self.format }, ..self }
    }

    /// Sets the number of replicas that must acknowledge each grant and each renewal. The default is 0.
    ///
    /// A grant is answered when this number of replicas has acknowledged it, so it takes longer by the replication lag.
    /// If one of these replicas takes over, it has the lock. Without the acknowledgements, the grant fails with
    /// `ErrorKind::NotReplicated`, and the lock is released. A renewal without them counts as a renewal without an
    /// answer. Refusals and releases do not wait for replicas. Records and latches are not covered.
    ///
    /// The user needs the rights to run `PEXPIRE`, `SET`, `WAIT` and `INFO`, and the right for the key `bandog:ack`, which
    /// has a ttl. A lock must not have this name.
    ///
    /// ```
    /// use bandog_redis::{Redis, RedisOptions};
    /// let redis = Redis::new(RedisOptions::from_url("redis://cache")?.replicas(1))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn replicas(self, replicas: u8) -> Self {
        Self { replicas, ..self }
    }

    /// Sets the function that gives the credentials of each new connection, instead of the password of the URL. The login at
    /// sentinels stays the one of the URL.
    #[must_use]
    pub fn credentials(self, source: CredentialsSource) -> Self {
        Self { login: self.login.given_by(source), ..self }
    }

    /// Sets the layout of mutexes. The default is [`Layout::Redisson`].
    #[must_use]
    pub fn layout(self, layout: Layout) -> Self {
        Self { format: Format { layout, ..self.format }, ..self }
    }

    /// Sets the layout of semaphores. The default is [`Semaphores::Leased`].
    #[must_use]
    pub fn semaphores(self, semaphores: Semaphores) -> Self {
        Self { format: Format { semaphores, ..self.format }, ..self }
    }

    /// The same options with another address.
    pub(crate) fn at(self, address: Address) -> Self {
        Self { address, shown_as: None, ..self }
    }

    /// Whether the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp { host, .. } | Address::Tls { host, .. } => is_loopback(host),
            Address::Unix { .. } => true,
            Address::Sentinels(sentinels) => sentinels.hosts.iter().all(|host| is_loopback(&host.name)),
        }
    }

    /// Whether the connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        match &self.address {
            Address::Tls { .. } => true,
            Address::Sentinels(sentinels) => sentinels.tls.is_some(),
            Address::Tcp { .. } | Address::Unix { .. } => false,
        }
    }

    /// The scheme of a URL of this kind, with or without TLS, for messages.
    pub(crate) fn scheme(&self, has_tls: bool) -> &'static str {
        // The master and the sentinels are shown as a whole.
        match (self.shown_as.is_some(), self.format.in_cluster, has_tls) {
            (true, _, true) => "rediss+sentinel",
            (true, _, false) => "redis+sentinel",
            (false, true, true) => "rediss+cluster",
            (false, true, false) => "redis+cluster",
            (false, false, true) => "rediss",
            (false, false, false) => "redis",
        }
    }

    /// The hosts and ports of the nodes that the URL names.
    pub(crate) fn endpoints(&self) -> Vec<(String, u16)> {
        self.nodes.clone()
    }

    /// The options of a connection to one node of the cluster.
    pub(crate) fn of_node(&self, endpoint: &(String, u16), sharded: bool) -> Self {
        let (name, port) = endpoint.clone();
        let options = self.of_named(&Host { name, port });
        let named = options.named.filter(|_| !self.nodes.contains(endpoint));
        Self { nodes: Vec::new(), named, format: Format { sharded, ..self.format }, ..options }
    }

    /// The address without user and password: `redis://host:port/db`, and the format of the data if it is not the
    /// default. Clients with different formats do not see each other's locks, so each format is a store of its own.
    pub(crate) fn store(&self) -> String {
        if !self.nodes.is_empty() {
            let scheme = if matches!(self.address, Address::Tls { .. }) { "rediss" } else { "redis" };
            let nodes: Vec<_> = self.nodes.iter().map(|(host, port)| authority(host, *port)).collect();
            return format!("{scheme}+cluster://{}{}", nodes.join(","), self.format.query('?'));
        }
        if let Some(shown) = &self.shown_as {
            return shown.clone();
        }
        let db = self.db;
        let (scheme, host, port) = match &self.address {
            Address::Tcp { host, port } => ("redis", host, port),
            Address::Tls { host, port, .. } => ("rediss", host, port),
            Address::Unix { path } => {
                return format!("redis+unix://{}?db={db}{}", path.display(), self.format.query('&'));
            }
            Address::Sentinels(sentinels) => return format!("{sentinels}/{db}{}", self.format.query('?')),
        };
        let format = self.format.query('?');
        format!("{scheme}://{}/{db}{format}", authority(host, *port))
    }
}

/// `host:port`, with brackets around an IPv6 address.
fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("store", &self.store())
            .field("login", &self.login)
            .field("timeout", &self.timeout)
            .field("replicas", &self.replicas)
            .finish()
    }
}

#[cfg(test)]
mod tests;

/// Whether this host is this machine.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
