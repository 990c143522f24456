//! Parses the URL of a database.

use std::{path::PathBuf, time::Duration};

use bandog_core::{Error, Result};
use bandog_net::{Login, PasswordFile, tls::check_host};

use super::{
    Address, SqlOptions, Tls, TlsFiles,
    dialect::Dialect,
    familiar,
    layout::{Layout, RowTable, SessionZone, TableName},
    names::{names, wrong},
    query::{Options, decoded},
};

const SCHEMES: &[(&str, Dialect)] = &[
    ("postgres", Dialect::Postgres),
    ("postgresql", Dialect::Postgres),
    #[cfg(feature = "mysql")]
    ("mysql", Dialect::MySql),
    #[cfg(feature = "mysql")]
    ("mariadb", Dialect::MySql),
];
/// The words for a list of hosts with a socket.
const BESIDE_SOCKET: &str =
    "has other hosts beside a Unix socket; name one socket, or each server by its host and port";
/// Maximum length of an identifier in PostgreSQL.
const MAX_IDENTIFIER: usize = 63;
/// Maximum length of the beginning of the names of the tables. Every name has room for the rest of it.
const MAX_TABLES: usize = 48;

impl SqlOptions {
    /// Reads a URL: `postgres://user:password@host:5432/database`. The port is 5432 and the database has the name of the
    /// user, unless the URL names them. Characters with a meaning in URLs are percent-encoded.
    ///
    /// - `?schema=NAME`: the schema of the tables; the default is `bandog`. It is created if it does not exist.
    /// - `?tables=PREFIX`: the beginning of the names of the tables; the default is `bandog_`.
    /// - `?create=false`: the tables must exist. Then the user needs no right to create them. See
    ///   [`SqlOptions::schema_sql`].
    /// - `?pooler=session`: a pooler, such as PgBouncer, is between the client and the server, and is in the mode
    ///   `session`. Without this option, a pooler is refused.
    /// - `?layout=shedlock`, and optionally `&table=NAME` (the default is `shedlock`): mutexes are rows of the table of
    ///   ShedLock, a Java library. Jobs under ShedLock and these mutexes exclude each other. There are no other kinds
    ///   of locks. The table must exist, and ShedLock must use the time of the database (`usingDbTime()`).
    ///   A table whose times depend on the time zone of a session (`timestamptz`, and on MySQL `timestamp`) is refused, unless
    ///   `&session_zone=ZONE` names the zone of the sessions of ShedLock: `Area/City`, `UTC`, or an offset such as `+08:00`.
    /// - `?mode=rowlock&table=NAME&column=NAME`: while a client holds a mutex, a transaction of the database has also locked the
    ///   row of this name with `select … for update`. Programs that lock the same row exclude the mutex. There are no other
    ///   kinds of locks. `?connections=NUMBER` is the maximum number of locks that a client holds at once; the default is 10.
    /// - `?mode=advisory`, and optionally `&connections=NUMBER`: the same with `pg_advisory_lock`, and on MySQL with
    ///   `GET_LOCK`.
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
        read(url)
    }

    /// The names of the options that [`SqlOptions::from_url`] accepts in URLs with this scheme. Of an unknown scheme, there are
    /// none.
    ///
    /// ```
    /// assert!(bandog_sql::SqlOptions::option_names("postgres").any(|name| name == "connect_timeout"));
    /// ```
    pub fn option_names(scheme: &str) -> impl Iterator<Item = &'static str> {
        dialect(scheme).into_iter().flat_map(names)
    }
}

fn dialect(scheme: &str) -> Option<Dialect> {
    SCHEMES.iter().find(|(name, _)| *name == scheme).map(|(_, dialect)| *dialect)
}

/// Reads a URL. Messages contain no part of the URL that can be a part of a password.
fn read(url: &str) -> Result<SqlOptions> {
    let parts = url.split_once("://").and_then(|(scheme, rest)| Some((rest, dialect(scheme)?)));
    let (rest, dialect) = parts.ok_or_else(|| wrong("does not begin with postgres://"))?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = place.split_once('/').unwrap_or((place, ""));
    let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    // A password with a `?` that is not encoded ends in the query.
    if login.contains('@') || query.contains('@') || rest.contains('#') {
        return Err(wrong("has an '@', '?' or '#' that is not encoded; in a user or password, write %40, %3F and %23"));
    }
    let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    let mut options = Options::read(dialect, query)?;
    familiar::translate(dialect, &mut options)?;
    let (user, password) = (decoded("user", user)?, password.map(|text| decoded("password", text)).transpose()?);
    let user = only_one("user", Some(user).filter(|user| !user.is_empty()), options.take("user"))?;
    let user = user.ok_or_else(|| wrong("names no user"))?;
    let password = only_one("password", password, options.take("password"))?;
    let password_file = options.has("password_file").then(|| options.take("password_file").unwrap_or_default());
    let default_database = user.clone();
    let login = match password_file {
        Some(path) => {
            let file = PasswordFile::of_url("password_file", path, password.is_some())?;
            Login::with_file(Some(user), file)
        }
        None => Login::of_url(Some(user), password),
    };
    let database = match (dialect, database) {
        (Dialect::Postgres, "") => default_database,
        #[cfg(feature = "mysql")]
        (Dialect::MySql, "") => return Err(wrong("names no database")),
        (_, database) => decoded("database", database)?,
    };
    if database.contains('/') {
        return Err(wrong("has more than one name after its host"));
    }
    let (address, further_hosts) = address(dialect, host, &mut options)?;
    let schema = match dialect {
        Dialect::Postgres => options.take("schema").unwrap_or_else(|| SqlOptions::SCHEMA.to_owned()),
        #[cfg(feature = "mysql")]
        Dialect::MySql => database.clone(),
    };
    let creates_tables = options.take_switch("create", true)?;
    let may_have_pooler = match dialect {
        Dialect::Postgres => options.take_pooler()?,
        #[cfg(feature = "mysql")]
        Dialect::MySql => true,
    };
    if dialect == Dialect::Postgres {
        check_identifier("schema", &schema, MAX_IDENTIFIER)?;
    }
    let tables = options.take("tables").unwrap_or_else(|| SqlOptions::TABLES.to_owned());
    check_identifier("beginning of the names of the tables", &tables, MAX_TABLES)?;
    let layout = layout(dialect, &schema, &mut options)?;
    let session_zone = session_zone(&layout, &mut options)?;
    let connections = connections(&layout, &mut options)?;
    let application = options.take("application_name").unwrap_or_else(|| SqlOptions::APPLICATION.to_owned());
    let startup = match dialect {
        Dialect::Postgres => options.take("options"),
        #[cfg(feature = "mysql")]
        Dialect::MySql => None,
    };
    options.check_empty(dialect)?;
    Ok(SqlOptions {
        dialect,
        address,
        further_hosts,
        attempts: 1,
        login,
        database,
        schema,
        tables,
        layout,
        session_zone,
        connections,
        creates_tables,
        may_have_pooler,
        application,
        startup,
        timeout: Duration::from_secs(3),
    })
}

/// The address of the first host, and the other hosts.
fn address(dialect: Dialect, hosts: &str, options: &mut Options) -> Result<(Address, Vec<(String, u16)>)> {
    let (first, others) = hosts.split_once(',').map_or((hosts, None), |(first, others)| (first, Some(others)));
    let (host, port) = place(dialect, first)?;
    let is_alone = |address| match others {
        None => Ok((address, Vec::new())),
        Some(_) => Err(wrong(BESIDE_SOCKET)),
    };
    #[cfg(feature = "mysql")]
    if host.is_empty() && dialect == Dialect::MySql {
        let path = options.take("socket").filter(|path| path.starts_with('/'));
        let path = path.ok_or_else(|| wrong("names neither a host nor, with ?socket=/PATH, a Unix socket"))?;
        return is_alone(Address::Unix { path: path.into() });
    }
    // libpq accepts the directory of a socket as a host, too, with %2F for each slash.
    let directory = if host.is_empty() { options.take("host") } else { Some(host.clone()) };
    if let Some(directory) = directory.filter(|directory| directory.starts_with('/')) {
        let port = match options.take("port") {
            Some(port) => port.parse().map_err(|_| wrong("has a port that is not a number"))?,
            None => port,
        };
        tls(options)?; // A Unix socket has no TLS, and its URL may still have the usual options.
        return is_alone(Address::Unix { path: PathBuf::from(directory).join(format!(".s.PGSQL.{port}")) });
    }
    if host.is_empty() {
        return Err(wrong("names neither a host nor, with ?host=/PATH, a Unix socket"));
    }
    #[cfg(feature = "mysql")]
    if others.is_some() && dialect == Dialect::MySql {
        return Err(wrong("names several hosts; name the primary server, or a proxy that leads to it"));
    }
    let further = others.into_iter().flat_map(|others| others.split(',')).map(|other| match place(dialect, other)? {
        (host, _) if host.is_empty() => Err(wrong("has an empty host in its list of hosts")),
        (host, _) if host.starts_with('/') => Err(wrong(BESIDE_SOCKET)),
        place => Ok(place),
    });
    let further: Vec<_> = further.collect::<Result<_>>()?;
    let tls = tls(options)?;
    if tls != Tls::Off {
        further.iter().map(|(host, _)| host).chain([&host]).try_for_each(|host| check_host(host))?;
    }
    Ok((Address::Tcp { host, port, tls }, further))
}

/// A host and its port.
fn place(dialect: Dialect, text: &str) -> Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, port))) => (host, port.strip_prefix(':').unwrap_or_default()),
        Some(None) => return Err(wrong("has a '[' without a ']'")),
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = match port {
        "" => match dialect {
            Dialect::Postgres => 5432,
            #[cfg(feature = "mysql")]
            Dialect::MySql => 3306,
        },
        port => port.parse().map_err(|_| wrong("has a port that is not a number (in a password, write %40 for @)"))?,
    };
    Ok((decoded("host", host)?, port))
}

/// A value that can be written before the host or as an option.
fn only_one(what: &str, before_host: Option<String>, option: Option<String>) -> Result<Option<String>> {
    match (before_host, option) {
        (Some(_), Some(_)) => Err(wrong(&format!("names the {what} twice, before its host and as an option"))),
        (value, None) | (None, value) => Ok(value),
    }
}

fn tls(options: &mut Options) -> Result<Tls> {
    let mode = options.take("sslmode");
    let mut file = |name: &str| options.take(name).map(PathBuf::from);
    let (ca, cert, key) = (file("sslrootcert"), file("sslcert"), file("sslkey"));
    match mode.as_deref() {
        Some("require" | "verify-ca" | "verify-full") => {}
        None | Some("disable") if ca.is_none() && cert.is_none() && key.is_none() => return Ok(Tls::Off),
        Some("prefer") if ca.is_none() && cert.is_none() && key.is_none() => return Ok(Tls::Preferred),
        None | Some("disable" | "prefer") => return Err(wrong("has files for TLS, but not sslmode=verify-full")),
        Some(_) => return Err(wrong("has an unknown sslmode; write disable, prefer, require or verify-full")),
    }
    let identity = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(wrong("needs both sslcert and sslkey")),
    };
    Ok(Tls::Checked(TlsFiles { ca, identity }))
}

/// Where the holds of mutexes are.
fn layout(dialect: Dialect, schema: &str, options: &mut Options) -> Result<Layout> {
    let (layout, mode) = (options.take("layout"), options.take("mode"));
    match (layout.as_deref(), mode.as_deref()) {
        (None | Some("leases"), None) => Ok(Layout::Leases),
        (Some("shedlock"), None) => {
            let table = options.take("table");
            let table = table.as_deref().unwrap_or(Layout::SHEDLOCK);
            TableName::parse(dialect, schema, table).map(Layout::ShedLock)
        }
        (None, Some("advisory")) => Ok(Layout::Advisory),
        (None, Some("rowlock")) => match (options.take("table"), options.take("column")) {
            (Some(table), Some(column)) => RowTable::parse(dialect, schema, &table, &column).map(Layout::RowLock),
            (_, _) => Err(wrong("has mode=rowlock, which needs the options table and column")),
        },
        (Some(_), Some(_)) => Err(wrong("has both a layout and a mode; write one of them")),
        (Some(_), None) => Err(wrong("has an unknown value of \"layout\"; leases and shedlock are known")),
        (None, Some(_)) => Err(wrong("has an unknown value of \"mode\"; rowlock and advisory are known")),
    }
}

/// The time zone of the sessions that use the table of ShedLock.
fn session_zone(layout: &Layout, options: &mut Options) -> Result<Option<SessionZone>> {
    let Layout::ShedLock(_) = layout else { return Ok(None) };
    let Some(text) = options.take("session_zone") else { return Ok(None) };
    let zone = SessionZone::parse(&text);
    zone.map(Some)
        .ok_or_else(|| wrong("has an unknown \"session_zone\"; write Area/City, UTC or an offset such as +08:00"))
}

/// Maximum number of sessions that hold locks of the database.
fn connections(layout: &Layout, options: &mut Options) -> Result<usize> {
    match layout {
        Layout::Leases | Layout::ShedLock(_) => Ok(Layout::CONNECTIONS),
        Layout::RowLock(_) | Layout::Advisory => match options.take("connections") {
            None => Ok(Layout::CONNECTIONS),
            Some(text) => {
                let number = text.parse().ok().filter(|number| (1..=1000).contains(number));
                number.ok_or_else(|| wrong("has a value of \"connections\" that is not a number from 1 to 1000"))
            }
        },
    }
}

/// The text is a part of statements, so it must be a plain name.
fn check_identifier(what: &str, text: &str, longest: usize) -> Result<()> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
    let is_plain = text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit());
    if is_plain && text.len() <= longest {
        return Ok(());
    }
    Err(Error::misused(format!(
        "the {what} {text:?} must have 1 to {longest} lower-case letters, digits and _, and not begin with a digit"
    )))
}
