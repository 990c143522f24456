//! Locks whose state [`LockState`] decides alone: locks of all kinds except mutexes.

use std::{mem, num::NonZeroU32};

use bandog_core::{
    Answer, Claim, ClaimId, Fence, Hold, Key, Kind, Limit, LockState, Place, Released, Renewal, Step, Verdict,
};
use rusqlite::{OptionalExtension, params};

use crate::{
    claim_rows::{ClaimRow, sighting_name},
    fault::Fault,
    rules::{HoldState, Lease, Wanted, nanos},
    sql,
    stored_state::{READ_WRITE, SEMAPHORE, StoredState, is_shared},
    subscribers::Topic,
    table::{Table, UNKNOWN_OWNER},
};

/// The effect of a change of a lock on the waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// No waiter can get the lock because of this change.
    Quiet,
    /// A claim was refused, and its client subscribes to notifications that need a waiters' mark.
    Subscribed,
    /// A claim has given up its place.
    LeftQueue,
    /// A waiter may get the lock now.
    Freed,
}

/// Whether the client of this refused claim needs a waiters' mark. The release of a fair mutex notifies the claim that is
/// next in the queue without a mark. So a release does not wake all waiters of the queue.
fn needs_mark(claim: &Claim, state: &LockState) -> bool {
    !matches!(claim.kind, Kind::Fair) || state.hold().is_some_and(|hold| !matches!(hold.kind, Kind::Fair))
}

impl Table<'_> {
    /// Applies a step to a lock of any kind.
    pub(crate) fn apply_to_state(&mut self, step: &Step) -> Result<Answer, Fault> {
        let (key, now_ns) = (step.key(), self.host().now_ns());
        let mut stored = self.load_for(step, now_ns)?;
        let before = stored.state.clone();
        let (now, above) = (self.moment(now_ns), self.fence_floor());
        let answer = match stored.state.apply_above(step, now, above) {
            Ok(answer) => answer,
            Err(error) => {
                // Otherwise a hold of another boot would never expire for claims of another family.
                self.write_sightings(&mut stored, now_ns)?;
                return Err(Fault::Refused(error));
            }
        };
        let change = match (&answer, step) {
            (Answer::Claimed(Verdict::Granted { .. }), _) if stored.state.wakes_others(step, &answer) => Change::Freed,
            (Answer::Claimed(Verdict::Busy { .. }), Step::Claim(claim) | Step::Pass { to: claim, .. })
                if needs_mark(claim, &stored.state) && self.has_subscriber(&Topic::of_claim(claim)) =>
            {
                Change::Subscribed
            }
            (Answer::Claimed(_) | Answer::Released(Released::NotHeld), _) => Change::Quiet,
            (Answer::Released(Released::LeftQueue), _) => Change::LeftQueue,
            (Answer::Released(Released::Freed { .. }), _) => Change::Freed,
        };
        let asked = match step {
            Step::Claim(claim) | Step::Pass { to: claim, .. } => Some(claim.id),
            Step::Release(_) => None,
        };
        let has_notified = self.store(key, &mut stored, (&before, asked), change, now_ns)?;
        let unread_ahead = stored.unread_ahead;
        self.loaded = stored.is_whole.then(|| (key.clone(), stored));
        match answer {
            Answer::Claimed(Verdict::Busy { retry_after, ahead }) => {
                let ahead = ahead.map(|ahead| ahead.saturating_add(unread_ahead));
                Ok(Answer::Claimed(Verdict::Busy { retry_after, ahead }))
            }
            Answer::Released(Released::Freed { .. }) => Ok(Answer::Released(Released::freed(has_notified))),
            answer @ (Answer::Claimed(_) | Answer::Released(_)) => Ok(answer),
        }
    }

    /// Renews the hold or the place of a claim. Only the rows of this claim are compared and written, because thousands
    /// of places can be renewed together.
    pub(crate) fn renew_state(&mut self, claim: &Claim) -> Result<Renewal, Fault> {
        let (key, now_ns) = (&claim.key, self.host().now_ns());
        if let Some(renewal) = self.renew_in_long_queue(claim, now_ns)? {
            return Ok(renewal);
        }
        let mut stored = self.load_once(key, now_ns)?;
        let now = self.moment(now_ns);
        let renewal = stored.state.renew(claim, now);
        if let Some(valid_for) = renewal.valid_for() {
            self.write_sightings(&mut stored, now_ns)?;
            let StoredState { state, lease, .. } = &mut stored;
            let hold = state.holds().iter().find(|hold| hold.id == claim.id);
            self.extend_claim_row(key, claim.id, hold.map_or(valid_for, |hold| hold.until.since(now)), now_ns)?;
            if hold.is_some() {
                self.write_lease(key, lease, state, lease.wanted, now_ns)?;
            }
        }
        self.loaded = Some((key.clone(), stored));
        Ok(renewal)
    }

    /// Changes the number of permits of a semaphore.
    pub(crate) fn set_limit(&mut self, key: &Key, permits: NonZeroU32) -> Result<Option<u32>, Fault> {
        let now_ns = self.host().now_ns();
        let mut stored = self.load(key, now_ns)?;
        let before = stored.state.clone();
        let earlier = stored.state.set_limit(permits, self.moment(now_ns)).map_err(Fault::Refused)?;
        self.store(key, &mut stored, (&before, None), Change::Freed, now_ns)?;
        Ok(earlier)
    }

    /// Whether the lock might grant a share to another claim: it has no hold, or several claims can hold it together.
    pub(crate) fn may_grant_share(&mut self, key: &Key, now_ns: i64) -> Result<bool, Fault> {
        let stored = self.load(key, now_ns)?;
        Ok(!stored.state.holds().iter().any(|hold| matches!(hold.kind, Kind::Write)))
    }

    /// The state of a lock. If the last step of this transaction was a step of the same lock, the rows are not read
    /// again. A fair mutex can have thousands of waiters, whose steps are in one transaction.
    pub(crate) fn load_once(&mut self, key: &Key, now_ns: i64) -> Result<StoredState, Fault> {
        match self.loaded.take().filter(|(loaded, _)| loaded == key) {
            Some((_, stored)) => Ok(stored),
            None => self.load(key, now_ns),
        }
    }

    /// Whether the owner of this lease holds the name as a fair mutex.
    pub(crate) fn is_fair(&mut self, key: &Key, lease: &Lease) -> Result<bool, Fault> {
        let params = params![key.as_str(), lease.owner];
        Ok(self.has_locks() && self.statement(sql::IS_FAIR)?.query_row(params, |_| Ok(())).optional()?.is_some())
    }

    /// Reads the state of a lock.
    pub(crate) fn load(&mut self, key: &Key, now_ns: i64) -> Result<StoredState, Fault> {
        self.loaded = None; // The caller may change the rows.
        let (lease, claims, limit) = (self.lease(key)?, self.claim_rows(key)?, self.limit(key)?);
        self.assemble(key, lease, claims, limit, now_ns)
    }

    /// The state of a lock with these rows.
    pub(crate) fn assemble(
        &mut self,
        key: &Key,
        lease: Lease,
        claims: Vec<ClaimRow>,
        limit: Option<Limit>,
        now_ns: i64,
    ) -> Result<StoredState, Fault> {
        let (now, last_fence) = (self.moment(now_ns), Fence::new(lease.fence.unsigned_abs()));
        let last_rank = claims.last().map_or(0, |row| row.rank);
        let (mut holds, mut places, mut ended, mut unseen) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        if !is_shared(&lease)
            && let HoldState::Held { owner, left, is_unseen } = self.state(key.as_str(), &lease, now_ns)?
        {
            if is_unseen {
                unseen.push((key.to_string(), lease.stamp));
            }
            let id = owner.parse().unwrap_or(UNKNOWN_OWNER);
            holds.push(Hold { id, kind: Kind::Mutex, until: now + left, last_fence });
        }
        for ClaimRow { id, kind, fence, times, .. } in claims {
            // The owner of the lease decides which holds are valid. A program of an older version that frees or grants
            // the lock changes this owner only.
            if fence.is_some() && !is_shared(&lease) {
                match holds.first_mut().filter(|hold| hold.id == id) {
                    Some(hold) => hold.kind = kind,
                    None => ended.push(id),
                }
                continue;
            }
            let name = sighting_name(key, id);
            let HoldState::Held { left, is_unseen, .. } = self.state(&name, &times, now_ns)? else {
                ended.push(id);
                continue;
            };
            if is_unseen {
                unseen.push((name, times.stamp));
            }
            let until = now + left;
            match fence {
                Some(last_fence) => holds.push(Hold { id, kind, until, last_fence }),
                None => places.push(Place { id, kind, until }),
            }
        }
        let is_starving = lease.wanted == Wanted::Starving && !holds.is_empty();
        let state = LockState::of_parts(holds, places, limit, is_starving, last_fence);
        Ok(StoredState { state, lease, ended, unseen, last_rank, is_whole: true, unread_ahead: 0 })
    }

    /// Writes the changes of a lock since the state `before`, and notifies the waiters after the commit, if they may get
    /// the lock now. `asked` is the claim that got or kept a hold or a place, if there is one. Returns whether there are
    /// waiters that are notified.
    pub(crate) fn store(
        &mut self,
        key: &Key,
        stored: &mut StoredState,
        (before, asked): (&LockState, Option<ClaimId>),
        change: Change,
        now_ns: i64,
    ) -> Result<bool, Fault> {
        self.write_sightings(stored, now_ns)?;
        let StoredState { state, lease, ended, last_rank, .. } = stored;
        *last_rank = self.write_claim_rows(key, asked, &mem::take(ended), [before, state], *last_rank, now_ns)?;
        if let Some(Limit { now, before }) = state.limits().filter(|_| state.limits() != before.limits()) {
            self.write(sql::SET_LIMIT, params![key.as_str(), now, before])?;
        }
        let has_notified = match change {
            Change::Quiet | Change::Subscribed => false,
            // The queue of a fair mutex that is still held.
            Change::LeftQueue if !state.holds().is_empty() && !is_shared(lease) => false,
            Change::LeftQueue | Change::Freed => self.notify_waiters(key, lease, state, now_ns),
        };
        let holds_asked = || state.holds().iter().any(|hold| Some(hold.id) == asked);
        let has_new_holds = state.holds() != before.holds() || holds_asked();
        let wanted = match lease.wanted {
            _ if state.is_starving() && !state.holds().is_empty() => Wanted::Starving,
            // The waiters are notified after the commit, and set the mark again.
            _ if has_notified && has_new_holds => Wanted::No,
            // A client that starved during an earlier hold has set this mark.
            Wanted::Starving => Wanted::Waiting,
            wanted if change == Change::Subscribed => wanted.max(Wanted::Waiting),
            wanted => wanted,
        };
        if has_new_holds {
            self.write_lease(key, lease, state, wanted, now_ns)?;
        } else if wanted < lease.wanted {
            self.write(sql::UNSTARVE, [key.as_str()])?;
        } else {
            self.mark(key, lease, wanted)?;
        }
        lease.wanted = wanted;
        Ok(has_notified)
    }

    /// Writes the first sightings of holds and places of another boot.
    fn write_sightings(&mut self, stored: &mut StoredState, now_ns: i64) -> Result<(), Fault> {
        for (name, stamp) in stored.unseen.drain(..) {
            self.write(sql::SEE, params![name, self.host().boot(), now_ns, stamp])?;
        }
        Ok(())
    }

    /// Writes the row of the table `lease`, so that the name is occupied until the last hold expires.
    fn write_lease(
        &mut self,
        key: &Key,
        lease: &mut Lease,
        state: &LockState,
        wanted: Wanted,
        now_ns: i64,
    ) -> Result<(), Fault> {
        let Some(last) = state.holds().iter().max_by_key(|hold| hold.until) else {
            self.write(sql::RELEASE, [key.as_str()])?;
            *lease = Lease { fence: lease.fence, ..Lease::default() };
            return self.mark(key, lease, wanted);
        };
        if lease.is_foreign(now_ns) {
            self.write(sql::FORGET, [key.as_str()])?;
        }
        let owner = match last.kind {
            Kind::Mutex | Kind::Fair => last.id.to_string(),
            Kind::Read | Kind::Write => READ_WRITE.into(),
            Kind::Permits { .. } => SEMAPHORE.into(),
        };
        let ttl_ns = nanos(last.until.since(self.moment(now_ns)));
        let until_ns = now_ns.saturating_add(ttl_ns);
        let (fence, boot) = (state.fence().as_i64(), self.host().boot());
        self.write(sql::GRANT, params![key.as_str(), owner, fence, until_ns, ttl_ns, boot, wanted.number()])?;
        let written = Lease { owner: Some(owner), fence, expires_ns: until_ns, ttl_ns, ..Lease::default() };
        *lease = Lease { is_of_this_boot: true, ..written };
        Ok(())
    }

    /// Notifies the waiters of a lock after the commit: the subscribers of the key, if there is a waiters' mark, and the
    /// subscriber of the claim that is next in the queue of a fair mutex. Returns whether there is any of them.
    fn notify_waiters(&mut self, key: &Key, lease: &Lease, state: &LockState, now_ns: i64) -> bool {
        if lease.wanted != Wanted::No {
            self.notify_after_commit(Topic::of(key));
        }
        let next = state.next_in_queue(self.moment(now_ns));
        if next.is_some() {
            self.notify_after_commit(Topic { key: key.clone(), queued: next });
        }
        lease.wanted != Wanted::No || next.is_some()
    }

    /// The number of permits of a semaphore. None if the name was never used as a semaphore.
    pub(crate) fn limit(&mut self, key: &Key) -> Result<Option<Limit>, Fault> {
        if !self.has_locks() {
            return Ok(None);
        }
        let read = |row: &rusqlite::Row<'_>| Ok(Limit { now: row.get(0)?, before: row.get(1)? });
        Ok(self.statement(sql::LIMIT)?.query_row([key.as_str()], read).optional()?)
    }
}
