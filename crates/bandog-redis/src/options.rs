//! Where the server is, and how long to wait for it.

mod url;

use std::{fmt, net::IpAddr, path::PathBuf, time::Duration};

use bandog_core::Result;

/// Where a Redis server is and who we are there.
///
/// ```
/// use std::time::Duration;
/// use bandog_redis::RedisOptions;
/// let options = RedisOptions::from_url("redis://app:secret@cache:6380/2")?.timeout(Duration::from_secs(1));
/// assert!(!format!("{options:?}").contains("secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) place: Place,
    pub(crate) db: u16,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) timeout: Duration,
}

/// Where it listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16, files: Files },
    Unix { path: PathBuf },
}

/// Files in PEM that TLS needs. They are read at each dial, so that a renewed certificate is used by the next one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Files {
    /// The authorities to trust instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl RedisOptions {
    /// Reads a URL of one of these forms:
    ///
    /// - `redis://[user:password@]host[:port][/db]`;
    /// - `rediss://[user:password@]host[:port][/db][?ca=PATH][&cert=PATH&key=PATH]`: over TLS;
    /// - `redis+unix://[user:password@]/PATH[?db=N]`: a socket of this machine.
    ///
    /// The host defaults to `localhost`, the port to 6379 and the database to 0. User, password and paths are
    /// percent-decoded; a user without a password logs in with an empty one.
    ///
    /// Over TLS the server's certificate must be made for the host and signed by an authority that the system trusts,
    /// or by one of those in the file `ca`. A server that wants to know its clients is shown the certificate in
    /// `cert`. The files are PEM, and are read at each dial.
    ///
    /// # Errors
    /// `Misused` for anything else, with the part that is wrong. A password is never part of a message.
    pub fn from_url(url: &str) -> Result<Self> {
        url::read(url)
    }

    /// How long one request may take, from 1 ms to a day; 3 s unless set.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Whether what is said stays on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match &self.place {
            Place::Tcp { host, .. } | Place::Tls { host, .. } => {
                host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Place::Unix { .. } => true,
        }
    }

    /// The address without user and password: `redis://host:port/db`.
    pub(crate) fn store(&self) -> String {
        let db = self.db;
        let (scheme, host, port) = match &self.place {
            Place::Tcp { host, port } => ("redis", host, port),
            Place::Tls { host, port, .. } => ("rediss", host, port),
            Place::Unix { path } => return format!("redis+unix://{}?db={db}", path.display()),
        };
        if host.contains(':') {
            format!("{scheme}://[{host}]:{port}/{db}")
        } else {
            format!("{scheme}://{host}:{port}/{db}")
        }
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

#[cfg(test)]
mod tests;
