//! The addresses of the servers, the login and the timeout.

mod address_map;
mod host;
mod sentinels;
mod url;

use std::{fmt, net::IpAddr, path::PathBuf, time::Duration};

use bandog_core::{Error, Result};
use bandog_net::tls::OptionNames;
pub(crate) use bandog_net::tls::TlsFiles;
use bandog_net::{CredentialsSource, Login};

pub use self::url::FurtherOptions;
pub(crate) use self::{address_map::AddressMap, host::Host, sentinels::Sentinels};

/// The addresses of the servers of one store, the login and the timeout.
#[derive(Clone)]
pub struct Options {
    /// The address of the server. For a cluster, it is the address of the first node in the URL.
    pub(crate) address: Address,
    /// The nodes of a cluster that the URL names. Empty for a single server, and for the connection to one node.
    pub(crate) nodes: Vec<Host>,
    /// Whether the server is a node of a cluster.
    pub(crate) in_cluster: bool,
    /// Whether messages are published on sharded channels. Only a cluster of Redis 7 or newer does so.
    pub(crate) sharded: bool,
    /// The number of the database.
    pub(crate) db: u16,
    pub(crate) login: Login,
    /// The timeout of one request.
    pub(crate) timeout: Duration,
    /// Options of the URL that make its data another store. Empty for the default.
    suffix: String,
    /// The store, for messages. None if the address shows it.
    shown_as: Option<String>,
    /// Whether the address is the one of a sentinel.
    pub(crate) is_sentinel: bool,
    /// Number of replicas that must acknowledge a write.
    pub(crate) replicas: u8,
    /// The addresses at which servers are reached whose cluster or sentinels name others.
    address_map: AddressMap,
    /// The address of the server, as its cluster or its sentinels name it. None if the URL names the server.
    named: Option<Host>,
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

/// Minimum timeout of a request.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
/// Maximum timeout of a request.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

impl Options {
    /// The same options with this timeout of one request. The default is 3 s.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The same options with this number of replicas that must acknowledge a write. The default is 0.
    #[must_use]
    pub fn with_replicas(self, replicas: u8) -> Self {
        Self { replicas, ..self }
    }

    /// The same options, with the credentials that this function gives for each new connection instead of the password
    /// of the URL. The login at sentinels stays the one of the URL.
    #[must_use]
    pub fn with_credentials(self, source: CredentialsSource) -> Self {
        Self { login: self.login.given_by(source), ..self }
    }

    /// The same options for data that are another store. Messages show these options of the URL, such as `layout=setnx`.
    #[must_use]
    pub fn with_suffix(self, suffix: &str) -> Self {
        Self { suffix: suffix.to_owned(), ..self }
    }

    /// Checks the timeout.
    ///
    /// # Errors
    /// `Misused`: it is not between 1 ms and one day.
    pub fn check(&self) -> Result<()> {
        if (MIN_TIMEOUT..=MAX_TIMEOUT).contains(&self.timeout) {
            return Ok(());
        }
        Err(Error::misused(format!("the timeout is {:?}; it must be between 1 ms and 1 day", self.timeout)))
    }

    /// The timeout of one request.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Number of replicas that must acknowledge a write.
    pub fn replicas(&self) -> u8 {
        self.replicas
    }

    /// Whether the URL names the nodes of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Whether sentinels name the server.
    pub fn has_sentinels(&self) -> bool {
        matches!(self.address, Address::Sentinels(_))
    }

    /// The user of the URL.
    pub fn user(&self) -> Option<&str> {
        self.login.user()
    }

    /// Whether connections log in with a password.
    pub fn has_password(&self) -> bool {
        self.login.has_password()
    }

    /// Whether the server is on this machine.
    pub fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp { host, .. } | Address::Tls { host, .. } => is_loopback(host),
            Address::Unix { .. } => true,
            Address::Sentinels(sentinels) => sentinels.hosts.iter().all(|host| is_loopback(&host.name)),
        }
    }

    /// Whether the connections are encrypted.
    pub fn is_encrypted(&self) -> bool {
        match &self.address {
            Address::Tls { .. } => true,
            Address::Sentinels(sentinels) => sentinels.tls.is_some(),
            Address::Tcp { .. } | Address::Unix { .. } => false,
        }
    }

    /// The address without user and password: `redis://host:port/db`, and the options that make the data another store.
    pub fn store(&self) -> String {
        if let Some(shown) = &self.shown_as {
            return shown.clone();
        }
        let suffix = |sign| if self.suffix.is_empty() { String::new() } else { format!("{sign}{}", self.suffix) };
        let shown = |scheme, host: &str, port: &u16| {
            let host = Host { name: host.to_owned(), port: *port };
            format!("{scheme}://{host}/{}{}", self.db, suffix('?'))
        };
        if !self.nodes.is_empty() {
            let nodes: Vec<_> = self.nodes.iter().map(Host::to_string).collect();
            return format!("{}://{}{}", self.scheme(self.is_encrypted()), nodes.join(","), suffix('?'));
        }
        match &self.address {
            Address::Tcp { host, port } => shown("redis", host, port),
            Address::Tls { host, port, .. } => shown("rediss", host, port),
            Address::Unix { path } => format!("redis+unix://{}?db={}{}", path.display(), self.db, suffix('&')),
            Address::Sentinels(sentinels) => format!("{sentinels}/{}{}", self.db, suffix('?')),
        }
    }

    /// The scheme of a URL of this kind, with or without TLS, for messages.
    pub fn scheme(&self, has_tls: bool) -> &'static str {
        // The master and the sentinels are shown as a whole.
        match (self.shown_as.is_some(), self.in_cluster, has_tls) {
            (true, _, true) => "rediss+sentinel",
            (true, _, false) => "redis+sentinel",
            (false, true, true) => "rediss+cluster",
            (false, true, false) => "redis+cluster",
            (false, false, true) => "rediss",
            (false, false, false) => "redis",
        }
    }

    /// The options of a connection to one node of the cluster.
    pub(crate) fn of_node(&self, node: &Host, sharded: bool) -> Self {
        let options = self.of_named(node);
        let named = options.named.filter(|_| !self.nodes.contains(node));
        Self { nodes: Vec::new(), named, sharded, ..options }
    }

    /// The options of a replica at this host. None if the server has no address in the network.
    pub(crate) fn of_replica(&self, host: &Host) -> Option<Self> {
        if matches!(self.address, Address::Unix { .. }) {
            return None;
        }
        let address = self.address.of_other(host.name.clone(), host.port);
        Some(Self { address, shown_as: None, ..self.clone() })
    }

    /// The options of the master at this host. Messages show the URL of the sentinels.
    pub(crate) fn master_at(&self, host: &Host) -> Self {
        Self { shown_as: Some(self.store()), ..self.of_named(host) }
    }

    /// The options of the sentinel at this host.
    pub(crate) fn sentinel_at(&self, sentinels: &Sentinels, host: &Host) -> Self {
        Self { db: 0, login: sentinels.login.clone(), ..self.clone() }.other_sentinel(host)
    }

    /// The options of another sentinel, from those of one sentinel.
    pub(crate) fn other_sentinel(&self, host: &Host) -> Self {
        let shown_as = Some(format!("the sentinel {host}"));
        // The URL can name the sentinel. The message has its address in any case.
        Self { shown_as, named: None, is_sentinel: true, ..self.of_named(host) }
    }

    /// The options of another server, from those of the cluster or of the sentinels that name it. The connection uses the
    /// address of the map.
    fn of_named(&self, host: &Host) -> Self {
        let Host { name, port } = self.address_map.reached(host).clone();
        let address = self.address.of_other(name, port);
        Self { address, named: Some(host.clone()), ..self.clone() }
    }

    /// For the error of a server that cannot be reached: the address that a cluster or a sentinel has named. Empty if the
    /// URL names the server.
    pub(crate) fn address_hint(&self) -> String {
        let namer = if self.in_cluster { "the cluster" } else { "a sentinel" };
        self.named.as_ref().map(|named| self.address_map.hint(named, namer)).unwrap_or_default()
    }
}

impl Address {
    /// The address of another server, with the encryption of this one.
    fn of_other(&self, host: String, port: u16) -> Self {
        let files = match self {
            Self::Tls { files, .. } => Some(files),
            Self::Sentinels(sentinels) => sentinels.tls.as_ref(),
            Self::Tcp { .. } | Self::Unix { .. } => None,
        };
        match files.cloned() {
            Some(files) => Self::Tls { host, port, files },
            None => Self::Tcp { host, port },
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("store", &self.store())
            // The user might be a password that was written in the wrong place.
            .field("login", &self.login.has_password().then(|| self.login.blamed()))
            .field("timeout", &self.timeout)
            .field("replicas", &self.replicas)
            .finish()
    }
}

/// Whether this host is this machine.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
pub(crate) mod tests;
