//! The address of the server, the login, the timeout, and the format of the data.

mod format;

use std::{fmt, time::Duration};

use bandog_core::Result;
use bandog_net::CredentialsSource;
use bandog_redis_net::{FurtherOptions, Options};

pub(crate) use self::format::Format;
pub use self::format::{Layout, Semaphores};

/// The names of the options of a URL that are about the format of the data.
const LAYOUT: &str = "layout";
const SEMAPHORES: &str = "semaphores";
const FURTHER: FurtherOptions =
    FurtherOptions { names: &[LAYOUT, SEMAPHORES], shown: ", with the options layout=setnx or semaphores=plain" };

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
    connection: Options,
    pub(crate) format: Format,
}

impl RedisOptions {
    /// Reads a URL of one of these forms:
    ///
    /// - `redis://[user:password@]host[:port][/db]`;
    /// - `rediss://[user:password@]host[:port][/db][?ca=PATH][&cert=PATH&key=PATH]`: over TLS;
    /// - `redis+unix://[user:password@]/PATH[?db=N]`: over a Unix socket;
    /// - `redis+cluster://[user:password@]host[:port][,host[:port]…]`: the nodes of a Redis Cluster. One of them is
    ///   enough; the others are found. All nodes have the same users;
    /// - `rediss+cluster://[user:password@]host[:port][,host[:port]…][?ca=PATH][&cert=PATH&key=PATH]`: the same over TLS.
    /// - `redis+sentinel://[user:password@]host[:port][,host[:port]…]/MASTER[/db]`: the master that these sentinels name,
    ///   and its successor after a failover. `rediss+sentinel://` connects to the sentinels and to the master over TLS, with
    ///   the options of `rediss://`. The options `sentinel_user` and `sentinel_password` are the login at the sentinels;
    ///   the user and the password before the hosts are the login at the master.
    ///
    /// A URL of a cluster or of sentinels accepts `?address_map=INNER:PORT>OUTER:PORT`, with commas between several pairs:
    /// a server that is named by the first address is reached at the second one, and its certificate must be valid for that.
    ///
    /// Each form also accepts `?layout=redisson` or `?layout=setnx` ([`Layout`]), and `?semaphores=leased` or
    /// `?semaphores=plain` ([`Semaphores`]).
    ///
    /// The host defaults to `localhost`, the port to 6379 (of a sentinel: 26379) and the database to 0. User, password and paths are
    /// percent-decoded. If the URL has a user and no password, the password is empty.
    ///
    /// `?password_file=PATH` names a file with the password, which is read for each new connection; `sentinel_password_file`
    /// is the same for the sentinels. One line end at the end of the file is no part of the password.
    ///
    /// Over TLS, the server's certificate must be valid for the host. It must be signed by an authority in the file
    /// `ca` or, without `ca`, by an authority that the system trusts. If the server asks for a client certificate, the
    /// client sends the certificate in `cert`. The files have PEM format, and are read at each connection attempt.
    ///
    /// # Errors
    /// Any other text is refused with `ErrorKind::Misused`. The message names the wrong part, and never contains a
    /// password.
    pub fn from_url(url: &str) -> Result<Self> {
        let (connection, mut further) = Options::from_url(url, &FURTHER)?;
        let layout = further.remove(LAYOUT).map(|value| Layout::parse(&value)).transpose()?.unwrap_or_default();
        let semaphores =
            further.remove(SEMAPHORES).map(|value| Semaphores::parse(&value)).transpose()?.unwrap_or_default();
        let format = Format { layout, semaphores, in_cluster: connection.is_cluster(), ..Format::default() };
        format.check()?;
        Ok(Self { connection, format })
    }

    /// Sets the timeout of one request. It must be between 1 ms and one day. The default is 3 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { connection: self.connection.with_timeout(timeout), ..self }
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

    /// Sets the number of replicas that must acknowledge each grant and each renewal. The default is 0.
    ///
    /// A grant is answered when this number of replicas has acknowledged it, so it takes longer by the replication lag.
    /// If one of these replicas takes over, it has the lock. Without the acknowledgements, the grant fails with
    /// `ErrorKind::NotReplicated`, and the lock is released. A renewal without them counts as a renewal without an
    /// answer. Refusals and releases do not wait for replicas. Records and latches are not covered.
    ///
    /// The user needs the rights to run `PEXPIRE`, `SET`, `WAIT` and `INFO`, and the right for the key `bandog:ack`, which
    /// has a ttl. A lock must not have this name.
    ///
    /// ```
    /// use bandog_redis::{Redis, RedisOptions};
    /// let redis = Redis::new(RedisOptions::from_url("redis://cache")?.replicas(1))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn replicas(self, replicas: u8) -> Self {
        Self { connection: self.connection.with_replicas(replicas), ..self }
    }

    /// Sets the function that gives the credentials of each new connection, instead of the password of the URL. The login at
    /// sentinels stays the one of the URL.
    #[must_use]
    pub fn credentials(self, source: CredentialsSource) -> Self {
        Self { connection: self.connection.with_credentials(source), ..self }
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

    /// Checks the timeout and the layouts.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the timeout is not between 1 ms and one day, or the layouts do not fit together.
    pub fn check(&self) -> Result<()> {
        self.format.check()?;
        self.connection.check()
    }

    /// The options of the connections. Clients with different formats do not see each other's locks, so each format is a
    /// store of its own.
    pub(crate) fn connection(&self) -> Options {
        self.connection.clone().with_suffix(self.format.suffix())
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisOptions").field(&self.connection()).finish()
    }
}

#[cfg(test)]
mod tests {
    use bandog_core::ErrorKind;

    use super::*;

    #[test]
    fn the_format_of_the_data_is_an_option_of_each_form() {
        let read = |url| RedisOptions::from_url(url).unwrap();
        for (url, store) in [
            ("redis://h?layout=setnx", "redis://h:6379/0?layout=setnx"),
            ("redis://h?layout=redisson&semaphores=leased", "redis://h:6379/0"),
            ("rediss://h?semaphores=plain&ca=x", "rediss://h:6379/0?semaphores=plain"),
            ("redis+unix:///s?db=1&layout=setnx", "redis+unix:///s?db=1&layout=setnx"),
            ("redis+sentinel://h/orders?layout=setnx", "redis+sentinel://h:26379/orders/0?layout=setnx"),
        ] {
            assert_eq!(read(url).connection().store(), store);
            let format = read(url).format;
            let same = read("redis://h").layout(format.layout).semaphores(format.semaphores);
            assert_eq!(same.format, format);
        }
        for (url, named) in [
            ("redis://h?layout=redlock", "redisson and setnx are known"),
            ("redis://h?semaphores=unleased", "leased and plain are known"),
            ("redis://h?layout=setnx&semaphores=plain", "remove one"),
            ("redis://h?format=setnx", "layout=setnx or semaphores=plain"),
        ] {
            let error = RedisOptions::from_url(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misused, "{url}");
            assert!(error.to_string().contains(named), "{url}: {error}");
        }
    }
}
