//! Locks of every kind: their state is read with locked rows, decided by [`LockState`], and written back.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bandog_core::{
    Answer, Claim, Error, ErrorKind, Fence, Holder, Key, Kind, LockState, Moment, Released, Renewal, Result, Step,
    Verdict,
};

use crate::{
    channel::Channel, client::Statement, context::Context, fault::Fault, job::Query, options::Layout, row::Row,
    session::Link, shared_table, value::Parameter,
};

/// The owner of a row whose holds are those of readers or of permits.
const COMPLEX: &str = "*";
/// The time after which a claim is sent again if another transaction has locked its rows.
const LOCKED_RETRY: Duration = Duration::from_millis(50);

/// A lock as it is in the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredState {
    pub(crate) state: LockState,
    /// Whether a subscriber waits for a release.
    pub(crate) wanted: bool,
    /// Whether the lock has rows.
    pub(crate) exists: bool,
    /// The holder, if it is not a client of bandog.
    pub(crate) foreign: Option<String>,
}

impl StoredState {
    /// As [`LockState::row`].
    pub(crate) fn row(&self, key: &Key, now: Moment) -> Option<bandog_core::Row> {
        let mut row = self.state.row(key, now)?;
        if let Some(owner) = &self.foreign {
            for holder in row.holders.iter_mut().filter(|holder| is_foreign(holder)) {
                *holder = Holder { ttl: holder.ttl, kind: holder.kind, ..Holder::new(owner.as_str()) };
            }
        }
        Some(row)
    }
}

/// Whether the holder stands for one that is not a client of bandog.
fn is_foreign(holder: &Holder) -> bool {
    holder.owner.as_ref().is_some_and(|owner| *owner == shared_table::FOREIGN.to_string())
}

/// Locks whose rows are locked by the open transaction.
pub(crate) struct Locked {
    /// The time of the database.
    pub(crate) now: Moment,
    /// The locks that no claim can get in this transaction: a transaction of a user keeps the rows of their fences.
    kept: BTreeSet<Key>,
    /// The locks that were asked for. A name whose rows have contents of another program has no state.
    pub(crate) states: BTreeMap<Key, Result<StoredState>>,
    before: BTreeMap<Key, StoredState>,
    /// The names whose rows another transaction has locked. They have no state.
    skipped: BTreeSet<Key>,
    /// The channels that are notified at the commit.
    channels: BTreeSet<String>,
}

/// The purpose of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It grants locks: rows are created, and the rows of fences are locked, too.
    Grant,
    /// It ends or extends holds.
    Change,
}

impl Locked {
    /// Begins a transaction, and reads and locks these locks. Fails if another transaction has locked one of their rows.
    pub(crate) async fn begin(link: &Link, keys: BTreeSet<Key>, purpose: Purpose) -> Result<Self, Fault> {
        let locked = Self::begin_some(link, keys, purpose).await?;
        if locked.skipped.is_empty() { Ok(locked) } else { Err(Fault::row_locked()) }
    }

    /// As [`Locked::begin`], but it skips rows that another transaction has locked.
    pub(crate) async fn begin_some(link: &Link, keys: BTreeSet<Key>, purpose: Purpose) -> Result<Self, Fault> {
        let (keys, refused) = refused(link, keys);
        let names: Vec<_> = keys.iter().map(Key::as_str).collect();
        let text = match purpose {
            Purpose::Grant => &link.statements.lock,
            Purpose::Change => &link.statements.lock_leases,
        };
        let mut rows = link.begin(text, &[&names]).await?;
        let (mut kept, mut skipped) = (BTreeSet::new(), BTreeSet::new());
        match purpose {
            Purpose::Grant if rows.len() < names.len() => {
                link.query(&link.statements.insert, &[&names]).await?;
                rows = link.query(text, &[&names]).await?;
                skipped = without(&keys, &rows)?;
                if !skipped.is_empty() && link.statements.can_keep_fences() {
                    let names: Vec<_> = skipped.iter().map(Key::as_str).collect();
                    let leases = link.query(&link.statements.lock_leases, &[&names]).await?;
                    let locked = without(&skipped, &leases)?;
                    kept = skipped.difference(&locked).cloned().collect();
                    skipped = locked;
                    rows.extend(leases);
                }
            }
            Purpose::Change if rows.len() < names.len() => {
                // A lock without a row is free. A row that is there, and was not found, is locked.
                let missing = without(&keys, &rows)?;
                let names: Vec<_> = missing.iter().map(Key::as_str).collect();
                let free = without(&missing, &link.query(&link.statements.exist, &[&names]).await?)?;
                skipped = missing.difference(&free).cloned().collect();
            }
            Purpose::Grant | Purpose::Change => {}
        }
        let now = match rows.first() {
            Some(row) => row.try_get(7)?,
            None => server_time(link).await?,
        };
        let mut states: BTreeMap<_, _> = keys.into_iter().map(|key| (key, Ok(StoredState::default()))).collect();
        for row in &rows {
            if let Ok(key) = Key::new(row.try_get::<&str>(0)?) {
                states.insert(key, read(row)?);
            }
        }
        states.retain(|key, _| !skipped.contains(key));
        states.extend(refused.into_iter().map(|(key, error)| (key, Err(error))));
        let before = states.iter().filter_map(|(key, state)| Some((key.clone(), state.as_ref().ok()?.clone())));
        Ok(Self { now: moment(now), kept, before: before.collect(), states, skipped, channels: BTreeSet::new() })
    }

    /// Whether no claim can get the lock in this transaction, because a transaction of a user has checked its fence.
    pub(crate) fn is_kept(&self, key: &Key) -> bool {
        self.kept.contains(key)
    }

    /// A fence that new fences exceed: the time of the database in microseconds.
    fn above(&self) -> Fence {
        Fence::new(self.now.as_nanos() / 1000)
    }

    /// Changes a lock.
    pub(crate) fn change<T>(
        &mut self,
        key: &Key,
        change: impl FnOnce(&mut StoredState, Moment) -> Result<T>,
    ) -> Result<T> {
        match self.states.get_mut(key) {
            Some(Ok(stored)) => change(stored, self.now),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::unavailable("the lock was not read").at(key)),
        }
    }

    /// Notifies the waiters of a lock when the transaction commits: the subscribers of the name, if there are any, and the
    /// claim that is next in the queue of a fair mutex. Returns whether there are any.
    pub(crate) fn notify(&mut self, key: &Key) -> bool {
        let Some(Ok(stored)) = self.states.get_mut(key) else { return false };
        let is_wanted = std::mem::take(&mut stored.wanted);
        if is_wanted {
            self.channels.insert(Channel::of_lock(key).to_string());
        }
        let next = stored.state.next_in_queue(self.now);
        if let Some(next) = next {
            self.channels.insert(Channel::of_place(key, next).to_string());
        }
        is_wanted || next.is_some()
    }

    /// Writes the changed locks and commits.
    pub(crate) async fn commit(self, link: &Link) -> Result<(), Fault> {
        let changed = self.states.iter().filter_map(|(key, state)| {
            let (state, before) = (state.as_ref().ok()?, self.before.get(key)?);
            (state != before && state.exists).then_some((key, state, before))
        });
        let mut columns = Columns::default();
        for (key, state, before) in changed {
            columns.add(key, state, before);
        }
        let channels: Vec<_> = self.channels.into_iter().collect();
        let Columns { names, owners, expires, starving, wanted, states, fences } = &columns;
        let writes = [names as Parameter<'_>, owners, expires, starving, wanted, states, fences];
        let mut last: Vec<Statement<'_>> = Vec::new();
        if !names.is_empty() {
            last.push((&link.statements.write, &writes));
        }
        let notified = [&channels as Parameter<'_>];
        if !channels.is_empty() {
            last.push((&link.statements.notify, &notified));
        }
        link.end(&last).await.map(drop)
    }
}

/// Separates the keys that the table of other programs cannot have, and their errors.
fn refused(link: &Link, keys: BTreeSet<Key>) -> (BTreeSet<Key>, Vec<(Key, Error)>) {
    let Some(table) = &link.table else { return (keys, Vec::new()) };
    let (mut allowed, mut refused) = (BTreeSet::new(), Vec::new());
    for key in keys {
        match table.refuse(&key) {
            Some(error) => refused.push((key, error)),
            None => drop(allowed.insert(key)),
        }
    }
    (allowed, refused)
}

/// The columns of the statement `write`.
#[derive(Default)]
struct Columns<'a> {
    names: Vec<&'a str>,
    owners: Vec<Option<String>>,
    expires: Vec<Option<SystemTime>>,
    starving: Vec<bool>,
    wanted: Vec<bool>,
    states: Vec<Option<String>>,
    fences: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    fn add(&mut self, key: &'a Key, stored: &StoredState, before: &StoredState) {
        let state = &stored.state;
        let is_plain = state.places().is_empty() && state.limits().is_none();
        let (owner, text) = match state.holds() {
            [] if is_plain => (None, None),
            [hold] if is_plain && matches!(hold.kind, Kind::Mutex) => (Some(hold.id.to_string()), None),
            [] => (None, Some(state.to_string())),
            // The check in a transaction of the user compares the owner.
            [hold] if matches!(hold.kind, Kind::Mutex | Kind::Fair | Kind::Write) => {
                (Some(hold.id.to_string()), Some(state.to_string()))
            }
            [_, ..] => (Some(COMPLEX.into()), Some(state.to_string())),
        };
        self.names.push(key.as_str());
        self.owners.push(owner);
        self.expires.push(state.holds().iter().map(|hold| hold.until).max().map(time));
        self.starving.push(state.is_starving());
        self.wanted.push(stored.wanted);
        self.states.push(text);
        self.fences.push((state.fence() != before.state.fence()).then(|| state.fence().as_i64()));
    }
}

/// The answers to steps. None for a step whose row another transaction has locked.
type Answers = Vec<Option<Result<Answer>>>;

/// Applies steps in one transaction.
pub(crate) async fn apply(link: &Link, context: &Context, steps: &[&Step]) -> Result<Answers, Fault> {
    let grants = steps.iter().any(|step| !matches!(step, Step::Release(_)));
    let keys = steps.iter().map(|step| step.key().clone()).collect();
    let purpose = if grants { Purpose::Grant } else { Purpose::Change };
    let mut locked = match Locked::begin_some(link, keys, purpose).await {
        // Another transaction has created rows, and has not ended.
        Err(fault) if fault.is_lock_timeout() => {
            link.roll_back().await?;
            return Ok(steps.iter().map(|step| Some(given_up(step))).collect());
        }
        other => other?,
    };
    let mut answers = Vec::with_capacity(steps.len());
    for step in steps {
        let (key, above) = (step.key(), locked.above());
        if locked.skipped.contains(key) {
            answers.push(None);
            continue;
        }
        let is_kept = locked.is_kept(key);
        let answer = locked.change(key, |stored, now| {
            let mut state = stored.state.clone();
            let answer = state.apply_above(step, now, above)?;
            if is_kept && matches!(answer, Answer::Claimed(Verdict::Granted { .. })) {
                return Ok((false, Answer::Claimed(locked_out())));
            }
            stored.state = state;
            if let (Answer::Claimed(Verdict::Busy { .. }), Step::Claim(claim) | Step::Pass { to: claim, .. }) =
                (&answer, step)
            {
                stored.wanted |= context.subscriptions.has(Channel::of_lock(&claim.key));
            }
            Ok((stored.state.wakes_others(step, &answer), answer))
        });
        answers.push(Some(answer.map(|(wakes_others, answer)| {
            let has_notified = wakes_others && locked.notify(key);
            // Clients of other libraries wait without a mark.
            let has_waiters = has_notified || matches!(context.options.layout, Layout::ShedLock(_));
            match answer {
                Answer::Released(Released::Freed { .. }) => Answer::Released(Released::freed(has_waiters)),
                answer => answer,
            }
        })));
    }
    locked.commit(link).await?;
    Ok(answers)
}

/// The answer to a step whose rows another transaction has locked for too long. A claim is busy. The engine sends another
/// step again soon, so one row delays no other step.
pub(crate) fn given_up(step: &Step) -> Result<Answer> {
    match step {
        Step::Claim(_) => Ok(Answer::Claimed(locked_out())),
        Step::Pass { .. } | Step::Release(_) => Err(row_locked()),
    }
}

/// The answer to a claim that no client can get at present, because another transaction has locked its rows.
pub(crate) fn locked_out() -> Verdict {
    Verdict::Busy { retry_after: LOCKED_RETRY, ahead: None }
}

/// The error of a release or a renewal whose row another transaction has locked.
pub(crate) fn row_locked() -> Error {
    Error::unavailable("another transaction has locked the row of the lock")
}

/// The answers to renewals. None for a claim whose row another transaction has locked.
type Renewed = Vec<Option<Result<Renewal>>>;

/// Renews claims in one transaction.
pub(crate) async fn renew(link: &Link, _: &Context, claims: &[&Claim]) -> Result<Renewed, Fault> {
    let keys = claims.iter().map(|claim| claim.key.clone()).collect();
    let mut locked = Locked::begin_some(link, keys, Purpose::Change).await?;
    let mut renewed = Vec::with_capacity(claims.len());
    for claim in claims {
        let is_locked = locked.skipped.contains(&claim.key);
        let renew = |stored: &mut StoredState, now| Ok(stored.state.renew(claim, now));
        renewed.push((!is_locked).then(|| locked.change(&claim.key, renew)));
    }
    locked.commit(link).await?;
    Ok(renewed)
}

/// The keys that have none of these rows.
fn without(keys: &BTreeSet<Key>, rows: &[Row]) -> Result<BTreeSet<Key>, Fault> {
    let mut found = BTreeSet::new();
    for row in rows {
        found.insert(row.try_get::<&str>(0)?);
    }
    Ok(keys.iter().filter(|key| !found.contains(key.as_str())).cloned().collect())
}

/// Changes the number of permits of a semaphore.
pub(crate) struct SetLimit {
    pub(crate) key: Key,
    pub(crate) permits: NonZeroU32,
}

#[async_trait]
impl Query for SetLimit {
    type Output = Result<Option<u32>>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Self::Output, Fault> {
        let mut locked = Locked::begin(link, BTreeSet::from([self.key.clone()]), Purpose::Grant).await?;
        let changed = locked.change(&self.key, |stored, now| stored.state.set_limit(self.permits, now));
        if changed.is_ok() {
            locked.notify(&self.key);
        }
        locked.commit(link).await?;
        Ok(changed)
    }
}

/// Reads the row of a lock. The inner error is that of a row with contents of another program.
pub(crate) fn read(row: &Row) -> Result<Result<StoredState>, Fault> {
    let (name, owner): (&str, Option<&str>) = (row.try_get(0)?, row.try_get(1)?);
    let expires: Option<SystemTime> = row.try_get(2)?;
    let (starving, wanted): (bool, bool) = (row.try_get(3)?, row.try_get(4)?);
    let (text, fence): (Option<&str>, i64) = (row.try_get(5)?, row.try_get(6)?);
    let foreign = |what: &str| {
        let error = Error::new(ErrorKind::Denied, format!("the row of the lock {name:?} has {what}"));
        Ok(Err(error))
    };
    let Ok(fence) = u64::try_from(fence).map(Fence::new) else { return foreign("a negative fence") };
    if let Some(other) = text.and_then(shared_table::other_spelling) {
        return foreign(&format!("the spelling {other:?}; the collation of the table does not distinguish the two"));
    }
    let shared = owner.and_then(shared_table::holder);
    let foreign_holder = shared.as_ref().and_then(|(_, other)| other.clone());
    let state = match (text, owner, expires) {
        (Some(text), ..) => match text.parse::<LockState>() {
            Ok(state) => LockState::of_parts(
                state.holds().to_vec(),
                state.places().to_vec(),
                state.limits(),
                state.is_starving(),
                fence,
            ),
            Err(_) => return foreign("a state that bandog did not write"),
        },
        (None, Some(owner), Some(expires)) => match shared.map_or_else(|| owner.parse(), |(id, _)| Ok(id)) {
            Ok(id) => LockState::of_mutex(Some((id, moment(expires))), starving, fence),
            Err(_) => return foreign("an owner that bandog did not write"),
        },
        (None, Some(_), None) => return foreign("an owner without a time"),
        (None, None, _) => LockState::of_mutex(None, starving, fence),
    };
    Ok(Ok(StoredState { state, wanted, exists: true, foreign: foreign_holder }))
}

/// The present time of the database.
pub(crate) async fn server_time(link: &Link) -> Result<SystemTime, Fault> {
    let rows = link.query(&link.statements.time, &[]).await?;
    rows.first().ok_or(Fault::Broken(None))?.try_get(0)
}

/// The moment of a time: nanoseconds since 1970.
pub(crate) fn moment(time: SystemTime) -> Moment {
    let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Moment::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// The time of a moment, rounded to the resolution of the database.
fn time(moment: Moment) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(moment.as_nanos() / 1000)
}
