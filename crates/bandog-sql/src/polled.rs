//! The state of a lease, as the last poll has read it.

use std::time::{Duration, Instant, SystemTime};

use bandog_core::{Claim, ClaimId};

use crate::{fault::Fault, row::Row};

/// Time after which a poll says nothing about a lease any more. Polls are at most 0.45 s apart on MySQL, and 0.8 s on
/// PostgreSQL.
const FRESH: Duration = Duration::from_secs(1);

/// A lease that is held, and whose release notifies the channel.
#[derive(Debug, Clone)]
pub(crate) struct PolledLease {
    pub(crate) owner: String,
    pub(crate) is_starving: bool,
    /// The end of the lease by the clock of the server.
    pub(crate) expires: SystemTime,
    /// The end of the lease by the clock of this process, or a little later.
    pub(crate) until: Instant,
    /// The moment before the poll was sent. None if this client has changed the lock since.
    pub(crate) asked_at: Option<Instant>,
}

impl PolledLease {
    /// Reads the owner, the time of the expiry, the remaining time in microseconds, and whether a client starves, from the
    /// columns that begin with this one.
    pub(crate) fn read(row: &Row, column: usize, asked_at: Instant, answered_at: Instant) -> Result<Self, Fault> {
        let left: i64 = row.try_get(column + 2)?;
        Ok(Self {
            owner: row.try_get(column)?,
            is_starving: row.try_get(column + 3)?,
            expires: row.try_get(column + 1)?,
            until: answered_at + Duration::from_micros(left.max(0).unsigned_abs()),
            asked_at: Some(asked_at),
        })
    }

    /// The same with what an earlier poll has seen. An answer that comes late makes `until` late. The engine would take a
    /// later end for a new hold, so the end of one lease only becomes earlier.
    pub(crate) fn after(self, earlier: Option<&Self>) -> Self {
        let same = earlier.filter(|earlier| earlier.owner == self.owner && earlier.expires == self.expires);
        let until = same.map_or(self.until, |earlier| earlier.until.min(self.until));
        Self { until, ..self }
    }

    /// The same. If the poll was sent before this client has changed the lock, it says nothing about the present.
    pub(crate) fn unless_asked_before(self, changed_at: Option<Instant>) -> Self {
        let asked_at = self.asked_at.filter(|asked_at| changed_at.is_none_or(|changed_at| *asked_at > changed_at));
        Self { asked_at, ..self }
    }

    /// The time for which the store would answer that this claim is busy, and would write nothing. None if this is not
    /// known.
    pub(crate) fn busy_for(&self, claim: &Claim) -> Option<Duration> {
        let now = Instant::now();
        let is_fresh = self.asked_at.is_some_and(|asked_at| now.saturating_duration_since(asked_at) < FRESH);
        let is_other = self.owner != claim.id.to_string() && self.owner != ClaimId::OFFERED.to_string();
        // The first claim that starves leaves a note in the store.
        let is_noted = self.is_starving || !claim.offers;
        let left = self.until.saturating_duration_since(now);
        (is_fresh && is_other && is_noted && !left.is_zero()).then_some(left)
    }
}
