//! The names of the options of a URL.

use bandog_core::Error;

use super::dialect::Dialect;

/// The form of a URL. Error messages show it.
const FORM: &str = "postgres://user[:password]@host[:port]/database[?option=value], or mysql:// in the same form";
/// The options that are not those of other clients.
const OWN: &[&str] = &[
    "schema",
    "tables",
    "create",
    "pooler",
    "layout",
    "mode",
    "table",
    "column",
    "session_zone",
    "connections",
    "host",
    "port",
    "socket",
    "user",
    "password",
    "password_file",
    "application_name",
    "options",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
];
/// Options of libpq, and of drivers and pools for PostgreSQL, that have no effect here.
const OF_POSTGRES: &[&str] = &[
    "assumeMinServerVersion",
    "cancelSignalTimeout",
    "client_encoding",
    "connect_timeout",
    "connectTimeout",
    "connection_limit",
    "currentSchema",
    "default_query_exec_mode",
    "defaultRowFetchSize",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "loadBalanceHosts",
    "loginTimeout",
    "pgbouncer",
    "pool_max_conn_idle_time",
    "pool_max_conn_lifetime",
    "pool_max_conns",
    "pool_min_conns",
    "pool_timeout",
    "prepareThreshold",
    "preparedStatementCacheQueries",
    "preparedStatementCacheSizeMiB",
    "reWriteBatchedInserts",
    "socket_timeout",
    "socketTimeout",
    "sslcompression",
    "sslsni",
    "statement-cache-capacity",
    "statement_cache_size",
    "stringtype",
    "tcp_user_timeout",
    "tcpKeepAlive",
];

/// Options of drivers and pools for MySQL that have no effect here.
#[cfg(feature = "mysql")]
const OF_MYSQL: &[&str] = &[
    "allowMultiQueries",
    "allowPublicKeyRetrieval",
    "autoReconnect",
    "cachePrepStmts",
    "characterEncoding",
    "characterSetResults",
    "charset",
    "clientFoundRows",
    "collation",
    "connect_timeout",
    "connectTimeout",
    "connection_limit",
    "connectionCollation",
    "connectionTimeZone",
    "forceConnectionTimeZoneToSession",
    "interpolateParams",
    "loc",
    "maxAllowedPacket",
    "maxPoolSize",
    "minPoolSize",
    "multiStatements",
    "parseTime",
    "pool",
    "pool_max",
    "pool_min",
    "pool_timeout",
    "prepStmtCacheSize",
    "prepStmtCacheSqlLimit",
    "readTimeout",
    "rewriteBatchedStatements",
    "serverTimezone",
    "socket_timeout",
    "socketTimeout",
    "statement-cache-capacity",
    "timezone",
    "tinyInt1isBit",
    "useLegacyDatetimeCode",
    "useServerPrepStmts",
    "useUnicode",
    "writeTimeout",
    "zeroDateTimeBehavior",
];

/// Other names of options of bandog, and these options.
pub(super) const OTHER_NAMES: &[(&str, &str)] = &[
    ("ApplicationName", "application_name"),
    ("applicationName", "application_name"),
    ("targetServerType", "target_session_attrs"),
    ("sslMode", "sslmode"),
    ("ssl-mode", "sslmode"),
    ("ssl_mode", "sslmode"),
    ("ssl-ca", "sslrootcert"),
    ("ssl-cert", "sslcert"),
    ("ssl-key", "sslkey"),
    ("unix_socket", "socket"),
    ("unixSocket", "socket"),
];

/// Options of other clients that have an effect.
const READ: &[&str] = &[
    "channel_binding",
    "fallback_application_name",
    "gssencmode",
    "requireSSL",
    "ssl",
    "target_session_attrs",
    "tls",
    "useSSL",
];

/// The names of the options that a URL for this kind of server can have.
pub(super) fn names(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    OWN.iter().copied().chain(familiar(dialect))
}

/// The names of the options of other clients.
fn familiar(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    let renamed = OTHER_NAMES.iter().map(|(name, _)| *name);
    without_effect(dialect).iter().chain(READ).copied().chain(renamed)
}

/// The options that have no effect here.
pub(super) fn without_effect(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Postgres => OF_POSTGRES,
        #[cfg(feature = "mysql")]
        Dialect::MySql => OF_MYSQL,
    }
}

/// The requirement of an option on its URL.
pub(super) enum Need {
    Nothing,
    With(&'static str),
    /// The option is for servers of this kind only.
    OtherServer(&'static str),
}

pub(super) fn need(dialect: Dialect, option: &str) -> Need {
    const SOCKET: &str = "a Unix socket, so no host before the database";
    match (dialect, option) {
        (_, "connections") => Need::With("mode=rowlock or mode=advisory"),
        (_, "table") => Need::With("mode=rowlock or layout=shedlock"),
        (_, "column") => Need::With("mode=rowlock"),
        (_, "session_zone") => Need::With("layout=shedlock"),
        (Dialect::Postgres, "host" | "port") => Need::With(SOCKET),
        (Dialect::Postgres, "socket") => Need::OtherServer("MySQL"),
        #[cfg(feature = "mysql")]
        (Dialect::MySql, "socket") => Need::With(SOCKET),
        #[cfg(feature = "mysql")]
        (Dialect::MySql, "schema" | "pooler" | "host" | "port" | "options") => Need::OtherServer("PostgreSQL"),
        #[cfg(feature = "mysql")]
        (Dialect::MySql, "sslmode" | "sslrootcert" | "sslcert" | "sslkey") => {
            Need::With("a host, as a Unix socket has no TLS")
        }
        (_, _) => Need::Nothing,
    }
}

/// The error of an option that is unknown or not allowed. It lists the known options of this kind.
pub(super) fn unknown(dialect: Dialect, what: &str, is_listed: impl Fn(&str) -> bool) -> Error {
    let known = |name: &&str| match need(dialect, name) {
        Need::Nothing => Some((*name).to_owned()),
        Need::With(need) => Some(format!("{name} (with {need})")),
        Need::OtherServer(_) => None,
    };
    let known: Vec<_> = OWN.iter().filter(|name| is_listed(name)).filter_map(known).collect();
    Error::misused(format!("the URL of the database has {what}; {} are known", known.join(", ")))
}

pub(super) fn wrong(what: &str) -> Error {
    Error::misused(format!("the URL of the database {what}; expected {FORM}"))
}
