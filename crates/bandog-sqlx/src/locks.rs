//! The locks that a transaction checks.

use std::time::Duration;

use bandog_core::{Error, Key, Result, SqlStatement};
use bandog_sync::{AllGuard, Guard};

/// One lock, or several.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Locks<'g> {
    One(&'g Guard),
    Several(&'g AllGuard),
}

impl Locks<'_> {
    /// The key of the first lock.
    pub(crate) fn key(self) -> Result<Key> {
        let first = match self {
            Self::One(guard) => Some(guard),
            Self::Several(guard) => guard.guards().first(),
        };
        first.map(|guard| guard.holding().key).ok_or_else(|| Error::misused("there is no lock"))
    }

    /// The shortest ttl of the locks.
    pub(crate) fn ttl(self) -> Duration {
        match self {
            Self::One(guard) => guard.ttl(),
            Self::Several(guard) => guard.ttl(),
        }
    }

    /// The statements that check the locks. An error if a lock is lost.
    pub(crate) async fn statements(self) -> Result<Vec<SqlStatement>> {
        match self {
            Self::One(guard) => Ok(vec![guard.fence_sql().await?]),
            Self::Several(guard) => guard.fence_sql().await,
        }
    }
}

impl<'g> From<&'g Guard> for Locks<'g> {
    fn from(guard: &'g Guard) -> Self {
        Self::One(guard)
    }
}

impl<'g> From<&'g AllGuard> for Locks<'g> {
    fn from(guard: &'g AllGuard) -> Self {
        Self::Several(guard)
    }
}
