//! The operations on rows, within a transaction that the writer has begun.

use std::{ptr, time::Duration};

use bandog_core::{
    Answer, Claim, ClaimId, Fence, Fences, Holder, Holding, Key, Kind, OFFER, Pattern, Released, Renewal, Result, Row,
    Step, Verdict,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params};

use crate::{
    fault::Fault,
    handle::HandleContext,
    host::Host,
    open::Store,
    rules::{HoldState, Lease, Sighting, Wanted, nanos, next_fence},
    sql,
};

/// The tables, in one transaction.
pub(crate) struct Table<'t> {
    conn: &'t Connection,
    context: &'t HandleContext,
    is_watched: bool,
    has_registry: bool,
    has_records: bool,
    may_write: bool,
    keys_to_notify: Vec<Key>,
    /// The prepared statements of this transaction, so that each is searched in the connection's cache only once.
    statements: Vec<(&'static str, CachedStatement<'t>)>,
}

impl<'t> Table<'t> {
    /// The tables in a read-only transaction: an operation that must write fails with [`Fault::MustWrite`].
    /// `is_watched` says whether this handle watches the notification file.
    pub(crate) fn new(store: &'t Store, context: &'t HandleContext, is_watched: bool) -> Self {
        Self {
            conn: &store.conn,
            context,
            is_watched,
            has_registry: store.has_registry(),
            has_records: store.has_records(),
            may_write: false,
            keys_to_notify: Vec::new(),
            statements: Vec::new(),
        }
    }

    /// Allows writes. The caller has begun a write transaction.
    pub(crate) fn with_writes(self) -> Self {
        Self { may_write: true, ..self }
    }

    /// Whether this handle watches the notification file.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Whether the database has the registry of clients.
    pub(crate) fn has_registry(&self) -> bool {
        self.has_registry
    }

    /// Whether the database has records.
    pub(crate) fn has_records(&self) -> bool {
        self.has_records
    }

    pub(crate) fn host(&self) -> &'t Host {
        &self.context.host
    }

    /// The keys to notify after the commit: freed locks with waiters, and records that were swapped with a
    /// notification.
    pub(crate) fn into_keys_to_notify(self) -> Vec<Key> {
        self.keys_to_notify
    }

    /// Notifies the subscribers of a key after the commit.
    pub(crate) fn notify_after_commit(&mut self, key: &Key) {
        self.keys_to_notify.push(key.clone());
    }

    /// Runs an operation on one row. An error of that row alone becomes its answer, and the transaction continues.
    pub(crate) fn one_row<T>(
        &mut self,
        operation: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<Result<T>, Fault> {
        match operation(self) {
            Ok(answer) => Ok(Ok(answer)),
            Err(fault) if fault.concerns_one_row() => Ok(Err(fault.error(&self.context.options.path))),
            Err(fault) => Err(fault),
        }
    }

    /// Reads from the database.
    pub(crate) fn ping(&self) -> Result<(), Fault> {
        Ok(self.conn.query_row(sql::IDENTITY, [], |_| Ok(()))?)
    }

    pub(crate) fn apply(&mut self, step: &Step) -> Result<Answer, Fault> {
        match step.kind() {
            Kind::Mutex => self.apply_to_mutex(step),
        }
    }

    fn apply_to_mutex(&mut self, step: &Step) -> Result<Answer, Fault> {
        Ok(match step {
            Step::Claim(claim) => Answer::Claimed(self.claim(claim, None)?),
            Step::Pass { from, to } => Answer::Claimed(self.claim(to, Some(from))?),
            Step::Release(claim) => Answer::Released(self.release(claim)?),
        })
    }

    pub(crate) fn renew(&mut self, claim: &Claim) -> Result<Renewal, Fault> {
        match claim.kind {
            Kind::Mutex => self.renew_mutex(claim),
        }
    }

    fn renew_mutex(&mut self, claim: &Claim) -> Result<Renewal, Fault> {
        let lease = self.lease(&claim.key)?;
        let now_ns = self.context.host.now_ns();
        match self.state(&claim.key, &lease, now_ns)? {
            HoldState::Held { owner, .. } if owner == claim.id.to_string() => {}
            HoldState::Held { .. } | HoldState::Free => return Ok(Renewal::Gone),
        }
        let until_ns = now_ns.saturating_add(nanos(claim.ttl));
        self.write(sql::RENEW, params![claim.key.as_str(), until_ns, nanos(claim.ttl), self.boot()])?;
        Ok(Renewal::Extended { valid_for: claim.ttl })
    }

    /// Whether this claim holds its lock. This writes nothing, so the first sighting of a hold of another boot is kept
    /// in this process's memory.
    pub(crate) fn is_held(&mut self, holding: &Holding) -> Result<bool, Fault> {
        let (lease, now_ns) = (self.lease(&holding.key)?, self.context.host.now_ns());
        Ok(match self.state(&holding.key, &lease, now_ns)? {
            HoldState::Held { owner, .. } if owner != holding.id.to_string() => false,
            HoldState::Held { is_unseen: true, .. } => {
                let first =
                    self.context.sightings.first(&holding.key, Sighting { since_ns: now_ns, stamp: lease.stamp });
                lease.state(now_ns, Some(first)) != HoldState::Free
            }
            HoldState::Held { is_unseen: false, .. } => true,
            HoldState::Free => false,
        })
    }

    /// Sets the waiters' mark, so that the process that frees the key notifies this handle. If the key is already free,
    /// notifies this handle's subscribers now.
    pub(crate) fn mark_waiting(&mut self, key: &Key) -> Result<(), Fault> {
        if !self.context.lock_subscribers.has(key) {
            return Ok(()); // The subscription was dropped meanwhile.
        }
        let lease = self.lease(key)?;
        if self.state(key, &lease, self.context.host.now_ns())? == HoldState::Free {
            self.context.lock_subscribers.notify(|wanted| wanted == key);
        }
        self.mark(key, &lease, Wanted::Waiting)
    }

    /// The row of one lock, for operators.
    pub(crate) fn show(&mut self, key: &Key) -> Result<Row, Fault> {
        let lease = self.lease(key)?;
        Ok(self.row(key, &lease)?.unwrap_or_else(|| Row::free(key)))
    }

    /// Frees a lock. Returns its row if it was held.
    pub(crate) fn evict(&mut self, key: &Key) -> Result<Option<Row>, Fault> {
        let lease = self.lease(key)?;
        let held = self.row(key, &lease)?;
        if held.is_some() {
            self.write(sql::RELEASE, [key.as_str()])?;
            if lease.wanted != Wanted::No {
                self.notify_after_commit(key);
            }
        }
        Ok(held)
    }

    /// All held locks whose names match.
    pub(crate) fn list(&mut self, pattern: &Pattern) -> Result<Vec<Row>, Fault> {
        let mut statement = self.conn.prepare_cached(sql::HELD)?;
        let mut rows = statement.query([self.boot()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(7)?;
            let Some(key) = Key::new(&name).ok().filter(|_| pattern.matches(&name)) else {
                continue;
            };
            found.extend(self.row(&key, &read_lease(row)?)?);
        }
        Ok(found)
    }

    fn claim(&mut self, claim: &Claim, from: Option<&Claim>) -> Result<Verdict, Fault> {
        if self.may_write
            && from.is_none()
            && let Some(granted) = self.take(claim)?
        {
            return Ok(granted);
        }
        let lease = self.lease(&claim.key)?;
        let now_ns = self.context.host.now_ns();
        let from = from.map(|from| from.id).or(claim.offers.then_some(ClaimId::OFFERED));
        let new_fence = || next_fence(lease.fence, self.context.host.wall_micros(), claim.fences);
        let fence = match self.state(&claim.key, &lease, now_ns)? {
            HoldState::Free => {
                // The mark was set by a client that starved during an earlier hold. It does not apply to the new hold.
                if lease.wanted == Wanted::Starving {
                    self.write(sql::UNSTARVE, [claim.key.as_str()])?;
                }
                new_fence()
            }
            HoldState::Held { owner, .. } if owner == claim.id.to_string() => lease.fence,
            HoldState::Held { owner, .. } if from.is_some_and(|from| owner == from.to_string()) => new_fence(),
            HoldState::Held { left, is_unseen, .. } => {
                return self.busy(claim, &lease, left, is_unseen.then_some(now_ns));
            }
        };
        self.grant(claim, &lease, fence, now_ns)
    }

    fn grant(&mut self, claim: &Claim, lease: &Lease, fence: i64, now_ns: i64) -> Result<Verdict, Fault> {
        if lease.is_foreign(now_ns) {
            self.write(sql::FORGET, [claim.key.as_str()])?;
        }
        let until_ns = now_ns.saturating_add(nanos(claim.ttl));
        let owner = claim.id.to_string();
        let row = params![claim.key.as_str(), owner, fence, until_ns, nanos(claim.ttl), self.boot()];
        self.write(sql::GRANT, row)?;
        Ok(granted(claim, fence))
    }

    /// Grants a lock with one statement, if its row shows that it is free. This is the common case.
    fn take(&mut self, claim: &Claim) -> Result<Option<Verdict>, Fault> {
        let (now_ns, first) = (self.context.host.now_ns(), self.context.host.wall_micros());
        let fence = next_fence(0, first, claim.fences);
        let until_ns = now_ns.saturating_add(nanos(claim.ttl));
        let owner = claim.id.to_string();
        let row = params![claim.key.as_str(), owner, fence, until_ns, nanos(claim.ttl), self.boot(), first];
        Ok((self.write(sql::TAKE, row)? == 1).then(|| granted(claim, fence)))
    }

    /// Answers a claim of a lock that another claim holds.
    ///
    /// If `first_seen` has a time, this boot's first sighting of the foreign hold is stored with that time. If the
    /// claim takes part in offers, or if this handle has a subscriber for the lock, the waiters' mark is set, unless
    /// the row has it already.
    fn busy(
        &mut self,
        claim: &Claim,
        lease: &Lease,
        left: Duration,
        first_seen: Option<i64>,
    ) -> Result<Verdict, Fault> {
        if let Some(now_ns) = first_seen {
            let sighting = params![claim.key.as_str(), self.boot(), now_ns, lease.stamp];
            self.write(sql::SEE, sighting)?;
        }
        if claim.offers {
            self.mark(&claim.key, lease, Wanted::Starving)?;
        } else if self.context.lock_subscribers.has(&claim.key) {
            self.mark(&claim.key, lease, Wanted::Waiting)?;
        }
        Ok(Verdict::Busy { retry_after: left })
    }

    fn release(&mut self, claim: &Claim) -> Result<Released, Fault> {
        let (owner, now_ns) = (claim.id.to_string(), self.context.host.now_ns());
        if self.write(sql::FREE, params![claim.key.as_str(), owner, self.boot(), now_ns])? == 1 {
            return Ok(Released::Freed { others: Some(0) });
        }
        let lease = self.lease(&claim.key)?;
        match self.state(&claim.key, &lease, now_ns)? {
            HoldState::Held { owner: holder, .. } if holder == owner => {}
            HoldState::Held { .. } | HoldState::Free => {
                if claim.offers && lease.wanted == Wanted::Starving {
                    self.write(sql::UNSTARVE, [claim.key.as_str()])?;
                }
                return Ok(Released::NotHeld);
            }
        }
        let key = claim.key.as_str();
        match lease.wanted {
            Wanted::Starving => {
                let (until_ns, ttl_ns) = (now_ns.saturating_add(nanos(OFFER)), nanos(OFFER));
                self.write(sql::OFFER, params![key, ClaimId::OFFERED.to_string(), until_ns, ttl_ns, self.boot()])?
            }
            Wanted::Waiting | Wanted::No => self.write(sql::RELEASE, [key])?,
        };
        if lease.wanted == Wanted::No {
            return Ok(Released::Freed { others: Some(0) });
        }
        self.notify_after_commit(&claim.key);
        Ok(Released::Freed { others: None })
    }

    fn boot(&self) -> &'t str {
        self.context.host.boot()
    }

    fn mark(&mut self, key: &Key, lease: &Lease, wanted: Wanted) -> Result<(), Fault> {
        if lease.wanted >= wanted {
            return Ok(());
        }
        self.write(sql::WANT, params![key.as_str(), wanted.number()])?;
        Ok(())
    }

    fn lease(&mut self, key: &Key) -> Result<Lease, Fault> {
        let params = [key.as_str(), self.boot()];
        Ok(self.statement(sql::LEASE)?.query_row(params, read_lease).optional()?.unwrap_or_default())
    }

    fn state<'l>(&mut self, key: &Key, lease: &'l Lease, now_ns: i64) -> Result<HoldState<'l>, Fault> {
        if lease.owner.is_none() || !lease.is_foreign(now_ns) {
            return Ok(lease.state(now_ns, None));
        }
        let params = [key.as_str(), self.boot()];
        let read = |row: &rusqlite::Row<'_>| Ok(Sighting { since_ns: row.get(0)?, stamp: row.get(1)? });
        Ok(lease.state(now_ns, self.statement(sql::SIGHTING)?.query_row(params, read).optional()?))
    }

    fn row(&mut self, key: &Key, lease: &Lease) -> Result<Option<Row>, Fault> {
        let HoldState::Held { owner, left, .. } = self.state(key, lease, self.context.host.now_ns())? else {
            return Ok(None);
        };
        if owner == ClaimId::OFFERED.to_string() {
            return Ok(None);
        }
        let last = Fence::new(lease.fence.unsigned_abs());
        let holder = Holder { ttl: Some(left), ..Holder::new(owner).fenced(last) };
        Ok(Some(Row::held(key, Some(Kind::Mutex), holder)))
    }

    /// Writes rows. Returns their number.
    pub(crate) fn write(&mut self, sql: &'static str, params: impl Params) -> Result<usize, Fault> {
        if !self.may_write {
            return Err(Fault::MustWrite);
        }
        Ok(self.statement(sql)?.execute(params)?)
    }

    /// Writes rows of several tables, all of them or none.
    pub(crate) fn write_together(
        &mut self,
        write_all: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.write(sql::PART, [])?;
        let result = write_all(self);
        if result.is_err() {
            // Some faults have already rolled back the whole transaction. Then these two statements fail. Their errors
            // are ignored, because the first fault is returned.
            let _ = self.write(sql::UNDO, []);
            let _ = self.write(sql::KEEP, []);
            return result;
        }
        self.write(sql::KEEP, [])?;
        Ok(())
    }

    /// The prepared statement of this text.
    pub(crate) fn statement(&mut self, sql: &'static str) -> Result<&mut CachedStatement<'t>, Fault> {
        let at = match self.statements.iter().position(|(text, _)| ptr::eq(*text, sql)) {
            Some(at) => at,
            None => {
                self.statements.push((sql, self.conn.prepare_cached(sql)?));
                self.statements.len() - 1
            }
        };
        Ok(&mut self.statements[at].1)
    }
}

fn granted(claim: &Claim, fence: i64) -> Verdict {
    let fences = Fences::ending(Fence::new(fence.unsigned_abs()), claim.fences);
    Verdict::Granted { fences, valid_for: claim.ttl }
}

fn read_lease(row: &rusqlite::Row<'_>) -> rusqlite::Result<Lease> {
    Ok(Lease {
        owner: row.get(0)?,
        fence: row.get(1)?,
        expires_ns: row.get(2)?,
        ttl_ns: row.get(3)?,
        stamp: row.get(4)?,
        is_of_this_boot: row.get(5)?,
        wanted: Wanted::read(row.get(6)?),
    })
}
