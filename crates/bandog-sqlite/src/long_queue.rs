//! Steps of fair mutexes that many claims wait for. Such a step reads a few rows, not the whole queue.
//!
//! [`LockState`] decides these steps, too. It gets only the rows on which the answer depends: the holds, the first places
//! of the queue, and the row of the claim. All other places are behind the first place that has not expired, so they do
//! not change the answers to these steps:
//!
//! - the release of a hold: it depends on the holds, and notifies the first place;
//! - the release of a place: it depends on that place, and notifies the first place if the lock is free;
//! - the claim that holds the lock or has the first place: no other place is before it;
//! - a claim with another place, while the lock is held: it depends on the hold and on the number of places before it,
//!   which a query counts;
//! - the renewal of a place while the lock is held: it depends on the hold and on that place.
//!
//! The step removes an expired place only if it reads that place. The other expired places are removed later: when they
//! are first in the queue, or when a step reads the whole queue.

use bandog_core::{Claim, ClaimId, Key, Kind, Renewal, Step};
use rusqlite::{OptionalExtension, params};

use crate::{
    claim_rows::{ClaimRow, read_claim},
    fault::Fault,
    rules::HoldState,
    sql,
    stored_state::{StoredState, is_shared},
    table::Table,
};

/// Number of places that a step reads from the beginning of a queue. A shorter queue is read as a whole.
const FIRST_PLACES: i32 = 8;

impl Table<'_> {
    /// The state of a lock with all rows on which the step depends.
    pub(crate) fn load_for(&mut self, step: &Step, now_ns: i64) -> Result<StoredState, Fault> {
        let key = step.key();
        let is_loaded = self.loaded.as_ref().is_some_and(|(loaded, _)| loaded == key);
        if !is_loaded && let Some(stored) = self.load_first_places(step, now_ns)? {
            return Ok(stored);
        }
        self.load_once(key, now_ns)
    }

    /// The state of a fair mutex without most of its places. None if the queue is short, or if the step may depend on
    /// other places.
    fn load_first_places(&mut self, step: &Step, now_ns: i64) -> Result<Option<StoredState>, Fault> {
        let claim = match step {
            Step::Claim(claim) | Step::Release(claim) if matches!(claim.kind, Kind::Fair) => claim,
            Step::Claim(_) | Step::Release(_) | Step::Pass { .. } => return Ok(None),
        };
        if !self.has_locks() {
            return Ok(None);
        }
        let (key, boot) = (&claim.key, self.host().boot());
        let params = params![key.as_str(), boot, FIRST_PLACES];
        let places = self.statement(sql::FIRST_PLACES)?.query_map(params, read_claim)?;
        let mut rows = places.collect::<Result<Vec<_>, _>>()?;
        let is_valid = |row: &ClaimRow| row.times.expires_ns > now_ns;
        let first = rows.iter().find(|row| is_valid(row)).map(|row| row.id);
        let has_next = rows.iter().any(|row| is_valid(row) && row.id != claim.id);
        let is_whole_queue = i32::try_from(rows.len()).is_ok_and(|number| number < FIRST_PLACES);
        if is_whole_queue || !has_next {
            return Ok(None);
        }
        let holds = self.holds(key)?;
        let is_hold = holds.iter().any(|row| row.id == claim.id);
        let lease = self.lease(key)?;
        if is_shared(&lease) || lease.is_foreign(now_ns) {
            return Ok(None);
        }
        let is_held = lease.state(now_ns, None) != HoldState::Free;
        if is_hold && !(is_held && lease.owner.as_deref() == Some(&*claim.id.to_string())) {
            return Ok(None); // The hold has ended, and its row is removed with the rules for all rows.
        }
        let last_read = rows.last().map_or(0, |row| row.rank);
        let mut unread_ahead = 0;
        if !is_hold && rows.iter().all(|row| row.id != claim.id) {
            rows.extend(self.claim_row(key, claim.id)?);
        }
        if matches!(step, Step::Claim(_)) && !is_hold && first != Some(claim.id) {
            // Without a hold, the answer depends on when the other places expire. A new place needs the last rank.
            let Some(place) = rows.iter().find(|row| row.id == claim.id && is_valid(row) && is_held) else {
                return Ok(None);
            };
            let params = params![key.as_str(), place.rank, now_ns, last_read];
            unread_ahead = self.statement(sql::COUNT_PLACES)?.query_row(params, |row| row.get(0))?;
        }
        rows.extend(holds);
        if has_other_rules(&rows, now_ns) {
            return Ok(None);
        }
        let mut stored = self.assemble(key, lease, rows, None, now_ns)?;
        (stored.is_whole, stored.unread_ahead) = (false, unread_ahead);
        Ok(Some(stored))
    }

    /// Renews the place of a claim for a fair mutex. None if the claim has no place, or if the rows of the lock were
    /// read already.
    pub(crate) fn renew_in_long_queue(&mut self, claim: &Claim, now_ns: i64) -> Result<Option<Renewal>, Fault> {
        let is_loaded = self.loaded.as_ref().is_some_and(|(loaded, _)| *loaded == claim.key);
        if !matches!(claim.kind, Kind::Fair) || is_loaded || !self.has_locks() {
            return Ok(None);
        }
        let row = self.claim_row(&claim.key, claim.id)?;
        let Some(row) = row.filter(|row| row.fence.is_none()) else { return Ok(None) };
        let lease = self.lease(&claim.key)?;
        // If the lock is free, the answer depends on the places before this one.
        if lease.is_foreign(now_ns) || lease.state(now_ns, None) == HoldState::Free {
            return Ok(None);
        }
        let mut rows = self.holds(&claim.key)?;
        rows.push(row);
        if has_other_rules(&rows, now_ns) {
            return Ok(None);
        }
        let mut stored = self.assemble(&claim.key, lease, rows, None, now_ns)?;
        let renewal = stored.state.renew(claim, self.moment(now_ns));
        if let Some(valid_for) = renewal.valid_for() {
            self.extend_claim_row(&claim.key, claim.id, valid_for, now_ns)?;
        }
        Ok(Some(renewal))
    }

    /// The rows of the claims that hold the lock.
    fn holds(&mut self, key: &Key) -> Result<Vec<ClaimRow>, Fault> {
        let boot = self.host().boot();
        let holds = self.statement(sql::HOLDS)?.query_map([key.as_str(), boot], read_claim)?;
        Ok(holds.collect::<Result<_, _>>()?)
    }

    /// The row of one claim.
    fn claim_row(&mut self, key: &Key, id: ClaimId) -> Result<Option<ClaimRow>, Fault> {
        let params = params![key.as_str(), self.host().boot(), id.to_string()];
        Ok(self.statement(sql::CLAIM)?.query_row(params, read_claim).optional()?)
    }
}

/// Whether more rules than those of a fair mutex of this boot are needed: rows of other kinds, or of other boots.
fn has_other_rules(rows: &[ClaimRow], now_ns: i64) -> bool {
    rows.iter().any(|row| !matches!(row.kind, Kind::Fair) || row.times.is_foreign(now_ns))
}
