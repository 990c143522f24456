//! The options of the backend.

mod familiar;
mod layout;
mod url;

use std::{
    fmt, iter,
    path::{Path, PathBuf},
    time::Duration,
};

use bandog_core::Result;
use bandog_net::{CredentialsSource, Login};
use bandog_tls::OptionNames;
pub(crate) use bandog_tls::TlsFiles;

pub(crate) use self::layout::{Layout, RowTable, SessionZone, TableName};
use crate::schema;

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

/// The kind of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Postgres,
    /// MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql,
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

    /// Reads a URL: `postgres://user:password@host:5432/database`. The port is 5432 and the database has the name of the
    /// user, unless the URL names them. Characters with a meaning in URLs are percent-encoded.
    ///
    /// - `?schema=NAME`: the schema of the tables; the default is `bandog`. It is created if it does not exist.
    /// - `?tables=PREFIX`: the beginning of the names of the tables; the default is `bandog_`.
    /// - `?create=false`: the tables must exist. Then the user needs no right to create them. See
    ///   [`SqlOptions::schema_sql`].
    /// - `?pooler=session`: a pooler, such as PgBouncer, is between the client and the server, and is in the mode
    ///   `session`. Without this option, a pooler is refused.
    /// - `?layout=shedlock`, and perhaps `&table=NAME` (the default is `shedlock`): mutexes are rows of the table of ShedLock,
    ///   a Java library. Jobs under ShedLock and these mutexes exclude each other. There are no other kinds of locks. The
    ///   table must exist, and ShedLock must use the time of the database (`usingDbTime()`).
    ///   A table whose times depend on the time zone of a session (`timestamptz`, and on MySQL `timestamp`) is refused, unless
    ///   `&session_zone=ZONE` names the zone of the sessions of ShedLock: `Area/City`, `UTC`, or an offset such as `+08:00`.
    /// - `?mode=rowlock&table=NAME&column=NAME`: while a client holds a mutex, a transaction of the database has also locked the
    ///   row of this name with `select … for update`. Programs that lock the same row exclude the mutex. There are no other
    ///   kinds of locks. `?connections=NUMBER` is the maximum number of locks that a client holds at once; the default is 10.
    /// - `?mode=advisory`, and perhaps `&connections=NUMBER`: the same with `pg_advisory_lock`, and on MySQL with `GET_LOCK`.
    /// - `?host=/DIRECTORY`, with no host before it: the Unix socket in this directory.
    /// - `?sslmode=disable` (the default), `prefer`, `require` or `verify-full`: the last two are the same here, and the client
    ///   checks the certificate of the server. With `prefer`, the connection is encrypted if the server has TLS, and the
    ///   certificate is not checked. `allow` is the same as `prefer`.
    /// - `?sslrootcert=PATH`: the authorities that the client trusts instead of those of the system. `?sslcert=PATH` and
    ///   `?sslkey=PATH`: the certificate of the client. All files are PEM.
    ///
    /// - `postgres://user@one:5432,two:5432/database`: servers of **one** cluster, of which one is the primary. A connection
    ///   attempt tries them in this order, each for an equal share of its time, and uses the first one that answers and accepts
    ///   writes. A host whose tables are not those that the client has used is refused with `Unavailable`.
    /// - `?application_name=NAME`: the name of the sessions in `pg_stat_activity`; the default is `bandog`. `?options=-c%20NAME=VALUE`:
    ///   settings for the start of each session, as in libpq.
    /// - `?user=NAME` and `?password=PASSWORD`, if the URL names no user before its host. `?target_session_attrs=read-write` and
    ///   `?channel_binding=prefer` are accepted. Options of pools and drivers, such as `connect_timeout` or `connection_limit`, are
    ///   accepted and have no effect.
    ///
    /// With the feature `mysql`: `mysql://user:password@host:3306/database`, or `mariadb://`. The tables are in this
    /// database, which must exist. The options for tables and TLS are the same. `?socket=/PATH`, with no host before it: the Unix
    /// socket.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Misused`](bandog_core::ErrorKind::Misused). No message contains the password.
    pub fn from_url(url: &str) -> Result<Self> {
        let url = bandog_core::url_text(url)?;
        url::read(url)
    }

    /// The names of the options that [`SqlOptions::from_url`] accepts in URLs with this scheme. Of an unknown scheme, there are
    /// none.
    ///
    /// ```
    /// assert!(bandog_sql::SqlOptions::option_names("postgres").any(|name| name == "connect_timeout"));
    /// ```
    pub fn option_names(scheme: &str) -> impl Iterator<Item = &'static str> {
        url::option_names(scheme)
    }

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

    /// The statements that create the tables. An administrator executes them once. On PostgreSQL, they also create the
    /// schema, and grant the needed rights to the user of the URL. Afterwards, the client with `?create=false` needs no
    /// further rights.
    ///
    /// ```
    /// use bandog_sql::SqlOptions;
    /// let options = SqlOptions::from_url("postgres://locks@db/shop?schema=shop_locks")?;
    /// assert!(options.schema_sql().contains("create schema if not exists \"shop_locks\";"));
    /// # Ok::<(), bandog_core::Error>(())
    /// ```
    pub fn schema_sql(&self) -> String {
        schema::text(self)
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

impl Dialect {
    fn scheme(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            #[cfg(feature = "mysql")]
            Self::MySql => "mysql",
        }
    }

    /// The server, in words.
    pub(crate) fn server(self) -> &'static str {
        match self {
            Self::Postgres => "a PostgreSQL server",
            #[cfg(feature = "mysql")]
            Self::MySql => "a server of MySQL or MariaDB",
        }
    }

    /// What contains the tables.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Self::Postgres => "the schema",
            #[cfg(feature = "mysql")]
            Self::MySql => "the database",
        }
    }

    /// The option of the URL that names this socket.
    fn socket(self, path: &Path) -> String {
        match self {
            Self::Postgres => format!("host={}", path.parent().unwrap_or(path).display()),
            #[cfg(feature = "mysql")]
            Self::MySql => format!("socket={}", path.display()),
        }
    }
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
