//! The sentinels of a URL.

use std::fmt;

use bandog_net::Login;
use bandog_net::tls::TlsFiles;

use super::host::Host;

/// The sentinels that name the master.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// The sentinels of the URL.
    pub(crate) hosts: Vec<Host>,
    /// The name of the master.
    pub(crate) master: String,
    /// The files for TLS with the sentinels and with the master. None without TLS.
    pub(crate) tls: Option<TlsFiles>,
    /// The login at the sentinels.
    pub(crate) login: Login,
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
