//! The trait [`Inspect`], for operators: it shows locks, holders, waiters and the store's health.

use std::time::Duration;

use async_trait::async_trait;

use crate::{ClientId, Error, ErrorKind, Finding, IfUnused, Key, Member, NamesPage, Pattern, Result, Row, Usage};

/// Operations for operators: they show the locks of a store, its clients and its health. Only [`Inspect::evict`],
/// [`Inspect::forget`] and [`Inspect::usage`] change data.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// The held locks whose names match the pattern, sorted by name.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>>;

    /// One lock, held or free. The default implementation searches the result of [`Inspect::list`].
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. The kind is [`ErrorKind::Denied`] if the store has other data than a lock under this
    /// key.
    async fn show(&self, key: &Key) -> Result<Row> {
        let rows = self.list(&Pattern::exactly(key)).await?;
        Ok(rows.into_iter().next().unwrap_or_else(|| Row::free(key)))
    }

    /// Several locks, held or free, in the order of the keys. The default implementation calls [`Inspect::show`] for
    /// each key.
    ///
    /// # Errors
    /// As [`Inspect::show`]. If one key fails, the call returns the first error and no rows.
    async fn show_all(&self, keys: &[Key]) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            rows.push(self.show(key).await?);
        }
        Ok(rows)
    }

    /// All clients in the store's registry, in no particular order. A backend without a registry returns an empty list.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn members(&self) -> Result<Vec<Member>> {
        Ok(Vec::new())
    }

    /// The rows of these clients in the store's registry, in no particular order. A client that is not in the registry
    /// has no row. The default implementation searches the result of [`Inspect::members`].
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn members_of(&self, clients: &[ClientId]) -> Result<Vec<Member>> {
        let mut members = self.members().await?;
        members.retain(|member| clients.contains(&member.id));
        Ok(members)
    }

    /// Evicts the holder of a lock: frees the lock without the holder's consent, and notifies the subscribers. Returns
    /// the row that the lock had before. None if the lock was free.
    ///
    /// The store reads and frees the lock in one step, so the returned row shows the holder that was evicted. The
    /// evicted holder notices the eviction at its next renewal. The fences of the lock continue to rise.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. The kind is [`ErrorKind::Denied`] if the store has other data than a lock under this
    /// key; the data is not changed. The default implementation returns [`ErrorKind::Unsupported`].
    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        let message = "this backend cannot take a lock from its holder";
        Err(Error::new(ErrorKind::Unsupported, message).during("evict").at(key))
    }

    /// Deletes all that the store keeps for a name, if no claim holds the lock or has a place: the last fence, and the
    /// number of permits of a semaphore. Returns whether the lock was free. If not, nothing changes,
    /// except on a quorum: there, the nodes that do not have the lock remove what they keep, also if other nodes have it.
    ///
    /// This is for names that are never used again. The next fence of the name may be smaller than its last one: it
    /// begins at the store's clock, or at 1 if fences are counters.
    ///
    /// # Errors
    /// As [`Inspect::evict`].
    async fn forget(&self, key: &Key) -> Result<bool> {
        Err(Error::new(ErrorKind::Unsupported, "this backend cannot delete names").during("forget").at(key))
    }

    /// Reads a part of the names for which the store keeps a fence. `after` is [`NamesPage::next`] of the part before; None
    /// for the first part. A name that is granted for the first time meanwhile can be left out.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. The default implementation returns [`ErrorKind::Unsupported`].
    async fn names_page(&self, pattern: &Pattern, unused_for: Duration, after: Option<&str>) -> Result<NamesPage> {
        let _ = (pattern, unused_for, after);
        Err(Error::new(ErrorKind::Unsupported, "this backend cannot search names").during("forget"))
    }

    /// Checks which of these names are unused: free, without a claim that has a place, and last granted at least
    /// `unused_for` ago by the store's clock. With [`IfUnused::Forget`], the store deletes what it keeps for the unused
    /// names; the check of a name and its deletion are one step. Returns one answer for each key.
    ///
    /// The next fence of a name that was forgotten is greater than each fence before, unless the store's clock was set back
    /// by more than `unused_for` since the last grant. The names of semaphores are never unused, because the number of their
    /// permits is a setting.
    ///
    /// # Errors
    /// As [`Inspect::names_page`]. Some of the names can be forgotten nevertheless.
    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        let _ = (keys, unused_for, then);
        Err(Error::new(ErrorKind::Unsupported, "this backend cannot forget unused names").during("forget"))
    }

    /// Checks the store and its environment for dangers to locks, and returns one finding for each check. The default
    /// implementation checks nothing.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. If a single check cannot be made, the call returns a finding about this check, and
    /// no error.
    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// As [`Inspect::check`], for a client that puts this prefix before all its names. Rights for names without this
    /// prefix are not checked. The default implementation calls [`Inspect::check`].
    ///
    /// # Errors
    /// As [`Inspect::check`].
    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        let _ = prefix;
        self.check().await
    }
}
