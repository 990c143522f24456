//! The options of the backend.

mod dialect;
mod familiar;
mod layout;
mod names;
mod query;
mod url;

use std::{fmt, iter, path::PathBuf, time::Duration};

use bandog_net::tls::OptionNames;
pub(crate) use bandog_net::tls::TlsFiles;
use bandog_net::{CredentialsSource, Login};

pub(crate) use self::{
    dialect::Dialect,
    layout::{Layout, RowTable, SessionZone, TableName},
};

/// The options of a [`Sql`](crate::Sql) backend.
///
/// ```
/// use bandog_sql::SqlOptions;
/// let options = SqlOptions::from_url("postgres://locks:secret@db:5433/shop?schema=shop_locks")?;
/// assert_eq!(options.store(), "postgres://db:5433/shop?schema=shop_locks");
/// # Ok::<(), bandog_core::Error>(())
/// ```
#[derive(Clone)]
pub struct SqlOptions {
    pub(crate) dialect: Dialect,
    /// The address of the server. If the URL names several hosts, that of the first one.
    pub(crate) address: Address,
    /// The hosts after the first one, in the order of the URL. They are servers of one cluster.
    pub(crate) further_hosts: Vec<(String, u16)>,
    /// The number of hosts that share the time of one connection attempt.
    pub(crate) attempts: u32,
    pub(crate) login: Login,
    pub(crate) database: String,
    pub(crate) schema: String,
    /// The beginning of the names of the tables.
    pub(crate) tables: String,
    pub(crate) layout: Layout,
    /// The time zone of the sessions of ShedLock, for a table whose times depend on it.
    pub(crate) session_zone: Option<SessionZone>,
    /// Maximum number of sessions that hold locks of the database.
    pub(crate) connections: usize,
    /// Whether the client creates the tables if they do not exist.
    pub(crate) creates_tables: bool,
    /// Whether a pooler in the mode `session` may be between the client and the server.
    pub(crate) may_have_pooler: bool,
    /// The name of the sessions, which the lists of the server show.
    pub(crate) application: String,
    /// Settings for the start of each session, as `-c name=value`. Only PostgreSQL has them.
    pub(crate) startup: Option<String>,
    pub(crate) timeout: Duration,
}

/// The address of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp {
        host: String,
        port: u16,
        tls: Tls,
    },
    /// The socket of a server on this machine.
    Unix {
        path: PathBuf,
    },
}

/// How the connections to a server are encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tls {
    Off,
    /// If the server has TLS. The certificate of the server is not checked, so only readers of the network are kept out.
    Preferred,
    /// The certificate of the server is checked.
    Checked(TlsFiles),
}

/// The options of a URL for TLS.
pub(crate) const TLS_NAMES: OptionNames =
    OptionNames { ca: "sslrootcert", cert: "sslcert", key: "sslkey", without_tls: "sslmode=disable" };

impl SqlOptions {
    /// The schema of the tables, unless the URL names another one.
    pub const SCHEMA: &str = "bandog";

    /// Maximum number of connections that do not hold locks of the database.
    pub(crate) const CONNECTIONS: usize = 4;

    /// The beginning of the names of the tables, unless the URL names another one.
    pub const TABLES: &str = "bandog_";

    /// The name of the sessions, unless the URL names another one.
    pub const APPLICATION: &str = "bandog";

    /// Sets the maximum duration of one request. The default is 3 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the function that gives the credentials of each new connection, instead of the password of the URL.
    #[must_use]
    pub fn credentials(self, source: CredentialsSource) -> Self {
        Self { login: self.login.given_by(source), ..self }
    }

    /// The user of the URL.
    pub(crate) fn user(&self) -> &str {
        self.login.user().unwrap_or_default()
    }

    /// Whether connections are encrypted only if the server has TLS.
    #[cfg(feature = "mysql")]
    pub(crate) fn prefers_tls(&self) -> bool {
        matches!(&self.address, Address::Tcp { tls: Tls::Preferred, .. })
    }

    /// The options for each host of the URL.
    pub(crate) fn hosts(&self) -> Vec<Self> {
        let Address::Tcp { tls, .. } = &self.address else { return vec![self.clone()] };
        let first = self.address.clone();
        let further = self.further_hosts.iter().cloned();
        let further = further.map(|(host, port)| Address::Tcp { host, port, tls: tls.clone() });
        iter::once(first).chain(further).map(|address| self.at(address)).collect()
    }

    /// The options for one of the hosts.
    pub(crate) fn at(&self, address: Address) -> Self {
        let attempts = u32::try_from(self.further_hosts.len() + 1).unwrap_or(u32::MAX);
        Self { address, further_hosts: Vec::new(), attempts, ..self.clone() }
    }

    /// Maximum number of connections of a client.
    pub(crate) fn needed_connections(&self) -> usize {
        let held = match self.layout {
            Layout::Leases | Layout::ShedLock(_) => 0,
            Layout::RowLock(_) | Layout::Advisory => self.connections,
        };
        Self::CONNECTIONS + held
    }

    /// The table of other programs, as statements name it.
    pub(crate) fn shared_table(&self) -> Option<String> {
        match &self.layout {
            Layout::Leases | Layout::Advisory => None,
            Layout::ShedLock(table) | Layout::RowLock(RowTable { table, .. }) => Some(self.dialect.quoted(table)),
        }
    }

    /// The tables of bandog, and the name of the first column of each.
    pub(crate) fn own_tables(&self) -> impl Iterator<Item = (String, &'static str)> {
        const TABLES: [(&str, &str); 6] = [
            ("meta", "name"),
            ("fence", "name"),
            ("lease", "name"),
            ("record", "name"),
            ("line", "name"),
            ("client", "id"),
        ];
        let further = match self.dialect {
            Dialect::Postgres => None,
            #[cfg(feature = "mysql")]
            Dialect::MySql => Some(("channel", "name")),
        };
        TABLES.into_iter().chain(further).map(|(table, column)| (format!("{}{table}", self.tables), column))
    }

    /// The address of the store, without user and password.
    pub fn store(&self) -> String {
        let (place, mut options) = match &self.address {
            Address::Tcp { host, port, .. } => {
                let further = self.further_hosts.iter().map(|(host, port)| (host, port));
                let places: Vec<_> = iter::once((host, port)).chain(further).map(place_of).collect();
                (places.join(","), Vec::new())
            }
            Address::Unix { path } => (String::new(), vec![self.dialect.socket(path)]),
        };
        if self.dialect == Dialect::Postgres && self.schema != Self::SCHEMA {
            options.push(format!("schema={}", self.schema));
        }
        if self.tables != Self::TABLES {
            options.push(format!("tables={}", self.tables));
        }
        options.extend(self.layout.option());
        let sign = if options.is_empty() { "" } else { "?" };
        format!("{}://{place}/{}{sign}{}", self.dialect.scheme(), self.database, options.join("&"))
    }
}

/// A host and its port, as URLs write them.
fn place_of((host, port): (&String, &u16)) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Debug for SqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlOptions")
            .field("store", &self.store())
            .field("login", &self.login)
            .field("timeout", &self.timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests;
