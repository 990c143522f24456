//! The sentinels of a URL.

use std::{fmt, sync::Arc};

use bandog_net::Login;

use super::{Address, RedisOptions, TlsFiles};
use crate::sentinels::Discovery;

/// A host and a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// A name or an IP address. An IPv6 address has no brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// The sentinels that name the master.
#[derive(Clone)]
pub(crate) struct Sentinels {
    /// The sentinels of the URL.
    pub(crate) hosts: Vec<Host>,
    /// The name of the master.
    pub(crate) master: String,
    /// The files for TLS with the sentinels and with the master. None without TLS.
    pub(crate) tls: Option<TlsFiles>,
    /// The login at the sentinels.
    pub(crate) login: Login,
    /// What the sentinels have said. All connections of a backend share it.
    pub(crate) discovery: Arc<Discovery>,
}

impl RedisOptions {
    /// The options of a new backend. Its sentinels are asked with these options, until its last copy of them is dropped.
    /// The options of the caller may live longer.
    pub(crate) fn of_backend(self) -> Self {
        let Address::Sentinels(sentinels) = &self.address else { return self };
        let discovery = Arc::new(Discovery::new(sentinels.hosts.clone()));
        Self { address: Address::Sentinels(Sentinels { discovery, ..sentinels.clone() }), ..self }
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
}

impl Address {
    /// The address of another server, with the encryption of this one.
    pub(crate) fn of_other(&self, host: String, port: u16) -> Self {
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

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// The URL without logins, database and options.
impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let hosts: Vec<_> = self.hosts.iter().map(Host::to_string).collect();
        write!(f, "{scheme}+sentinel://{}/{}", hosts.join(","), self.master)
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sentinels({self})")
    }
}

/// What the sentinels have said is no part of the address.
impl PartialEq for Sentinels {
    fn eq(&self, other: &Self) -> bool {
        let parts = |one: &Self| (one.to_string(), one.tls.clone(), one.login.clone());
        parts(self) == parts(other)
    }
}

impl Eq for Sentinels {}
