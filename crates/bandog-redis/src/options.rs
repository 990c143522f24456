//! Where the server is, and how long to wait for it.

use std::{fmt, net::IpAddr, time::Duration};

use bandog_core::{Error, Result};
use url::{Host, Url};

const FORM: &str = "redis://[user:password@]host[:port][/db]";

/// Where a Redis server is and who we are there.
///
/// ```
/// use std::time::Duration;
/// use bandog_redis::RedisOptions;
/// let options = RedisOptions::from_url("redis://app:secret@cache:6380/2")?.timeout(Duration::from_secs(1));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), bandog_core::Error>(())
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) db: u16,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) timeout: Duration,
}

impl RedisOptions {
    /// Reads a URL of the form `redis://[user:password@]host[:port][/db]`.
    ///
    /// The host defaults to `localhost`, the port to 6379 and the database to 0. User and password are
    /// percent-decoded; a user without a password logs in with an empty one.
    ///
    /// # Errors
    /// `Misused` for anything else, with the part that is wrong. A password is never part of a message.
    pub fn from_url(url: &str) -> Result<Self> {
        let parsed = Url::parse(url).map_err(|error| {
            Error::misused(format!("the URL {:?} cannot be read; it takes {FORM}", without_secrets(url)))
                .caused_by(error)
        })?;
        if parsed.scheme() != "redis" {
            return Err(Error::misused(format!("the scheme {:?} is unknown; it takes redis", parsed.scheme())));
        }
        if parsed.cannot_be_a_base() {
            return Err(Error::misused(format!("the URL {:?} lacks its //; it takes {FORM}", without_secrets(url))));
        }
        refuse_rest("query", parsed.query())?;
        refuse_rest("fragment", parsed.fragment())?;
        let user = decoded("user", parsed.username())?;
        let password = parsed.password().map(|password| decoded("password", password)).transpose()?.flatten();
        Ok(Self {
            host: host(&parsed),
            port: parsed.port().unwrap_or(6379),
            db: db(parsed.path())?,
            password: password.or_else(|| user.is_some().then(String::new)),
            user,
            timeout: Duration::from_secs(3),
        })
    }

    /// How long one request may take, from 1 ms to a day; 3 s unless set.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Whether what is said stays on this machine.
    pub(crate) fn is_local(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// The address without user and password: `redis://host:port/db`.
    pub(crate) fn store(&self) -> String {
        let Self { host, port, db, .. } = self;
        if host.contains(':') { format!("redis://[{host}]:{port}/{db}") } else { format!("redis://{host}:{port}/{db}") }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("store", &self.store())
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// The host as a resolver takes it: an IPv6 address without its brackets.
fn host(url: &Url) -> String {
    match url.host() {
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        Some(Host::Domain(name)) if !name.is_empty() => name.into(),
        Some(Host::Domain(_)) | None => "localhost".into(),
    }
}

fn db(path: &str) -> Result<u16> {
    let number = path.strip_prefix('/').unwrap_or(path);
    if number.is_empty() {
        return Ok(0);
    }
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| digits).ok_or_else(|| {
        Error::misused(format!("the path {path:?} is no database; it takes a number from 0 to 65535, such as /2"))
    })
}

fn refuse_rest(what: &str, rest: Option<&str>) -> Result<()> {
    match rest {
        // What stands before an `@` is a piece of a password that was not encoded.
        Some(rest) => {
            let shown = rest.rsplit_once('@').map_or(rest.to_owned(), |(_, rest)| format!("***@{rest}"));
            Err(Error::misused(format!("the {what} {shown:?} is unknown; a URL takes {FORM}")))
        }
        None => Ok(()),
    }
}

/// The text behind `%XX`, or none when it is empty. The text itself may be secret, so it is in no message.
fn decoded(what: &str, text: &str) -> Result<Option<String>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                hex(rest.next()).zip(hex(rest.next())).map(|(high, low)| high << 4 | low).ok_or_else(|| wrong(what))?
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong(what))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn wrong(what: &str) -> Error {
    Error::misused(format!("the {what} of the URL cannot be decoded; it takes UTF-8 with %XX for other bytes"))
}

fn hex(digit: Option<u8>) -> Option<u8> {
    match digit? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// A URL that could not be read, with all that may be a user or a password taken out.
fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        (None, Some((_, rest))) => format!("***@{rest}"),
        // The `@` may have been mistyped, and then what stands where a port should is a password.
        (Some((scheme, rest)), None) if rest.split_once(':').is_some_and(|(_, port)| !is_port(port)) => {
            format!("{scheme}://***")
        }
        (_, None) => url.into(),
    }
}

fn is_port(text: &str) -> bool {
    text.split('/').next().is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
