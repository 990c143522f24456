//! Parses the URL of a database.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use bandog_core::{Error, Result};
use bandog_net::{Login, PasswordFile};

use super::{Address, Dialect, Layout, RowTable, SessionZone, SqlOptions, TableName, Tls, TlsFiles, familiar};

/// The form of a URL. Error messages show it.
const FORM: &str = "postgres://user[:password]@host[:port]/database[?option=value], or mysql:// in the same form";
const SCHEMES: &[(&str, Dialect)] = &[
    ("postgres", Dialect::Postgres),
    ("postgresql", Dialect::Postgres),
    #[cfg(feature = "mysql")]
    ("mysql", Dialect::MySql),
    #[cfg(feature = "mysql")]
    ("mariadb", Dialect::MySql),
];
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
/// The words for a list of hosts with a socket.
const BESIDE_SOCKET: &str =
    "has other hosts beside a Unix socket; name one socket, or each server by its host and port";
/// The words for an unknown option that must not be shown.
const PART_OF_PASSWORD: &str =
    "an unknown option after password=, which can be a part of the password (in the password, write %26 for &)";
/// Maximum length of an identifier in PostgreSQL.
const MAX_IDENTIFIER: usize = 63;
/// Maximum length of the beginning of the names of the tables. Every name has room for the rest of it.
const MAX_TABLES: usize = 48;

/// The names of the options that a URL with this scheme can have.
pub(super) fn option_names(scheme: &str) -> impl Iterator<Item = &'static str> {
    dialect(scheme).into_iter().flat_map(names)
}

fn names(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    OWN.iter().copied().chain(familiar::names(dialect))
}

fn dialect(scheme: &str) -> Option<Dialect> {
    SCHEMES.iter().find(|(name, _)| *name == scheme).map(|(_, dialect)| *dialect)
}

/// Reads a URL. Messages contain no part of the URL that can be a part of a password.
pub(super) fn read(url: &str) -> Result<SqlOptions> {
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

/// The options of a URL that are not read yet.
pub(super) struct Options(BTreeMap<String, String>);

impl Options {
    /// Reads the options. The first unknown name in the order of the URL is refused: the next ones can be parts of its value.
    fn read(dialect: Dialect, query: &str) -> Result<Self> {
        let mut options = BTreeMap::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if names(dialect).all(|known| known != name) {
                let shown = format!("the option {name:?}, which is unknown");
                let what = if options.contains_key("password") { PART_OF_PASSWORD } else { &shown };
                return Err(unknown(dialect, what, |_| true));
            }
            if options.insert(name.to_owned(), decoded("value of an option", value)?).is_some() {
                return Err(wrong("has an option twice"));
            }
        }
        Ok(Self(options))
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds an option that the URL has under another name.
    pub(super) fn set(&mut self, name: &str, value: String) -> Result<()> {
        match self.0.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(wrong(&format!("has the option {name:?} twice, under two names"))),
        }
    }

    /// Gives an option another name.
    pub(super) fn rename(&mut self, name: &str, other: &str) -> Result<()> {
        match self.0.remove(name) {
            Some(value) => self.set(other, value),
            None => Ok(()),
        }
    }

    /// The value of an option that is `true` or `false`.
    fn take_switch(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.take(name).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(wrong(&format!("has an unknown value of {name:?}; write true or false"))),
        }
    }

    /// Whether the URL says that a pooler is used.
    fn take_pooler(&mut self) -> Result<bool> {
        match self.take("pooler").as_deref() {
            None => Ok(false),
            Some("session") => Ok(true),
            Some(_) => Err(wrong("has an unknown value of \"pooler\"; a pooler must be in the mode session")),
        }
    }

    fn check_empty(&self, dialect: Dialect) -> Result<()> {
        let Some(name) = self.0.keys().next() else { return Ok(()) };
        let what = match need(dialect, name) {
            Need::Nothing => format!("the option {name:?}, which is not allowed here"),
            Need::With(need) => format!("the option {name:?}, which needs {need}"),
            Need::OtherServer(server) => format!("the option {name:?}, which is for {server} only"),
        };
        Err(unknown(dialect, &what, |other| !self.has(other)))
    }
}

/// What a URL must have for an option.
enum Need {
    Nothing,
    With(&'static str),
    /// The option is for servers of this kind only.
    OtherServer(&'static str),
}

fn need(dialect: Dialect, option: &str) -> Need {
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
fn unknown(dialect: Dialect, what: &str, is_listed: impl Fn(&str) -> bool) -> Error {
    let known = |name: &&str| match need(dialect, name) {
        Need::Nothing => Some((*name).to_owned()),
        Need::With(need) => Some(format!("{name} (with {need})")),
        Need::OtherServer(_) => None,
    };
    let known: Vec<_> = OWN.iter().filter(|name| is_listed(name)).filter_map(known).collect();
    Error::misused(format!("the URL of the database has {what}; {} are known", known.join(", ")))
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
    let further = further.collect::<Result<_>>()?;
    Ok((Address::Tcp { host, port, tls: tls(options)? }, further))
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

fn decoded(what: &str, text: &str) -> Result<String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8().map(String::from);
    let decoded = decoded.map_err(|_| wrong(&format!("has a {what} that is not UTF-8")))?;
    if decoded.contains('\0') {
        return Err(wrong(&format!("has a {what} with a null character")));
    }
    Ok(decoded)
}

pub(super) fn wrong(what: &str) -> Error {
    Error::misused(format!("the URL of the database {what}; expected {FORM}"))
}
