//! The rows of the table `claim`: the holds and the places of locks that are not mutexes.

use std::{collections::HashMap, time::Duration};

use bandog_core::{ClaimId, Error, Fence, Hold, Key, Kind, LockState, Moment, Place};
use rusqlite::{Row, params, types::Type};

use crate::{
    fault::Fault,
    rules::{Lease, nanos},
    sql,
    table::Table,
};

/// A row of the table `claim`.
#[derive(Debug)]
pub(crate) struct ClaimRow {
    pub(crate) id: ClaimId,
    pub(crate) kind: Kind,
    pub(crate) rank: i64,
    /// The last fence of the hold. None if the row is a place.
    pub(crate) fence: Option<Fence>,
    /// The times of the row. The rules are those of the rows of the table `lease`.
    pub(crate) times: Lease,
}

/// A change of the rows, from one state to the next.
enum RowChange {
    Ended(ClaimId),
    Extended(ClaimId, Moment),
    Added(Entry),
}

/// A hold or a place of a state.
#[derive(Clone, Copy)]
struct Entry {
    id: ClaimId,
    kind: Kind,
    until: Moment,
    fence: Option<Fence>,
}

impl From<&Hold> for Entry {
    fn from(hold: &Hold) -> Self {
        Self { id: hold.id, kind: hold.kind, until: hold.until, fence: Some(hold.last_fence) }
    }
}

impl From<&Place> for Entry {
    fn from(place: &Place) -> Self {
        Self { id: place.id, kind: place.kind, until: place.until, fence: None }
    }
}

/// The name under which the table `sighting` has the sighting of a row of this table. No key contains a newline.
pub(crate) fn sighting_name(key: &Key, id: ClaimId) -> String {
    format!("{key}\n{id}")
}

impl Table<'_> {
    /// The rows of one lock, sorted by rank.
    pub(crate) fn claim_rows(&mut self, key: &Key) -> Result<Vec<ClaimRow>, Fault> {
        if !self.has_locks() {
            return Ok(Vec::new());
        }
        let params = [key.as_str(), self.host().boot()];
        let rows = self.statement(sql::CLAIMS)?.query_map(params, read_claim)?;
        let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
        rows.sort_unstable_by_key(|row| row.rank);
        Ok(rows)
    }

    /// The rows of all locks by name, those of each lock sorted by rank.
    pub(crate) fn all_claim_rows(&mut self) -> Result<HashMap<String, Vec<ClaimRow>>, Fault> {
        let mut by_name = HashMap::<String, Vec<ClaimRow>>::new();
        if self.has_locks() {
            let boot = self.host().boot();
            let mut rows = self.statement(sql::ALL_CLAIMS)?.query([boot])?;
            while let Some(row) = rows.next()? {
                by_name.entry(row.get(8)?).or_default().push(read_claim(row)?);
            }
        }
        by_name.values_mut().for_each(|rows| rows.sort_unstable_by_key(|row| row.rank));
        Ok(by_name)
    }

    /// Writes the difference between two states of a lock. `asked` is the claim of the step that made the difference: its
    /// times are always written, because they can be equal by chance although another boot wrote them. `ended` are rows whose holds and places had ended before.
    /// `last_rank` is the greatest rank of the rows. Returns the new greatest rank.
    pub(crate) fn write_claim_rows(
        &mut self,
        key: &Key,
        asked: Option<ClaimId>,
        ended: &[ClaimId],
        states: [&LockState; 2],
        mut last_rank: i64,
        now_ns: i64,
    ) -> Result<i64, Fault> {
        let [before, after] = states;
        let mut changes: Vec<_> = ended.iter().map(|id| RowChange::Ended(*id)).collect();
        add_changes(&mut changes, asked, holds(before), holds(after));
        add_changes(
            &mut changes,
            asked,
            before.places().iter().map(Entry::from),
            after.places().iter().map(Entry::from),
        );
        // A place becomes a hold by the deletion of one row and the addition of another row with the same id.
        for change in &changes {
            if let RowChange::Ended(id) = change {
                self.write(sql::END_CLAIM, params![key.as_str(), id.to_string()])?;
                self.write(sql::FORGET, [sighting_name(key, *id)])?;
            }
        }
        let now = self.moment(now_ns);
        for change in changes {
            match change {
                RowChange::Ended(_) => {}
                RowChange::Extended(id, until) => self.extend_claim_row(key, id, until.since(now), now_ns)?,
                RowChange::Added(Entry { id, kind, until, fence }) => {
                    last_rank += 1;
                    let (ttl_ns, fence) = (nanos(until.since(now)), fence.map(Fence::as_i64));
                    let (id, kind, until_ns) = (id.to_string(), kind.to_string(), now_ns.saturating_add(ttl_ns));
                    let row = params![key.as_str(), id, kind, last_rank, fence, until_ns, ttl_ns, self.host().boot()];
                    self.write(sql::PUT_CLAIM, row)?;
                }
            }
        }
        Ok(last_rank)
    }

    /// Extends the row of a hold or of a place, so that it lasts for this time. The times of the hold of a fair mutex
    /// are in the table `lease`, so its row in this table does not matter.
    pub(crate) fn extend_claim_row(
        &mut self,
        key: &Key,
        id: ClaimId,
        valid_for: Duration,
        now_ns: i64,
    ) -> Result<(), Fault> {
        let (ttl_ns, boot) = (nanos(valid_for), self.host().boot());
        let row = params![key.as_str(), id.to_string(), now_ns.saturating_add(ttl_ns), ttl_ns, boot];
        self.write(sql::EXTEND_CLAIM, row)?;
        Ok(())
    }
}

/// The holds that have a row. The hold of a mutex is in the table `lease` only.
fn holds(state: &LockState) -> impl Iterator<Item = Entry> {
    state.holds().iter().filter(|hold| !matches!(hold.kind, Kind::Mutex)).map(Entry::from)
}

/// Adds the changes between two lists. In the later list, entries of the earlier list have the same order, and new
/// entries are at the end.
fn add_changes(
    changes: &mut Vec<RowChange>,
    asked: Option<ClaimId>,
    before: impl Iterator<Item = Entry>,
    after: impl Iterator<Item = Entry>,
) {
    let mut after = after.peekable();
    for old in before {
        // A claim whose hold has expired can get a new hold with a new fence in the same step.
        match after.next_if(|new| new.id == old.id && new.fence == old.fence) {
            None => changes.push(RowChange::Ended(old.id)),
            // The times of the hold of a fair mutex are in the table `lease`.
            Some(Entry { kind: Kind::Fair, fence: Some(_), .. }) => {}
            Some(new) if new.until != old.until || Some(new.id) == asked => {
                changes.push(RowChange::Extended(new.id, new.until));
            }
            Some(_) => {}
        }
    }
    changes.extend(after.map(RowChange::Added));
}

pub(crate) fn read_claim(row: &Row<'_>) -> rusqlite::Result<ClaimRow> {
    let (id, kind): (String, String) = (row.get(0)?, row.get(6)?);
    let damaged =
        |column| move |error: Error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into());
    let fence: Option<i64> = row.get(1)?;
    let times = Lease {
        owner: Some(String::new()),
        expires_ns: row.get(2)?,
        ttl_ns: row.get(3)?,
        stamp: row.get(4)?,
        is_of_this_boot: row.get(5)?,
        ..Lease::default()
    };
    Ok(ClaimRow {
        id: id.parse().map_err(damaged(0))?,
        kind: kind.parse().map_err(damaged(6))?,
        rank: row.get(7)?,
        fence: fence.map(|fence| Fence::new(fence.unsigned_abs())),
        times,
    })
}
