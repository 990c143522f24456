//! The verbs on rows, in whatever transaction the writer is.

use std::{ptr, time::Duration};

use bandog_core::{
    Answer, Claim, ClaimId, Fence, Fences, Holding, Key, OFFER, Pattern, Released, Renewal, Result, Row, Step, Verdict,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params};

use crate::{
    fault::Fault,
    handle::Shared,
    host::Host,
    open::Store,
    rules::{Lease, Sighting, State, Wanted, nanos, next_fence},
    sql,
};

/// The tables, as one transaction sees them.
pub(crate) struct Table<'t> {
    conn: &'t Connection,
    shared: &'t Shared,
    heard: bool,
    has_registry: bool,
    has_records: bool,
    may_write: bool,
    rung: Vec<Key>,
    /// Those in use, so that a batch looks for each of them once.
    statements: Vec<(&'static str, CachedStatement<'t>)>,
}

impl<'t> Table<'t> {
    /// To look only: whatever must write ends with [`Fault::MustWrite`]. `heard` says whether this process hears the
    /// bell.
    pub(crate) fn new(store: &'t Store, shared: &'t Shared, heard: bool) -> Self {
        Self {
            conn: &store.conn,
            shared,
            heard,
            has_registry: store.has_registry(),
            has_records: store.has_records(),
            may_write: false,
            rung: Vec::new(),
            statements: Vec::new(),
        }
    }

    /// To write, in a transaction that the caller has begun.
    pub(crate) fn writing(self) -> Self {
        Self { may_write: true, ..self }
    }

    /// Whether this process hears the bell.
    pub(crate) fn is_heard(&self) -> bool {
        self.heard
    }

    /// Whether the database has the registry of clients.
    pub(crate) fn has_registry(&self) -> bool {
        self.has_registry
    }

    /// Whether the database has records.
    pub(crate) fn has_records(&self) -> bool {
        self.has_records
    }

    /// The machine.
    pub(crate) fn host(&self) -> &'t Host {
        &self.shared.host
    }

    /// The keys to ring for after the commit: locks that were freed and for which somebody waits, records whose swaps
    /// ring.
    pub(crate) fn into_rung(self) -> Vec<Key> {
        self.rung
    }

    /// Notifications for a key after the commit.
    pub(crate) fn ring(&mut self, key: &Key) {
        self.rung.push(key.clone());
    }

    /// Does something with one row. What is wrong with that row only is an answer, and the transaction goes on.
    pub(crate) fn one_row<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<Result<T>, Fault> {
        match work(self) {
            Ok(answer) => Ok(Ok(answer)),
            Err(fault) if fault.is_of_one_row() => Ok(Err(fault.error(&self.shared.options.path))),
            Err(fault) => Err(fault),
        }
    }

    /// Reads something.
    pub(crate) fn ping(&self) -> Result<(), Fault> {
        Ok(self.conn.query_row(sql::IDENTITY, [], |_| Ok(()))?)
    }

    /// Applies one step.
    pub(crate) fn apply(&mut self, step: &Step) -> Result<Answer, Fault> {
        Ok(match step {
            Step::Claim(claim) => Answer::Claimed(self.claim(claim, None)?),
            Step::Pass { from, to } => Answer::Claimed(self.claim(to, Some(from))?),
            Step::Release(claim) => Answer::Released(self.release(claim)?),
        })
    }

    /// Renews one hold.
    pub(crate) fn renew(&mut self, claim: &Claim) -> Result<Renewal, Fault> {
        let lease = self.lease(&claim.key)?;
        let now = self.shared.host.now();
        match self.state(&claim.key, &lease, now)? {
            State::Held { owner, .. } if owner == claim.id.to_string() => {}
            State::Held { .. } | State::Free => return Ok(Renewal::Gone),
        }
        let until = now.saturating_add(nanos(claim.ttl));
        self.write(sql::RENEW, params![claim.key.as_str(), until, nanos(claim.ttl), self.boot()])?;
        Ok(Renewal::Extended { valid_for: claim.ttl })
    }

    /// Whether this claim holds its lock, as far as it can be seen. It writes nothing, so a hold of another boot that
    /// nobody has begun to watch is watched in this process's memory.
    pub(crate) fn is_held(&mut self, holding: &Holding) -> Result<bool, Fault> {
        let (lease, now) = (self.lease(&holding.key)?, self.shared.host.now());
        Ok(match self.state(&holding.key, &lease, now)? {
            State::Held { owner, .. } if owner != holding.id.to_string() => false,
            State::Held { unseen: true, .. } => {
                let seen = self.shared.seen.see(&holding.key, Sighting { since: now, stamp: lease.stamp });
                lease.state(now, Some(seen)) != State::Free
            }
            State::Held { unseen: false, .. } => true,
            State::Free => false,
        })
    }

    /// Leaves our mark, so that whoever frees the key rings; rings ourselves if it is free already.
    pub(crate) fn want(&mut self, key: &Key) -> Result<(), Fault> {
        if !self.shared.ears.hear(key) {
            return Ok(()); // Nobody listens any more.
        }
        let lease = self.lease(key)?;
        if self.state(key, &lease, self.shared.host.now())? == State::Free {
            self.shared.ears.ring(|wanted| wanted == key);
        }
        self.mark(key, &lease, Wanted::Waiting)
    }

    /// One lock as operators see it.
    pub(crate) fn show(&mut self, key: &Key) -> Result<Row, Fault> {
        let lease = self.lease(key)?;
        Ok(self.row(key, &lease)?.unwrap_or_else(|| Row::free(key)))
    }

    /// Frees a lock, and returns the row that it had if it was held.
    pub(crate) fn evict(&mut self, key: &Key) -> Result<Option<Row>, Fault> {
        let lease = self.lease(key)?;
        let held = self.row(key, &lease)?;
        if held.is_some() {
            self.write(sql::RELEASE, [key.as_str()])?;
            if lease.wanted != Wanted::No {
                self.ring(key);
            }
        }
        Ok(held)
    }

    /// All locks that are held and whose names match.
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
        let now = self.shared.host.now();
        let from = from.map(|from| from.id).or(claim.offers.then_some(ClaimId::OFFERED));
        let fresh = || next_fence(lease.fence, self.shared.host.wall_micros(), claim.fences);
        let fence = match self.state(&claim.key, &lease, now)? {
            State::Free => fresh(),
            State::Held { owner, .. } if owner == claim.id.to_string() => lease.fence,
            State::Held { owner, .. } if from.is_some_and(|from| owner == from.to_string()) => fresh(),
            State::Held { left, unseen, .. } => return self.busy(claim, &lease, left, unseen.then_some(now)),
        };
        self.grant(claim, &lease, fence, now)
    }

    fn grant(&mut self, claim: &Claim, lease: &Lease, fence: i64, now: i64) -> Result<Verdict, Fault> {
        if lease.is_foreign(now) {
            self.write(sql::FORGET, [claim.key.as_str()])?;
        }
        let until = now.saturating_add(nanos(claim.ttl));
        let owner = claim.id.to_string();
        let row = params![claim.key.as_str(), owner, fence, until, nanos(claim.ttl), self.boot()];
        self.write(sql::GRANT, row)?;
        Ok(granted(claim, fence))
    }

    /// Grants what is free at first sight.
    fn take(&mut self, claim: &Claim) -> Result<Option<Verdict>, Fault> {
        let (now, first) = (self.shared.host.now(), self.shared.host.wall_micros());
        let fence = next_fence(0, first, claim.fences);
        let until = now.saturating_add(nanos(claim.ttl));
        let owner = claim.id.to_string();
        let row = params![claim.key.as_str(), owner, fence, until, nanos(claim.ttl), self.boot(), first];
        Ok((self.write(sql::TAKE, row)? == 1).then(|| granted(claim, fence)))
    }

    /// Writes only what is not written yet: our mark if we listen or starve, and that this boot has seen the hold.
    fn busy(&mut self, claim: &Claim, lease: &Lease, left: Duration, unseen: Option<i64>) -> Result<Verdict, Fault> {
        if let Some(now) = unseen {
            let sighting = params![claim.key.as_str(), self.boot(), now, lease.stamp];
            self.write(sql::SEE, sighting)?;
        }
        if claim.offers {
            self.mark(&claim.key, lease, Wanted::Starving)?;
        } else if self.shared.ears.hear(&claim.key) {
            self.mark(&claim.key, lease, Wanted::Waiting)?;
        }
        Ok(Verdict::Busy { retry_after: left })
    }

    fn release(&mut self, claim: &Claim) -> Result<Released, Fault> {
        let (owner, now) = (claim.id.to_string(), self.shared.host.now());
        if self.write(sql::FREE, params![claim.key.as_str(), owner, self.boot(), now])? == 1 {
            return Ok(Released::Freed { others: Some(0) });
        }
        let lease = self.lease(&claim.key)?;
        match self.state(&claim.key, &lease, now)? {
            State::Held { owner: holder, .. } if holder == owner => {}
            State::Held { .. } | State::Free => {
                if claim.offers && lease.wanted == Wanted::Starving {
                    self.write(sql::UNSTARVE, [claim.key.as_str()])?;
                }
                return Ok(Released::NotHeld);
            }
        }
        let key = claim.key.as_str();
        match lease.wanted {
            Wanted::Starving => {
                let (until, ttl) = (now.saturating_add(nanos(OFFER)), nanos(OFFER));
                self.write(sql::OFFER, params![key, ClaimId::OFFERED.to_string(), until, ttl, self.boot()])?
            }
            Wanted::Waiting | Wanted::No => self.write(sql::RELEASE, [key])?,
        };
        if lease.wanted == Wanted::No {
            return Ok(Released::Freed { others: Some(0) });
        }
        self.ring(&claim.key);
        Ok(Released::Freed { others: None })
    }

    fn boot(&self) -> &'t str {
        self.shared.host.boot()
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

    fn state<'l>(&mut self, key: &Key, lease: &'l Lease, now: i64) -> Result<State<'l>, Fault> {
        if lease.owner.is_none() || !lease.is_foreign(now) {
            return Ok(lease.state(now, None));
        }
        let params = [key.as_str(), self.boot()];
        let read = |row: &rusqlite::Row<'_>| Ok(Sighting { since: row.get(0)?, stamp: row.get(1)? });
        Ok(lease.state(now, self.statement(sql::SIGHTING)?.query_row(params, read).optional()?))
    }

    fn row(&mut self, key: &Key, lease: &Lease) -> Result<Option<Row>, Fault> {
        let State::Held { owner, left, .. } = self.state(key, lease, self.shared.host.now())? else {
            return Ok(None);
        };
        if owner == ClaimId::OFFERED.to_string() {
            return Ok(None);
        }
        let last = Fence::new(lease.fence.unsigned_abs());
        Ok(Some(Row { ttl: Some(left), ..Row::held(key, owner).fenced(last) }))
    }

    /// Changes rows, and tells how many.
    pub(crate) fn write(&mut self, sql: &'static str, params: impl Params) -> Result<usize, Fault> {
        if !self.may_write {
            return Err(Fault::MustWrite);
        }
        Ok(self.statement(sql)?.execute(params)?)
    }

    /// Changes rows of several kinds, all of them or none.
    pub(crate) fn write_together(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        self.write(sql::PART, [])?;
        let done = work(self);
        if done.is_err() {
            // Some faults have ended the whole transaction already, and are told all the same.
            let _ = self.write(sql::UNDO, []);
            let _ = self.write(sql::KEEP, []);
            return done;
        }
        self.write(sql::KEEP, [])?;
        Ok(())
    }

    /// A statement that is ready to run.
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
        expires: row.get(2)?,
        ttl: row.get(3)?,
        stamp: row.get(4)?,
        ours: row.get(5)?,
        wanted: Wanted::read(row.get(6)?),
    })
}
