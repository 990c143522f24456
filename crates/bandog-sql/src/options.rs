//! The options of the backend.

mod layout;
mod url;

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use bandog_core::Result;
use bandog_tls::OptionNames;
pub(crate) use bandog_tls::TlsFiles;

pub(crate) use self::layout::{Layout, RowTable, TableName};
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
    pub(crate) address: Address,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) schema: String,
    /// The beginning of the names of the tables.
    pub(crate) tables: String,
    pub(crate) layout: Layout,
    /// Maximum number of sessions that hold locks of the database.
    pub(crate) connections: usize,
    /// Whether the client creates the tables if they do not exist.
    pub(crate) creates_tables: bool,
    /// Whether a pooler in the mode `session` may be between the client and the server.
    pub(crate) may_have_pooler: bool,
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
        /// None for a connection without TLS.
        tls: Option<TlsFiles>,
    },
    /// The socket of a server on this machine.
    Unix { path: PathBuf },
}

/// The options of a URL for TLS.
pub(crate) const TLS_NAMES: OptionNames =
    OptionNames { ca: "sslrootcert", cert: "sslcert", key: "sslkey", without_tls: "sslmode=disable" };

impl SqlOptions {
    /// The schema of the tables, unless the URL names another one.
    pub const SCHEMA: &str = "bandog";

    /// The beginning of the names of the tables, unless the URL names another one.
    pub const TABLES: &str = "bandog_";

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
    /// - `?mode=rowlock&table=NAME&column=NAME`: while a client holds a mutex, a transaction of the database has also locked the
    ///   row of this name with `select … for update`. Programs that lock the same row exclude the mutex. There are no other
    ///   kinds of locks. `?connections=NUMBER` is the maximum number of locks that a client holds at once; the default is 10.
    /// - `?mode=advisory`, and perhaps `&connections=NUMBER`: the same with `pg_advisory_lock`, and on MySQL with `GET_LOCK`.
    /// - `?host=/DIRECTORY`, with no host before it: the Unix socket in this directory.
    /// - `?sslmode=disable` (the default), `require` or `verify-full`: the last two are the same here. The client always
    ///   checks the certificate of the server.
    /// - `?sslrootcert=PATH`: the authorities that the client trusts instead of those of the system. `?sslcert=PATH` and
    ///   `?sslkey=PATH`: the certificate of the client. All files are PEM.
    ///
    /// With the feature `mysql`: `mysql://user:password@host:3306/database`, or `mariadb://`. The tables are in this
    /// database, which must exist. The options for tables and TLS are the same. `?socket=/PATH`, with no host before it: the Unix
    /// socket.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Misused`](bandog_core::ErrorKind::Misused). No message contains the password.
    pub fn from_url(url: &str) -> Result<Self> {
        url::read(url)
    }

    /// Sets the maximum duration of one request. The default is 3 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
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

    /// The address of the store, without user and password.
    pub fn store(&self) -> String {
        let (place, mut options) = match &self.address {
            Address::Tcp { host, port, .. } if host.contains(':') => (format!("[{host}]:{port}"), Vec::new()),
            Address::Tcp { host, port, .. } => (format!("{host}:{port}"), Vec::new()),
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
        let Self { user, timeout, .. } = self;
        f.debug_struct("SqlOptions")
            .field("store", &self.store())
            .field("user", user)
            .field("timeout", timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests;
