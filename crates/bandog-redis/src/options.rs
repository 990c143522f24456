//! The address of the server, the login, the timeout, and the format of the data.

mod format;
mod url;

use std::{fmt, net::IpAddr, path::PathBuf, time::Duration};

use bandog_core::Result;

pub(crate) use self::format::Format;
pub use self::format::{Layout, Semaphores};

/// The address of a Redis server, the login, the timeout, and the format of the data.
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
    pub(crate) address: Address,
    /// The number of the database.
    pub(crate) db: u16,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// The timeout of one request.
    pub(crate) timeout: Duration,
    pub(crate) format: Format,
}

/// The address of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16, files: TlsFiles },
    Unix { path: PathBuf },
}

/// The PEM files for TLS. They are read at each connection attempt. So after a certificate was renewed, the next
/// connection uses the new certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The file of the trusted authorities. If the value is None, the authorities that the system trusts are used.
    pub(crate) ca: Option<PathBuf>,
    /// The file of the client's certificate, and the file of the key of this certificate.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl RedisOptions {
    /// Reads a URL of one of these forms:
    ///
    /// - `redis://[user:password@]host[:port][/db]`;
    /// - `rediss://[user:password@]host[:port][/db][?ca=PATH][&cert=PATH&key=PATH]`: over TLS;
    /// - `redis+unix://[user:password@]/PATH[?db=N]`: over a Unix socket.
    ///
    /// Each form also accepts `?layout=redisson` or `?layout=setnx` ([`Layout`]), and `?semaphores=leased` or
    /// `?semaphores=plain` ([`Semaphores`]).
    ///
    /// The host defaults to `localhost`, the port to 6379 and the database to 0. User, password and paths are
    /// percent-decoded. If the URL has a user and no password, the password is empty.
    ///
    /// Over TLS, the server's certificate must be valid for the host. It must be signed by an authority in the file
    /// `ca` or, without `ca`, by an authority that the system trusts. If the server asks for a client certificate, the
    /// client sends the certificate in `cert`. The files have PEM format, and are read at each connection attempt.
    ///
    /// # Errors
    /// Any other text is refused with `ErrorKind::Misused`. The message names the wrong part, and never contains a
    /// password.
    pub fn from_url(url: &str) -> Result<Self> {
        url::read(url)
    }

    /// Sets the timeout of one request. It must be between 1 ms and one day. The default is 3 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the time by which the clocks of Java clients may be ahead of the server's clock. The default is 2 s.
    ///
    /// Java clients compare the end of a semaphore's permits with their own clocks. So the permits of a claim stay in the
    /// store for this time after the claim's ttl, and no Java client takes them too early. If a holder dies, its permits
    /// are free this much later. Other kinds of locks do not use this time.
    #[must_use]
    pub fn java_skew(self, skew: Duration) -> Self {
        Self { format: Format { java_skew: skew, ..self.format }, ..self }
    }

    /// Sets the layout of mutexes. The default is [`Layout::Redisson`].
    #[must_use]
    pub fn layout(self, layout: Layout) -> Self {
        Self { format: Format { layout, ..self.format }, ..self }
    }

    /// Sets the layout of semaphores. The default is [`Semaphores::Leased`].
    #[must_use]
    pub fn semaphores(self, semaphores: Semaphores) -> Self {
        Self { format: Format { semaphores, ..self.format }, ..self }
    }

    /// Whether the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp { host, .. } | Address::Tls { host, .. } => {
                host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Address::Unix { .. } => true,
        }
    }

    /// The address without user and password: `redis://host:port/db`, and the format of the data if it is not the
    /// default. Clients with different formats do not see each other's locks, so each format is a store of its own.
    pub(crate) fn store(&self) -> String {
        let db = self.db;
        let (scheme, host, port) = match &self.address {
            Address::Tcp { host, port } => ("redis", host, port),
            Address::Tls { host, port, .. } => ("rediss", host, port),
            Address::Unix { path } => {
                return format!("redis+unix://{}?db={db}{}", path.display(), self.format.query('&'));
            }
        };
        let format = self.format.query('?');
        if host.contains(':') {
            format!("{scheme}://[{host}]:{port}/{db}{format}")
        } else {
            format!("{scheme}://{host}:{port}/{db}{format}")
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
