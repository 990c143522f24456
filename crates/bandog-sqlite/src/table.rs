//! The operations on rows, within a transaction that the writer has begun.

use std::{cell::Cell, ptr};

use bandog_core::{
    Answer, Claim, ClaimId, Fence, Fences, Holding, Key, Kind, LockState, Moment, Released, Renewal, Result, Step,
    Verdict,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, params};

use crate::{
    context::HandleContext,
    fault::Fault,
    host::Host,
    open::Store,
    rules::{HoldState, Lease, Sighting, Wanted, nanos},
    sql,
    stored_state::{self, StoredState},
    subscribers::Topic,
};

/// The id of the holder if the owner in the row is not the id of a claim. No client has this id, so no client can renew
/// or release the hold. The hold ends only when it expires.
pub(crate) const UNKNOWN_OWNER: ClaimId = ClaimId { number: 1, ..ClaimId::OFFERED };

/// The tables, in one transaction.
pub(crate) struct Table<'t> {
    conn: &'t Connection,
    context: &'t HandleContext,
    /// Whether this handle watches the notification file.
    is_watched: bool,
    has_registry: bool,
    has_records: bool,
    has_locks: bool,
    has_queues: bool,
    layout: &'t Cell<u8>,
    /// The time of the boot's clock that [`Table::moment`] counts from.
    begun_ns: i64,
    /// Whether this is a write transaction.
    may_write: bool,
    /// The topics whose subscribers are notified after the commit.
    topics_to_notify: Vec<Topic>,
    /// The state that the last step has left, if the lock is not a mutex.
    pub(crate) loaded: Option<(Key, StoredState)>,
    /// The prepared statements of this transaction. They are kept here, because the search in the connection's cache
    /// takes longer.
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
            has_locks: store.has_locks(),
            has_queues: store.has_queues(),
            layout: store.layout(),
            begun_ns: context.host.now_ns(),
            may_write: false,
            topics_to_notify: Vec::new(),
            loaded: None,
            statements: Vec::new(),
        }
    }

    /// Allows writes. The caller must have begun a write transaction.
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

    /// Whether the database has the tables of the locks that are not mutexes.
    pub(crate) fn has_locks(&self) -> bool {
        self.has_locks
    }

    /// Whether the database has work queues.
    pub(crate) fn has_queues(&self) -> bool {
        self.has_queues
    }

    /// The layout of the work queues, as far as this connection has seen it.
    pub(crate) fn layout(&self) -> u8 {
        self.layout.get()
    }

    pub(crate) fn set_layout(&self, layout: u8) {
        self.layout.set(layout);
    }

    /// Whether this is a write transaction.
    pub(crate) fn may_write(&self) -> bool {
        self.may_write
    }

    pub(crate) fn host(&self) -> &'t Host {
        &self.context.host
    }

    /// The present time for [`LockState`], which knows no boot clock. All states of one transaction have the same
    /// origin.
    pub(crate) fn moment(&self, now_ns: i64) -> Moment {
        Moment::from_nanos(1 + u64::try_from(now_ns.saturating_sub(self.begun_ns)).unwrap_or_default())
    }

    /// Each new fence is greater than this number. So each new fence is at least the time of the wall clock in
    /// microseconds.
    pub(crate) fn fence_floor(&self) -> Fence {
        Fence::new(u64::try_from(self.context.host.wall_micros() - 1).unwrap_or_default())
    }

    /// The topics to notify after the commit: freed locks with waiters, and records that were swapped with a
    /// notification.
    pub(crate) fn into_topics_to_notify(self) -> Vec<Topic> {
        self.topics_to_notify
    }

    /// Notifies the subscribers of a topic after the commit.
    pub(crate) fn notify_after_commit(&mut self, topic: Topic) {
        self.topics_to_notify.push(topic);
    }

    /// Whether this handle has a subscriber for this topic.
    pub(crate) fn has_subscriber(&self, topic: &Topic) -> bool {
        self.context.lock_subscribers.has(topic)
    }

    /// Runs an operation on one row. If a fault affects only this row, its error becomes the answer of the operation,
    /// and the transaction continues.
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

    /// Reads from the database, to check that this is possible.
    pub(crate) fn ping(&self) -> Result<(), Fault> {
        Ok(self.conn.query_row(sql::IDENTITY, [], |_| Ok(()))?)
    }

    pub(crate) fn apply(&mut self, step: &Step) -> Result<Answer, Fault> {
        match step.kind() {
            Kind::Mutex => self.apply_to_mutex(step),
            Kind::Fair | Kind::Read | Kind::Write | Kind::Permits { .. } => self.apply_to_state(step),
        }
    }

    /// Applies a step to a mutex. For each common case, one SQL statement decides the answer. [`LockState`] decides all
    /// other cases.
    fn apply_to_mutex(&mut self, step: &Step) -> Result<Answer, Fault> {
        self.loaded = None;
        if self.may_write
            && let Some(answer) = self.apply_with_one_statement(step)?
        {
            return Ok(answer);
        }
        let key = step.key();
        let lease = self.lease(key)?;
        if stored_state::is_shared(&lease) {
            return self.apply_to_state(step);
        }
        let now_ns = self.context.host.now_ns();
        let (mut state, is_unseen) = self.lock_state(key, &lease, now_ns)?;
        let answer = state.apply_above(step, now(), self.fence_floor()).map_err(Fault::Refused)?;
        match &answer {
            Answer::Claimed(Verdict::Granted { .. }) => self.write_hold(key, &lease, &state, now_ns)?,
            Answer::Claimed(Verdict::Busy { .. }) => {
                self.note_busy(key, &lease, &state, is_unseen.then_some(now_ns))?;
            }
            Answer::Released(Released::Freed { .. }) => {
                if state.hold().is_some() {
                    self.write_hold(key, &lease, &state, now_ns)?;
                } else {
                    self.write(sql::RELEASE, [key.as_str()])?;
                }
                if lease.wanted == Wanted::No {
                    return Ok(Answer::Released(Released::freed(false)));
                }
                self.notify_after_commit(Topic::of(key));
            }
            Answer::Released(Released::NotHeld | Released::LeftQueue) => {
                if lease.wanted == Wanted::Starving && !state.is_starving() {
                    self.write(sql::UNSTARVE, [key.as_str()])?;
                }
            }
        }
        Ok(answer)
    }

    pub(crate) fn renew(&mut self, claim: &Claim) -> Result<Renewal, Fault> {
        match claim.kind {
            Kind::Mutex => self.renew_mutex(claim),
            Kind::Fair | Kind::Read | Kind::Write | Kind::Permits { .. } => self.renew_state(claim),
        }
    }

    fn renew_mutex(&mut self, claim: &Claim) -> Result<Renewal, Fault> {
        self.loaded = None;
        let lease = self.lease(&claim.key)?;
        let now_ns = self.context.host.now_ns();
        let (mut state, _) = self.lock_state(&claim.key, &lease, now_ns)?;
        let renewal = state.renew(claim, now());
        if let (Renewal::Extended { .. }, Some(hold)) = (renewal, state.hold()) {
            let ttl_ns = nanos(hold.until.since(now()));
            let row = params![claim.key.as_str(), now_ns.saturating_add(ttl_ns), ttl_ns, self.boot()];
            self.write(sql::RENEW, row)?;
        }
        Ok(renewal)
    }

    /// Whether this claim holds its lock. This writes nothing. If the hold is of another boot, the sighting is kept in
    /// the memory of this process. A sighting is the time at which this boot first observed the hold.
    pub(crate) fn is_held(&mut self, holding: &Holding) -> Result<bool, Fault> {
        let (lease, now_ns) = (self.lease(&holding.key)?, self.context.host.now_ns());
        if stored_state::is_shared(&lease) {
            return Ok(self.load(&holding.key, now_ns)?.state.is_held_by(holding.id, self.moment(now_ns)));
        }
        Ok(match self.state(holding.key.as_str(), &lease, now_ns)? {
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

    /// Sets the waiters' mark, so that the process that frees the lock notifies this handle. If the lock may already be
    /// free for the subscribers of this topic, notifies them now.
    pub(crate) fn mark_waiting(&mut self, topic: &Topic) -> Result<(), Fault> {
        if !self.has_subscriber(topic) {
            return Ok(()); // The subscription was dropped before this request ran.
        }
        self.loaded = None;
        let (lease, now_ns) = (self.lease(&topic.key)?, self.context.host.now_ns());
        let is_held = self.state(topic.key.as_str(), &lease, now_ns)? != HoldState::Free;
        if !is_held || stored_state::is_shared(&lease) && self.may_grant_share(&topic.key, now_ns)? {
            self.context.lock_subscribers.notify(|wanted| wanted == topic);
        }
        // The release of a fair mutex notifies the claim that is next, without a mark. If the lock is free, the
        // subscriber was just notified, and its claim sets a mark if it is refused by a mutex. A mark would make the
        // next release notify all claims of the queue.
        if topic.queued.is_some() && (!is_held || self.is_fair(&topic.key, &lease)?) {
            return Ok(());
        }
        self.mark(&topic.key, &lease, Wanted::Waiting)
    }

    /// Applies a step of a common case: a claim of a lock whose row shows that the lock is free, or a release of a lock
    /// without a waiters' mark. Returns None in other cases. The row is not read first, because that would make a step
    /// 50 % slower. The conditions of the two SQL statements repeat rules of [`LockState`]. The test `same_rules`
    /// checks that the statements and [`LockState`] agree.
    fn apply_with_one_statement(&mut self, step: &Step) -> Result<Option<Answer>, Fault> {
        let now_ns = self.context.host.now_ns();
        match step {
            // The statement does not know `Claim::above`.
            Step::Claim(Claim { above: Some(_), .. }) => Ok(None),
            Step::Claim(claim) => {
                let first = self.context.host.wall_micros().max(1);
                let last = first.saturating_add(i64::from(claim.fences.get()) - 1);
                let (owner, until_ns) = (claim.id.to_string(), now_ns.saturating_add(nanos(claim.ttl)));
                let row = params![claim.key.as_str(), owner, last, until_ns, nanos(claim.ttl), self.boot(), first];
                let fences = Fences::ending(Fence::new(last.unsigned_abs()), claim.fences);
                let granted = Answer::Claimed(Verdict::Granted { fences, valid_for: claim.ttl, followers: Vec::new() });
                Ok((self.write(sql::TAKE, row)? == 1).then_some(granted))
            }
            Step::Release(claim) => {
                let row = params![claim.key.as_str(), claim.id.to_string(), self.boot(), now_ns];
                let freed = Answer::Released(Released::freed(false));
                Ok((self.write(sql::FREE, row)? == 1).then_some(freed))
            }
            Step::Pass { .. } => Ok(None),
        }
    }

    /// The state of the lock in this row. The times in this state are relative to the moment of [`now`]. The bool says
    /// whether a sighting of the hold must be stored: see [`HoldState::Held`].
    fn lock_state(&mut self, key: &Key, lease: &Lease, now_ns: i64) -> Result<(LockState, bool), Fault> {
        let fence = Fence::new(lease.fence.unsigned_abs());
        let HoldState::Held { owner, left, is_unseen } = self.state(key.as_str(), lease, now_ns)? else {
            return Ok((LockState::of_mutex(None, false, fence), false));
        };
        let id = owner.parse().unwrap_or(UNKNOWN_OWNER);
        Ok((LockState::of_mutex(Some((id, now() + left)), lease.wanted == Wanted::Starving, fence), is_unseen))
    }

    /// Writes the hold of a grant or of an offer.
    fn write_hold(&mut self, key: &Key, lease: &Lease, state: &LockState, now_ns: i64) -> Result<(), Fault> {
        let Some(hold) = state.hold() else { return Ok(()) };
        if lease.is_foreign(now_ns) {
            self.write(sql::FORGET, [key.as_str()])?;
        }
        let wanted = match lease.wanted {
            // This release makes an offer: it reserves the lock for a short time for starving clients. The waiters are
            // notified after the commit, so the mark is removed.
            Wanted::Waiting | Wanted::Starving if hold.id == ClaimId::OFFERED => Wanted::No,
            // A client that starved during an earlier hold has set this mark. The new hold has no starving waiter.
            Wanted::Starving if !state.is_starving() => Wanted::Waiting,
            wanted => wanted,
        };
        let (owner, ttl_ns) = (hold.id.to_string(), nanos(hold.until.since(now())));
        let until_ns = now_ns.saturating_add(ttl_ns);
        let row = params![key.as_str(), owner, state.fence().as_i64(), until_ns, ttl_ns, self.boot(), wanted.number()];
        self.write(sql::GRANT, row)?;
        Ok(())
    }

    /// Writes what a refused claim must leave in the tables, unless it is there already:
    ///
    /// - the waiters' mark, if this handle has a subscriber for the lock, or if a client starves for the lock;
    /// - this boot's first sighting of a hold of another boot. `sighted_ns` is the time of this sighting, or None if no
    ///   sighting must be written.
    fn note_busy(&mut self, key: &Key, lease: &Lease, state: &LockState, sighted_ns: Option<i64>) -> Result<(), Fault> {
        if let Some(now_ns) = sighted_ns {
            self.write(sql::SEE, params![key.as_str(), self.boot(), now_ns, lease.stamp])?;
        }
        if state.is_starving() {
            self.mark(key, lease, Wanted::Starving)?;
        } else if self.has_subscriber(&Topic::of(key)) {
            self.mark(key, lease, Wanted::Waiting)?;
        }
        Ok(())
    }

    fn boot(&self) -> &'t str {
        self.context.host.boot()
    }

    /// Raises the waiters' mark of the row to this value.
    pub(crate) fn mark(&mut self, key: &Key, lease: &Lease, wanted: Wanted) -> Result<(), Fault> {
        if lease.wanted >= wanted {
            return Ok(());
        }
        self.write(sql::WANT, params![key.as_str(), wanted.number()])?;
        Ok(())
    }

    /// The row of this lock. An empty row if the table has none.
    pub(crate) fn lease(&mut self, key: &Key) -> Result<Lease, Fault> {
        let params = [key.as_str(), self.boot()];
        Ok(self.statement(sql::LEASE)?.query_row(params, read_lease).optional()?.unwrap_or_default())
    }

    /// The state of the row's hold at the moment `now_ns`. `name` is the name of the row in the table `sighting`.
    pub(crate) fn state<'l>(&mut self, name: &str, lease: &'l Lease, now_ns: i64) -> Result<HoldState<'l>, Fault> {
        if lease.owner.is_none() || !lease.is_foreign(now_ns) {
            return Ok(lease.state(now_ns, None));
        }
        let params = [name, self.boot()];
        let read = |row: &rusqlite::Row<'_>| Ok(Sighting { since_ns: row.get(0)?, stamp: row.get(1)? });
        Ok(lease.state(now_ns, self.statement(sql::SIGHTING)?.query_row(params, read).optional()?))
    }

    /// Executes a statement that writes. Returns the number of the written rows.
    pub(crate) fn write(&mut self, sql: &'static str, params: impl Params) -> Result<usize, Fault> {
        if !self.may_write {
            return Err(Fault::MustWrite);
        }
        Ok(self.statement(sql)?.execute(params)?)
    }

    /// Executes statements without parameters and results.
    pub(crate) fn write_batch(&mut self, sql: &str) -> Result<(), Fault> {
        if !self.may_write {
            return Err(Fault::MustWrite);
        }
        Ok(self.conn.execute_batch(sql)?)
    }

    /// Writes rows of several tables, all of them or none.
    pub(crate) fn write_together<T>(
        &mut self,
        write_all: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
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
        result
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

/// A fixed moment that stands for the present time when [`LockState`] decides. [`LockState`] knows no boot clock. So it
/// gets each time of a row as this moment plus the remaining duration.
fn now() -> Moment {
    Moment::from_nanos(1)
}

pub(crate) fn read_lease(row: &rusqlite::Row<'_>) -> rusqlite::Result<Lease> {
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
