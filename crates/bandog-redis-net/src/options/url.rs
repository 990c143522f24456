//! Parses the URL of a server.

mod parts;
mod sentinels;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use bandog_core::{Error, Result};
use bandog_net::tls::{TlsFiles, check_host};
use url::Url;

use self::parts::{SENTINELS, after_at, db, decoded, host, login, without_secrets};
use super::{
    Address, Options,
    address_map::{ADDRESS_MAP, AddressMap},
    host::Host,
};

/// The form of a URL for TCP without TLS. Error messages show it.
const TCP: &str = "redis://[user:password@]host[:port][/db]";
/// The form of a URL for TLS.
const TLS: &str = "rediss://[user:password@]host[:port][/db][?ca=PATH][&cert=PATH&key=PATH]";
/// The form of a URL for a Unix socket.
const UNIX: &str = "redis+unix://[user:password@]/PATH[?db=N]";
/// The form of a URL for a cluster.
const CLUSTER: &str = "redis+cluster://[user:password@]host[:port][,host[:port]...]";
/// The form of a URL for a cluster with TLS.
const CLUSTER_TLS: &str =
    "rediss+cluster://[user:password@]host[:port][,host[:port]...][?ca=PATH][&cert=PATH&key=PATH]";
/// An option that URLs of each form can have.
const PASSWORD_FILE: &str = "password_file";

/// Options of a URL that say nothing about connections. URLs of each form can have them.
#[derive(Debug, Clone, Copy)]
pub struct FurtherOptions {
    /// The names of the options.
    pub names: &'static [&'static str],
    /// The options, as the error about an unknown option shows them.
    pub shown: &'static str,
}

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Tcp,
    Tls,
    Unix,
    Cluster,
    ClusterTls,
    Sentinels,
    SentinelsTls,
}

impl Options {
    /// Reads a URL. Returns the further options with their decoded values, too.
    ///
    /// # Errors
    /// `Misused`: the URL cannot be read, or it has an unknown option. The message never contains a password.
    pub fn from_url(url: &str, further: &FurtherOptions) -> Result<(Self, BTreeMap<String, String>)> {
        read(bandog_core::url_text(url)?, further)
    }
}

/// Parses a URL of one of these forms.
fn read(url: &str, further: &FurtherOptions) -> Result<(Options, BTreeMap<String, String>)> {
    let scheme = Scheme::of(url)?;
    let form = scheme.form();
    let unreadable = || format!("the URL {:?} cannot be read; expected {form}", without_secrets(url));
    let mut hosts = Vec::new();
    let parsed = match scheme {
        Scheme::Tcp | Scheme::Tls => Url::parse(url),
        Scheme::Sentinels | Scheme::SentinelsTls => {
            let (with_placeholder, found) = sentinels::with_placeholder_host(url)?;
            hosts = found;
            Url::parse(&with_placeholder)
        }
        Scheme::Unix => Url::parse(&with_placeholder_host(url)?),
        // The parser knows no URL with several hosts.
        Scheme::Cluster | Scheme::ClusterTls => Url::parse(&each_host(url)[0]),
    };
    let parsed = parsed.map_err(|error| Error::misused(unreadable()).caused_by(error))?;
    if parsed.cannot_be_a_base() {
        return Err(Error::misused(format!("the URL {:?} has no //; expected {form}", without_secrets(url))));
    }
    if parsed.fragment().is_some() {
        // Its text might be a part of a password.
        return Err(Error::misused(format!("the URL has a '#'; in a password, write %23 for it; expected {form}")));
    }
    let mut options = options(scheme, further, &parsed)?;
    let address_map =
        options.remove(ADDRESS_MAP).map(|value| AddressMap::parse(&value)).transpose()?.unwrap_or_default();
    let user = decoded("user", parsed.username())?;
    let password = parsed.password().map(|password| decoded("password", password)).transpose()?.flatten();
    let login = login(user, password, PASSWORD_FILE, &mut options)?;
    let path = parsed.path();
    let nodes = if scheme.is_cluster() { nodes(url, form)? } else { Vec::new() };
    let Host { name: host, port } = host(&parsed, 6379);
    if scheme.has_tls() {
        let named = nodes.iter().chain(&hosts).map(|host| &host.name);
        named.chain([&host]).try_for_each(|name| check_host(name))?;
    }
    let (address, db) = match scheme {
        Scheme::Tcp => (Address::Tcp { host, port }, db(path)?),
        Scheme::Tls => (Address::Tls { host, port, files: files(&mut options)? }, db(path)?),
        Scheme::Unix => (Address::Unix { path: socket(path)? }, db(&options.remove("db").unwrap_or_default())?),
        Scheme::Cluster => (Address::Tcp { host, port }, no_db(path)?),
        Scheme::ClusterTls => (Address::Tls { host, port, files: files(&mut options)? }, no_db(path)?),
        Scheme::Sentinels | Scheme::SentinelsTls => {
            let tls = (scheme == Scheme::SentinelsTls).then(|| files(&mut options)).transpose()?;
            let (sentinels, db) = sentinels::read(hosts, path, tls, &mut options)?;
            (Address::Sentinels(sentinels), db)
        }
    };
    let read = Options {
        address,
        nodes,
        in_cluster: scheme.is_cluster(),
        sharded: false,
        db,
        login,
        timeout: Duration::from_secs(3),
        suffix: String::new(),
        shown_as: None,
        is_sentinel: false,
        replicas: 0,
        address_map,
        named: None,
    };
    Ok((read, options))
}

impl Scheme {
    fn of(url: &str) -> Result<Self> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("redis") => Ok(Self::Tcp),
            Some("rediss") => Ok(Self::Tls),
            Some("redis+unix") => Ok(Self::Unix),
            Some("redis+cluster") => Ok(Self::Cluster),
            Some("rediss+cluster") => Ok(Self::ClusterTls),
            Some("redis+sentinel") => Ok(Self::Sentinels),
            Some("rediss+sentinel") => Ok(Self::SentinelsTls),
            Some(scheme) if !scheme.contains(['/', '@', '?']) => Err(Error::misused(format!(
                "the scheme {scheme:?} is unknown; expected redis, rediss (TLS), redis+unix (Unix socket), \
                 redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster"
            ))),
            Some(_) | None => {
                Err(Error::misused(format!("the URL {:?} has no scheme; expected {TCP}", without_secrets(url))))
            }
        }
    }

    fn is_cluster(self) -> bool {
        matches!(self, Self::Cluster | Self::ClusterTls)
    }

    fn has_tls(self) -> bool {
        matches!(self, Self::Tls | Self::ClusterTls | Self::SentinelsTls)
    }

    fn is_sentinels(self) -> bool {
        matches!(self, Self::Sentinels | Self::SentinelsTls)
    }

    /// The form of a URL with this scheme.
    fn form(self) -> &'static str {
        match self {
            Self::Tcp => TCP,
            Self::Tls => TLS,
            Self::Unix => UNIX,
            Self::Cluster => CLUSTER,
            Self::ClusterTls => CLUSTER_TLS,
            Self::Sentinels | Self::SentinelsTls => SENTINELS,
        }
    }

    /// Whether the scheme allows this query option.
    fn allows(self, option: &str) -> bool {
        match option {
            PASSWORD_FILE => true,
            "ca" | "cert" | "key" => self.has_tls(),
            "db" => self == Self::Unix,
            ADDRESS_MAP => self.is_cluster() || self.is_sentinels(),
            "sentinel_user" | "sentinel_password" | "sentinel_password_file" => self.is_sentinels(),
            _ => false,
        }
    }
}

/// The URL with a placeholder as its host. The URL of a Unix socket has no host, but the parser requires a host in each
/// URL with a login.
fn with_placeholder_host(url: &str) -> Result<String> {
    // `rest` is the login and the path.
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (login, path) = rest.split_at(end);
    if (!login.is_empty() && !login.ends_with('@')) || !path.starts_with('/') {
        return Err(Error::misused(format!(
            "the URL of a Unix socket has a path and no host; expected {UNIX}, such as redis+unix:///run/redis.sock"
        )));
    }
    Ok(format!("{scheme}://{login}socket{path}"))
}

/// For each host of the URL of a cluster, a URL with this host only.
fn each_host(url: &str) -> Vec<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
    let at = if authority.contains('@') { "@" } else { "" };
    hosts.split(',').map(|host| format!("{scheme}://{login}{at}{host}{tail}")).collect()
}

/// The hosts and ports in the URL of a cluster.
fn nodes(url: &str, form: &str) -> Result<Vec<Host>> {
    let each = each_host(url).into_iter().map(|each| {
        let unreadable =
            || format!("the URL {:?} has a host that cannot be read; expected {form}", without_secrets(url));
        match Url::parse(&each) {
            Ok(parsed) if parsed.has_host() => Ok(host(&parsed, 6379)),
            Ok(_) => Err(Error::misused(unreadable())),
            Err(error) => Err(Error::misused(unreadable()).caused_by(error)),
        }
    });
    each.collect()
}

/// The database of a cluster. There is only one.
fn no_db(path: &str) -> Result<u16> {
    match path {
        "" | "/" => Ok(0),
        _ => {
            let shown = after_at(path);
            Err(Error::misused(format!("a Redis Cluster has no numbered databases; remove {shown:?} from the URL")))
        }
    }
}

/// The path of the Unix socket.
fn socket(path: &str) -> Result<PathBuf> {
    match decoded("path", path)? {
        Some(path) if path.len() > 1 => Ok(path.into()),
        Some(_) | None => Err(Error::misused(format!("the URL names no socket; expected {UNIX}"))),
    }
}

/// The files for TLS in these query options.
fn files(options: &mut BTreeMap<String, String>) -> Result<TlsFiles> {
    let mut file = |name| options.remove(name).map(PathBuf::from);
    let identity = match (file("cert"), file("key")) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(Error::misused(
                "the URL names a certificate or a key alone; expected both ?cert=PATH&key=PATH or neither",
            ));
        }
    };
    Ok(TlsFiles { ca: file("ca"), identity })
}

/// The query options of a URL.
fn options(scheme: Scheme, further: &FurtherOptions, url: &Url) -> Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for option in url.query().unwrap_or_default().split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !scheme.allows(name) && !further.names.contains(&name) {
            if options.contains_key("sentinel_password") {
                return Err(Error::misused(
                    "the URL has an unknown option after sentinel_password=, which may be a part of the password; in the \
                     password, write %26 for &",
                ));
            }
            let known = format!("{}{}", scheme.form(), further.shown);
            return Err(unknown("option", name, &known));
        }
        let Some(value) = decoded(name, value)? else {
            return Err(Error::misused(format!("the URL's {name}= is empty; expected {}", scheme.form())));
        };
        if options.insert(name.to_owned(), value).is_some() {
            return Err(Error::misused(format!("the URL contains {name}= twice; expected {}", scheme.form())));
        }
    }
    Ok(options)
}

/// The error for an unknown part of a URL: `what` is the kind of the part, and `text` is the part.
fn unknown(what: &str, text: &str, form: &str) -> Error {
    let shown = after_at(text);
    Error::misused(format!("the {what} {shown:?} is unknown; expected {form}"))
}
