//! Parses URLs such as `scheme:place?watchdog=30s&timeout=3s`, and prints them without their secrets.

mod login;
mod option_names;
#[cfg_attr(
    not(feature = "redis"),
    allow(dead_code, reason = "without the feature, only the form of the URL is checked")
)]
pub(crate) mod quorum;
mod scheme;
mod secrets;

use std::{collections::BTreeSet, time::Duration};

use bandog_core::{Error, ErrorKind, Result, check_ttl, url_text};

pub(crate) use self::scheme::Scheme;
pub use self::secrets::{redact, without_secrets};
use self::{
    login::{follows_a_host, is_port},
    scheme::{backend, is_local, is_scheme},
};
use crate::file;

/// The parts of a URL.
pub(crate) struct Parts {
    pub(crate) scheme: Scheme,
    /// The part between the scheme's colon and the options: a host, a path or a name.
    pub(crate) place: String,
    /// The ttl of locks without a lease.
    pub(crate) watchdog: Option<Duration>,
    /// The maximum duration of one request to the store.
    pub(crate) timeout: Option<Duration>,
    /// The time by which the clocks of Java clients may be ahead of the Redis server's clock.
    pub(crate) java_skew: Option<Duration>,
    /// The number of replicas of the Redis server that must acknowledge each grant.
    pub(crate) replicas: Option<u8>,
    /// The maximum ttl of a lock on a quorum.
    pub(crate) max_ttl: Option<Duration>,
    /// The text that the client puts before every name in the store.
    pub(crate) prefix: String,
    /// The URL for the backend: the scheme, the place, and the options that only this backend knows.
    pub(crate) rest: String,
}

impl Parts {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let url = url_text(url)?;
        let shown = redact(url); // for errors: the URL without its secrets
        let (word, rest) = split_scheme(url, &shown)?;
        let (scheme, word) = backend(word).ok_or_else(|| unknown_scheme(&word.to_ascii_lowercase(), &shown))?;
        let has_secret_option = word.ends_with("+sentinel") || matches!(scheme, Scheme::MySql | Scheme::Postgres);
        if let Some(secret) = secrets::unencoded_secret(url).filter(|_| has_secret_option) {
            return Err(Error::misused(format!(
                "the URL {shown:?} has characters in {secret} or after it that must be encoded: write %40 for @, %2F for /, \
                 %3F for ?, %23 for #, %26 for & and %25 for %"
            )));
        }
        if !is_local(word) && word != "redis+unix" {
            check_blanks(rest, &shown)?;
            check_signs(rest, &shown)?;
        }
        match word {
            "redis+unix" => check_socket(rest, &shown)?,
            "redis" | "rediss" => {
                check_host(rest, &shown)?;
                check_login(rest, &shown)?;
            }
            "redis+sentinel" | "rediss+sentinel" | "mysql" | "postgres" | "zookeeper" | "zookeeper+tls" => {
                check_login(rest, &shown)?
            }
            "redis+cluster" | "rediss+cluster" => check_hosts(rest, &shown)?,
            "redis+quorum" | "rediss+quorum" => quorum::check(rest, &shown)?,
            _ => {}
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let place = if scheme == Scheme::Sqlite { file::path(place)? } else { place };
        let mut parts = Self {
            scheme,
            place: place.to_owned(),
            watchdog: None,
            timeout: None,
            java_skew: None,
            replicas: None,
            max_ttl: None,
            prefix: String::new(),
            rest: format!("{word}:{place}"),
        };
        let own = option_names::of_backend(word);
        let mut seen = BTreeSet::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let name = name_of(option);
            if !seen.insert(name) {
                // An unknown name might be a part of a password.
                let known = if option_names::is_known(word, name) { name } else { "***" };
                return Err(Error::misused(format!("the URL {shown:?} has the option {known:?} twice")));
            }
            if own.contains(&name) || parts.passes_on(name) {
                let sign = if parts.rest.contains('?') { '&' } else { '?' };
                parts.rest.extend([sign.to_string().as_str(), option]);
            } else {
                parts.option(option, own, &seen, &shown)?;
            }
        }
        Ok(parts)
    }

    /// Whether the backend checks an option with this name. The backends of databases know many options of other clients.
    fn passes_on(&self, name: &str) -> bool {
        matches!(self.scheme, Scheme::MySql | Scheme::Postgres) && !option_names::OF_ALL.contains(&name)
    }

    /// Reads an option that is not for the backend. `own` are the options that only this backend knows. The error for an
    /// unknown option lists them. `seen` are the names of the options so far, with this one.
    fn option(&mut self, option: &str, own: &[&str], seen: &BTreeSet<&str>, shown: &str) -> Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let of_client = option_names::of_client(self.scheme);
        let is_known = option_names::OF_ALL.contains(&name) || of_client.contains(&name);
        match Some(name).filter(|_| is_known) {
            Some("watchdog") => self.watchdog = Some(duration(name, value)?),
            Some("timeout") => self.timeout = Some(duration(name, value)?),
            Some("java_skew") => self.java_skew = Some(duration(name, value)?),
            Some("replicas") => self.replicas = Some(count(name, value)?),
            Some("max_ttl") => self.max_ttl = Some(check_ttl("the URL's max_ttl", duration(name, value)?)?),
            Some("prefix") if value.contains(char::is_whitespace) => {
                return Err(Error::misused(format!("the URL {shown:?} has a blank in its prefix: write %20 for it")));
            }
            Some("prefix") => self.prefix = decoded(value, shown)?,
            Some(_) | None => {
                let own: String = of_client.iter().chain(own).map(|own| format!("{own}, ")).collect();
                let unknown = if seen.contains("sentinel_password") {
                    "an unknown option after sentinel_password=, which may be a part of the password (in it, write %26 for &)"
                        .to_owned()
                } else {
                    format!("the unknown option {name:?}")
                };
                return Err(Error::misused(format!(
                    "the URL {shown:?} has {unknown}; {own}watchdog, timeout and prefix are known"
                )));
            }
        }
        Ok(())
    }
}

fn name_of(option: &str) -> &str {
    option.split_once('=').map_or(option, |(name, _)| name)
}

/// Splits a URL into its scheme and the part after the colon.
fn split_scheme<'a>(url: &'a str, shown: &str) -> Result<(&'a str, &'a str)> {
    let found = url.split_once(':').filter(|(word, rest)| is_scheme(word) && (is_local(word) || !is_port(rest)));
    found.ok_or_else(|| {
        if let Some((name, _)) = url.split_once('=').filter(|(name, value)| is_name(name) && value.contains("://")) {
            return Error::misused(format!("the URL begins with {name}=, which is no part of it: remove that"));
        }
        if url.split_once('=').is_some_and(|(name, _)| is_name(name)) {
            return Error::misused(format!(
                "{shown:?} is not a URL but a list of settings: write postgres://USER:PASSWORD@HOST:PORT/DATABASE, \
                 mysql://USER:PASSWORD@HOST:PORT/DATABASE or redis://USER:PASSWORD@HOST:PORT"
            ));
        }
        if url.contains('@') {
            return without_scheme(shown);
        }
        if url.contains(':') && !url.starts_with('/') {
            return Error::misused(format!("the URL {shown:?} has no scheme; write redis://{shown}"));
        }
        Error::misused(format!("{shown:?} is not a URL: write redis://HOST, sqlite:PATH or memory:"))
    })
}

/// Whether the text can be the name of a variable or of a setting.
fn is_name(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ' ');
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(is_sign)
}

fn without_scheme(shown: &str) -> Error {
    Error::misused(format!("the URL {shown:?} has no scheme; write redis://, postgres:// or mysql:// in front of it"))
}

fn unknown_scheme(scheme: &str, shown: &str) -> Error {
    const OTHER_STORES: [&str; 8] =
        ["mssql", "sqlserver", "mongodb", "mongodb+srv", "etcd", "consul", "dynamodb", "nats"];
    if matches!(scheme, "zk" | "zk+tls" | "zookeepers") {
        return Error::misused(format!(
            "the URL {shown:?} has the unknown scheme {scheme:?}; write zookeeper://HOST:PORT,HOST:PORT/FOLDER, or \
             zookeeper+tls:// over TLS"
        ));
    }
    if scheme == "jdbc" {
        return Error::misused(format!("the URL {shown:?} is one of JDBC; leave out its first part, jdbc:"));
    }
    if let Some((database, driver)) =
        scheme.split_once('+').filter(|(name, _)| ["postgres", "postgresql", "mysql", "mariadb"].contains(name))
    {
        return Error::misused(format!("the URL {shown:?} names the driver {driver:?}; write {database}:// instead"));
    }
    if scheme.contains("sentinel") {
        return Error::misused(format!(
            "the URL {shown:?} has the unknown scheme {scheme:?}; write redis+sentinel://HOST:PORT,HOST:PORT/MASTER, or \
             rediss+sentinel:// over TLS"
        ));
    }
    if scheme.contains("cluster") {
        return Error::misused(format!(
            "the URL {shown:?} has the unknown scheme {scheme:?}; write redis+cluster://HOST:PORT,HOST:PORT, or \
             rediss+cluster:// over TLS"
        ));
    }
    let (unsupported, what) = if OTHER_STORES.contains(&scheme) {
        (
            "this store is",
            "redis://HOST (also valkey://), postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, \
             sqlite:PATH, zookeeper://HOST or memory:",
        )
    } else if shown.contains('@') && !shown.contains("://") {
        return without_scheme(shown);
    } else {
        return Error::misused(format!(
            "the URL {shown:?} has the unknown scheme {scheme:?}; redis, rediss, redis+unix, redis+sentinel, \
             rediss+sentinel, redis+cluster, rediss+cluster, redis+quorum, rediss+quorum (also with valkey instead of \
             redis), postgres, postgresql, mysql, mariadb, sqlite, zookeeper, zookeeper+tls and memory are known"
        ));
    };
    Error::new(ErrorKind::Unsupported, format!("the URL {shown:?}: {unsupported} not supported yet; write {what}"))
}

/// Refuses white space in the hosts, in the database and in the folder. One of them would have another name with it.
fn check_blanks(rest: &str, shown: &str) -> Result<()> {
    let (_, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let place = place.split('?').next().unwrap_or_default();
    if !place.contains(char::is_whitespace) {
        return Ok(());
    }
    Err(Error::misused(format!(
        "the URL {shown:?} has a blank in its hosts or after them: write a comma without a blank between hosts, and %20 for a \
         blank in a name"
    )))
}

/// Refuses options that are written as in other libraries, and an encoded `@`. They would be hosts, or parts of a name.
fn check_signs(rest: &str, shown: &str) -> Result<()> {
    let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let place = place.split('?').next().unwrap_or_default();
    let hosts = place.trim_start_matches('/').split('/').next().unwrap_or_default();
    if login.is_empty() && hosts.contains("%40") {
        return Err(Error::misused(format!(
            "the URL {shown:?} has %40 in its host: write @ between the login and the host, and %40 only inside the login"
        )));
    }
    if !place.contains(';') && !hosts.contains('=') {
        return Ok(());
    }
    Err(Error::misused(format!(
        "the URL {shown:?} has an option among its hosts: options follow a ? at the end, with & between them, and the login \
         stands before the host, as in USER:PASSWORD@HOST (in a name, write %3B for ;)"
    )))
}

/// Refuses a URL that does not name exactly one host.
fn check_host(rest: &str, shown: &str) -> Result<()> {
    let Some(rest) = rest.strip_prefix("//") else {
        return Err(Error::misused(format!(
            "the URL {shown:?} lacks its //: write redis://[user:password@]HOST[:port][/db]"
        )));
    };
    let (login, place) = rest.rsplit_once('@').unwrap_or(("", rest));
    let hosts = place.split(['/', '?']).next().unwrap_or_default();
    if hosts.contains(',') || (login.contains('@') && login.contains(',')) {
        let message = format!(
            "the URL {shown:?} names several hosts: for sentinels, write redis+sentinel://, for a cluster \
             redis+cluster://, and for a quorum redis+quorum:// (in a password, write %40 for @ and %2C for ,)"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// Refuses the URL of a cluster without a host, and a login that cannot be read.
fn check_hosts(rest: &str, shown: &str) -> Result<()> {
    let place = rest.strip_prefix("//").unwrap_or_default();
    let (_, place) = place.rsplit_once('@').unwrap_or(("", place));
    let hosts = place.split(['/', '?', '#']).next().unwrap_or_default();
    if hosts.split(',').any(str::is_empty) {
        return Err(Error::misused(format!(
            "the URL {shown:?} lacks a host: write redis+cluster://[user:password@]HOST[:port],HOST[:port]"
        )));
    }
    check_login(rest, shown)
}

/// Refuses a URL whose user or password has characters that must be encoded. Such a URL would be split in the middle of the
/// password, and an error could then show a part of the password.
fn check_login(rest: &str, shown: &str) -> Result<()> {
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (login, _) = rest.rsplit_once('@').unwrap_or_default();
    if login.contains('@') && login.contains(',') {
        return Err(Error::misused(format!(
            "the URL {shown:?} has a login before several hosts: write the login once, before the first host (in a \
             password, write %40 for @ and %2C for ,)"
        )));
    }
    if follows_a_host(login) {
        return Err(Error::misused(format!(
            "the URL {shown:?} has a login after its first host: write the login once, before the first host (in a login, \
             write %2C for ,)"
        )));
    }
    let Some(found) = login.chars().find(|c| matches!(c, '/' | '?' | '#')) else { return Ok(()) };
    Err(Error::misused(format!(
        "the URL {shown:?} has a {found:?} before its '@': in a user or password, write %2F for /, %3F for ? and %23 for #"
    )))
}

/// Refuses a URL without the path of a socket. The path can contain any character, even an `@`. So the path must follow
/// directly after the `//`, or after the `@` that ends the user and the password.
fn check_socket(rest: &str, shown: &str) -> Result<()> {
    let is_login_and_path = |(login, path): (&str, &str)| path.starts_with('/') && !login.contains(['/', '?', '#']);
    let rest = rest.strip_prefix("//").unwrap_or_default();
    if rest.starts_with('/') || rest.split_once('@').is_some_and(is_login_and_path) {
        return Ok(());
    }
    Err(Error::misused(format!(
        "the URL {shown:?} names no path of a socket: write redis+unix://[user:password@]/PATH, and in a user or password \
         %40 for @, %2F for /, %3F for ? and %23 for #"
    )))
}

fn decoded(value: &str, shown: &str) -> Result<String> {
    let text = percent_encoding::percent_decode_str(value).decode_utf8();
    text.map(Into::into)
        .map_err(|source| Error::misused(format!("the prefix in the URL {shown:?} is not UTF-8")).caused_by(source))
}

fn count(name: &str, value: &str) -> Result<u8> {
    value.parse().map_err(|source| {
        let message = format!("{name}={value} in the URL is not a number of servers; write a number from 0 to 255");
        Error::misused(message).caused_by(source)
    })
}

fn duration(name: &str, value: &str) -> Result<Duration> {
    humantime::parse_duration(value).map_err(|source| {
        let message = format!("{name}={value} in the URL is not a duration; write 500ms, 10s or 2m");
        Error::misused(message).caused_by(source)
    })
}
