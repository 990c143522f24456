//! The format of the data: the layout of mutexes and of semaphores.

use std::time::Duration;

use bandog_core::{Error, Kinds, LockState, Result};

/// The layout of mutexes.
///
/// All clients that share a lock must use the same layout. Example:
///
/// ```
/// use bandog_redis::{Layout, RedisOptions};
/// let options = RedisOptions::from_url("redis://cache?layout=setnx")?;
/// let same = RedisOptions::from_url("redis://cache")?.layout(Layout::Setnx);
/// assert_eq!(format!("{options:?}"), format!("{same:?}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// The layout of Redisson's locks, `?layout=redisson`. This is the default. It has all kinds of locks.
    #[default]
    Redisson,
    /// The layout of locks that are written with `SET NX PX`, `?layout=setnx`: the lock `N` is a string under the key
    /// `N`, with a ttl. Many hand-written locks, rslock and redsync have this layout.
    ///
    /// - There are mutexes only. The handle of any other kind of lock is refused with `ErrorKind::Misused`.
    /// - A fence orders the grants of bandog only, because the other clients draw no fence.
    /// - The other clients publish no notification. So a waiter may find their release only with its next poll, within a
    ///   second.
    /// - A key that another client wrote without a ttl is held until the key is deleted.
    Setnx,
}

/// The layout of semaphores.
///
/// All clients that share a semaphore must use the same layout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Semaphores {
    /// The layout of Redisson's `RPermitExpirableSemaphore`, `?semaphores=leased`. This is the default. Each permit in
    /// the store has a lease, so the permits of each client that has died return.
    #[default]
    Leased,
    /// The layout of Redisson's `RSemaphore`, `?semaphores=plain`: the semaphore `N` is the number of its free permits,
    /// under the key `N`.
    ///
    /// **The permits of a Java client that dies are lost forever**, because the store does not record who has them. An
    /// operator must add them again. Use this layout only to share a semaphore with Java clients that use `RSemaphore`.
    ///
    /// The permits of a bandog client that has died return, but not by themselves: the next claim of a bandog client for
    /// this semaphore, or the next change of its limit, returns them.
    Plain,
}

/// The format of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) layout: Layout,
    pub(crate) semaphores: Semaphores,
    /// See [`crate::RedisOptions::java_skew`].
    pub(crate) java_skew: Duration,
    /// Whether the data are on the nodes of a Redis Cluster.
    pub(crate) in_cluster: bool,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            semaphores: Semaphores::default(),
            java_skew: Duration::from_secs(2),
            in_cluster: false,
        }
    }
}

impl Format {
    /// The kinds of locks that this format has.
    pub(crate) fn kinds(self) -> Kinds {
        match self.layout {
            Layout::Redisson => LockState::KINDS,
            Layout::Setnx => Kinds::MUTEX,
        }
    }

    /// Checks that the layouts fit together.
    pub(crate) fn check(self) -> Result<()> {
        match (self.layout, self.semaphores) {
            (Layout::Setnx, Semaphores::Plain) => Err(Error::misused(
                "layout=setnx has no semaphores, so semaphores=plain has no effect; remove one of these options",
            )),
            (Layout::Redisson, _) | (Layout::Setnx, Semaphores::Leased) => Ok(()),
        }
    }

    /// The format as an option of a URL. Empty for the default.
    pub(crate) fn suffix(self) -> &'static str {
        match (self.layout, self.semaphores) {
            (Layout::Setnx, _) => "layout=setnx",
            (Layout::Redisson, Semaphores::Plain) => "semaphores=plain",
            (Layout::Redisson, Semaphores::Leased) => "",
        }
    }
}

impl Layout {
    /// Parses the value of the option `layout`.
    pub(crate) fn parse(value: &str) -> Result<Self> {
        match value {
            "redisson" => Ok(Self::Redisson),
            "setnx" => Ok(Self::Setnx),
            _ => Err(Error::misused(format!("the layout {value:?} is unknown; redisson and setnx are known"))),
        }
    }
}

impl Semaphores {
    /// Parses the value of the option `semaphores`.
    pub(crate) fn parse(value: &str) -> Result<Self> {
        match value {
            "leased" => Ok(Self::Leased),
            "plain" => Ok(Self::Plain),
            _ => Err(Error::misused(format!("the semaphores {value:?} are unknown; leased and plain are known"))),
        }
    }
}
