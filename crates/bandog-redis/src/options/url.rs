//! Parses the URL of a server.

mod sentinels;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use bandog_core::{Error, Result};
use bandog_net::{Login, PasswordFile};
use url::{Host, Url};

use super::{
    Address, AddressMap, Format, Layout, RedisOptions, Semaphores, Sentinels, TlsFiles, address_map::ADDRESS_MAP,
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
/// The form of a URL of sentinels. With `rediss+sentinel`, it has the options of a URL for TLS, too.
const SENTINELS: &str = "redis+sentinel://[user:password@]host[:port][,host[:port]...]/MASTER[/db]\
                         [?sentinel_user=USER&sentinel_password=PASSWORD]";
/// The options that URLs of each form can have.
const LAYOUT: &str = "layout";
const SEMAPHORES: &str = "semaphores";
const PASSWORD_FILE: &str = "password_file";

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

/// Parses a URL of one of these forms.
pub(super) fn read(url: &str) -> Result<RedisOptions> {
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
    let mut options = options(scheme, &parsed)?;
    let layout = options.remove(LAYOUT).map(|value| Layout::parse(&value)).transpose()?.unwrap_or_default();
    let semaphores = options.remove(SEMAPHORES).map(|value| Semaphores::parse(&value)).transpose()?.unwrap_or_default();
    let format = Format { layout, semaphores, in_cluster: scheme.is_cluster(), ..Format::default() };
    format.check()?;
    let address_map =
        options.remove(ADDRESS_MAP).map(|value| AddressMap::parse(&value)).transpose()?.unwrap_or_default();
    let user = decoded("user", parsed.username())?;
    let password = parsed.password().map(|password| decoded("password", password)).transpose()?.flatten();
    let login = login(user, password, PASSWORD_FILE, &mut options)?;
    let path = parsed.path();
    let (address, db) = match scheme {
        Scheme::Tcp => (Address::Tcp { host: host(&parsed), port: port(&parsed) }, db(path)?),
        Scheme::Tls => {
            (Address::Tls { host: host(&parsed), port: port(&parsed), files: files(&mut options)? }, db(path)?)
        }
        Scheme::Unix => (Address::Unix { path: socket(path)? }, db(&options.remove("db").unwrap_or_default())?),
        Scheme::Cluster => (Address::Tcp { host: host(&parsed), port: port(&parsed) }, no_db(path)?),
        Scheme::ClusterTls => {
            (Address::Tls { host: host(&parsed), port: port(&parsed), files: files(&mut options)? }, no_db(path)?)
        }
        Scheme::Sentinels | Scheme::SentinelsTls => {
            let tls = (scheme == Scheme::SentinelsTls).then(|| files(&mut options)).transpose()?;
            let (sentinels, db) = sentinels::read(hosts, path, tls, &mut options)?;
            (Address::Sentinels(sentinels), db)
        }
    };
    let nodes = if scheme.is_cluster() { nodes(url, form)? } else { Vec::new() };
    Ok(RedisOptions {
        address,
        nodes,
        db,
        login,
        timeout: Duration::from_secs(3),
        format,
        shown_as: None,
        is_sentinel: false,
        replicas: 0,
        address_map,
        named: None,
    })
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

    /// The names of the query options that this scheme allows.
    fn allowed_options(self) -> &'static [&'static str] {
        match self {
            Self::Tcp => &[LAYOUT, SEMAPHORES, PASSWORD_FILE],
            Self::Tls => &[LAYOUT, SEMAPHORES, PASSWORD_FILE, "ca", "cert", "key"],
            Self::Cluster => &[LAYOUT, SEMAPHORES, PASSWORD_FILE, ADDRESS_MAP],
            Self::ClusterTls => &[LAYOUT, SEMAPHORES, PASSWORD_FILE, ADDRESS_MAP, "ca", "cert", "key"],
            Self::Unix => &[LAYOUT, SEMAPHORES, PASSWORD_FILE, "db"],
            Self::Sentinels => &[
                LAYOUT,
                SEMAPHORES,
                PASSWORD_FILE,
                ADDRESS_MAP,
                "sentinel_user",
                "sentinel_password",
                "sentinel_password_file",
            ],
            Self::SentinelsTls => &[
                LAYOUT,
                SEMAPHORES,
                PASSWORD_FILE,
                ADDRESS_MAP,
                "sentinel_user",
                "sentinel_password",
                "sentinel_password_file",
                "ca",
                "cert",
                "key",
            ],
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
fn nodes(url: &str, form: &str) -> Result<Vec<(String, u16)>> {
    let each = each_host(url).into_iter().map(|each| {
        let unreadable =
            || format!("the URL {:?} has a host that cannot be read; expected {form}", without_secrets(url));
        match Url::parse(&each) {
            Ok(parsed) if parsed.has_host() => Ok((host(&parsed), port(&parsed))),
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
        _ => Err(Error::misused(format!("a Redis Cluster has no numbered databases; remove {path:?} from the URL"))),
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

/// The login of this user. `file` is the query option that names the file with the password.
fn login(
    user: Option<String>,
    password: Option<String>,
    file: &'static str,
    options: &mut BTreeMap<String, String>,
) -> Result<Login> {
    Ok(match options.remove(file) {
        Some(path) => {
            let file = PasswordFile::of_url(file, path, password.is_some())?;
            Login::with_file(user, file)
        }
        None => {
            let password = password.or_else(|| user.is_some().then(String::new));
            Login::of_url(user, password)
        }
    })
}

/// The query options of a URL.
fn options(scheme: Scheme, url: &Url) -> Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for option in url.query().unwrap_or_default().split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !scheme.allowed_options().contains(&name) {
            if options.contains_key("sentinel_password") {
                return Err(Error::misused(
                    "the URL has an unknown option after sentinel_password=, perhaps a part of the password; in the \
                     password, write %26 for &",
                ));
            }
            let known = format!("{}, with the options layout=setnx or semaphores=plain", scheme.form());
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

fn port(url: &Url) -> u16 {
    url.port().unwrap_or(6379)
}

/// The host in the form that a resolver expects: an IPv6 address has no brackets.
fn host(url: &Url) -> String {
    match url.host() {
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(Host::Domain(name)) if !name.is_empty() => name.into(),
        Some(Host::Domain(_)) | None => "localhost".into(),
    }
}

/// Reads the number of the database. It is the path of the URL, or the value of the option `db`.
fn db(path: &str) -> Result<u16> {
    let number = path.strip_prefix('/').unwrap_or(path);
    if number.is_empty() {
        return Ok(0);
    }
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    number
        .parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| Error::misused(format!("{path:?} is not a database; expected a number from 0 to 65535")))
}

/// The error for an unknown part of a URL: `what` is the kind of the part, and `text` is the part. If the part contains
/// an `@`, the text before the `@` is hidden, because it might belong to a password that was not encoded.
fn unknown(what: &str, text: &str, form: &str) -> Error {
    let shown = text.rsplit_once('@').map_or(text.to_owned(), |(_, rest)| format!("***@{rest}"));
    Error::misused(format!("the {what} {shown:?} is unknown; expected {form}"))
}

/// The percent-decoded text. None if it is empty. The text might be secret, so error messages contain only `what`, the
/// name of this part of the URL.
fn decoded(what: &str, text: &str) -> Result<Option<String>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next())
                .zip(hex(rest.next()))
                .map(|(high, low)| high << 4 | low)
                .ok_or_else(|| undecodable(what))?,
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| undecodable(what))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn undecodable(what: &str) -> Error {
    Error::misused(format!("the {what} of the URL cannot be decoded; expected UTF-8, with %XX for special characters"))
}

/// The value of a hexadecimal digit.
fn hex(digit: Option<u8>) -> Option<u8> {
    match digit? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The text of a URL that could not be parsed, without any part that might be a user or a password.
fn without_secrets(url: &str) -> String {
    if let Some((before, _)) = url.split_once("sentinel_password") {
        return format!("{}sentinel_password=***", without_secrets(before));
    }
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        (None, Some((_, rest))) => format!("***@{rest}"),
        // The `@` may have been mistyped. Then the text at the position of the port might be a password.
        (Some((scheme, rest)), None) if rest.split_once(':').is_some_and(|(_, port)| !is_port(port)) => {
            format!("{scheme}://***")
        }
        (_, None) => url.into(),
    }
}

fn is_port(text: &str) -> bool {
    text.split('/').next().is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}
