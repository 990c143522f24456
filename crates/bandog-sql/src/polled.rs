//! What the last poll of a MySQL server has seen of a lease.

use std::time::{Duration, Instant, SystemTime};

use bandog_core::{Claim, ClaimId};

/// Time after which a poll says nothing about a lease any more. Polls are at most 0.4 s apart.
const FRESH: Duration = Duration::from_secs(1);

/// A lease that is held, and whose release notifies the channel.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MySQL has polls"))]
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

#[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MySQL has polls"))]
impl PolledLease {
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
