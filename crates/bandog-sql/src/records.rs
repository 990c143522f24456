//! Records: small texts that are replaced as a whole.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bandog_core::{
    Error, ErrorKind, Holding, Key, Latches, Line, Mark, Moment, Notifier, Pattern, Reading, Record, Records, Result,
    SqlStatement, Subscription, Swap, Swapped, Swaps, Version,
};

use crate::{
    Sql,
    fault::Fault,
    fence,
    job::Query,
    leases::Context,
    listen::{Channel, Listener},
    row::Row,
    session::Link,
    states::{self, StoredState, server_time},
    value::Parameter,
};

/// Maximum number of attempts at swaps that create records which others create at the same time.
const MAX_RACES: u32 = 20;

/// The column after those of a record.
const TIME_COLUMN: usize = 3;
/// The column of a lock that has the time at which the state of the database was read, or an earlier time.
const READ_AT_COLUMN: usize = 7;

#[async_trait]
impl Records for Sql {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let mut answer = self.query(SwapAll(swaps.to_vec())).await.map_err(|error| error.during("swap"))?;
        answer.each = with_context("swap", answer.each, swaps.iter().map(|swap| &swap.key));
        Ok(answer)
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let query = Read { keys: keys.to_vec(), holdings: holdings.to_vec() };
        let mut answer = self.query(query).await.map_err(|error| error.during("read"))?;
        answer.records = with_context("read", answer.records, keys);
        answer.held = with_context("read", answer.held, holdings.iter().map(|holding| &holding.key));
        Ok(answer)
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.query(Names(pattern.clone())).await.map_err(|error| error.during("names"))
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.query(History(key.clone())).await.flatten().map_err(|error| error.during("history").at(key))
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let subscribed = Listener::subscribe(self.context(), Channel::of_record(key), None, notifier).await;
        subscribed.map_err(|error| error.during("subscribe").at(key))
    }

    async fn mark_sql(&self, mark: &Mark) -> Result<SqlStatement> {
        fence::mark(self.context(), mark).map_err(|error| error.during("complete").at(&mark.key))
    }
}

impl Latches for Sql {}

/// Adds the verb and the key to each error.
fn with_context<'k, T>(
    verb: &'static str,
    each: Vec<Result<T>>,
    keys: impl IntoIterator<Item = &'k Key>,
) -> Vec<Result<T>> {
    let add = |(answer, key): (Result<T>, &Key)| answer.map_err(|error: Error| error.during(verb).at(key));
    each.into_iter().zip(keys).map(add).collect()
}

/// Does the swaps of a call in one transaction.
struct SwapAll(Vec<Swap>);

/// The records and locks of a transaction.
struct Loaded {
    now: SystemTime,
    records: HashMap<Key, Result<Option<Record>>>,
    locks: HashMap<Key, Result<StoredState>>,
}

/// What the swaps of a transaction have changed until now.
#[derive(Default)]
struct Changes {
    /// For each changed record, whether it is in the table, and its new contents.
    records: BTreeMap<Key, (bool, Option<Record>)>,
    /// The records whose histories are deleted before the new lines are written.
    cleared: BTreeSet<Key>,
    lines: BTreeMap<(Key, String), String>,
    channels: BTreeSet<String>,
}

#[async_trait]
impl Query for SwapAll {
    type Output = Swaps;

    async fn run(&self, link: &Link, _: &Context) -> Result<Swaps, Fault> {
        for _ in 0..MAX_RACES {
            if let Some(swaps) = self.attempt(link).await? {
                return Ok(swaps);
            }
        }
        Err(Error::unavailable("other clients create the same records all the time").into())
    }
}

impl SwapAll {
    /// Does the swaps. None if another client has created one of the records meanwhile; then nothing has changed.
    async fn attempt(&self, link: &Link) -> Result<Option<Swaps>, Fault> {
        let mut loaded = Loaded::lock(link, &self.0).await?;
        let mut changes = Changes::default();
        let each = self.0.iter().map(|swap| swap_one(swap, &mut loaded, &mut changes)).collect();
        if !changes.write(link).await? {
            link.roll_back().await?;
            return Ok(None);
        }
        Ok(Some(Swaps { now: loaded.now, each }))
    }
}

impl Loaded {
    /// Begins a transaction, and locks the records and the leases that the swaps name. Leases are locked first, in all
    /// transactions.
    async fn lock(link: &Link, swaps: &[Swap]) -> Result<Self, Fault> {
        let keys: BTreeSet<_> = swaps.iter().map(|swap| &swap.key).collect();
        let held: BTreeSet<_> = swaps.iter().filter_map(|swap| Some(&swap.held.as_ref()?.key)).collect();
        let (names, leases): (Vec<_>, Vec<_>) =
            (keys.iter().map(|key| key.as_str()).collect(), held.iter().map(|key| key.as_str()).collect());
        let (locks, rows) = if leases.is_empty() {
            (Vec::new(), link.begin(&link.statements.lock_records, &[&names]).await?)
        } else {
            let locks = link.begin(&link.statements.hold_leases, &[&leases]).await?;
            (locks, link.query(&link.statements.lock_records, &[&names]).await?)
        };
        let mut records = read_records(&rows)?;
        let records = keys.into_iter().map(|key| (key.clone(), records.remove(key.as_str()).transpose())).collect();
        // On MySQL, the time is a further column, which saves a round trip.
        let now = match rows.first() {
            Some(row) if row.len() > TIME_COLUMN => row.try_get(TIME_COLUMN)?,
            Some(_) | None => server_time(link).await?,
        };
        Ok(Self { now, records, locks: read_locks(&locks)? })
    }

    fn is_held(&self, holding: &Holding) -> Result<bool> {
        is_held(&self.locks, holding, states::moment(self.now))
    }
}

/// Does one swap. A swap changes nothing if one of its conditions is not met.
fn swap_one(swap: &Swap, loaded: &mut Loaded, changes: &mut Changes) -> Result<Swapped> {
    let record = match loaded.records.get(&swap.key) {
        Some(record) => record.clone()?,
        None => None,
    };
    let last = record.as_ref().map(|record| record.version);
    if last != swap.from {
        return Ok(Swapped::Differs(record));
    }
    let time_left = swap.not_before.and_then(|time| time.duration_since(loaded.now).ok());
    if let Some(time_left) = time_left.filter(|time_left| *time_left > Duration::ZERO) {
        return Ok(Swapped::Early(time_left));
    }
    if let Some(holding) = &swap.held
        && !loaded.is_held(holding)?
    {
        return Ok(Swapped::NotHeld);
    }
    let value = swap.to.clone();
    let written = value.map(|value| Record { version: Version::after(last, loaded.now), value });
    changes.put(swap, record.is_some(), written.clone());
    let version = written.as_ref().map(|record| record.version);
    loaded.records.insert(swap.key.clone(), Ok(written));
    Ok(Swapped::Done(version))
}

impl Changes {
    /// Records a swap. `exists` is whether the record existed before this swap.
    fn put(&mut self, swap: &Swap, exists: bool, written: Option<Record>) {
        if written.is_none() {
            self.lines.retain(|(key, _), _| *key != swap.key);
            self.cleared.insert(swap.key.clone());
        } else {
            let lines = swap.lines.iter().map(|line| ((swap.key.clone(), line.slot.clone()), line.value.clone()));
            self.lines.extend(lines);
        }
        match self.records.get_mut(&swap.key) {
            Some((_, record)) => *record = written,
            None => drop(self.records.insert(swap.key.clone(), (exists, written))),
        }
        if swap.notifies {
            self.channels.insert(Channel::of_record(&swap.key).to_string());
        }
    }

    /// Writes the changes and commits. Returns false if a record that is created exists already. Then the transaction is
    /// still open.
    async fn write(self, link: &Link) -> Result<bool, Fault> {
        let statements = &link.statements;
        let cleared: Vec<_> = self.cleared.iter().map(Key::as_str).collect();
        // A record that was deleted and created again has a row only if it had one before.
        let deleted = self.records.iter().filter(|(_, (_, record))| record.is_none()).map(|(key, _)| key.as_str());
        let deleted: Vec<_> = deleted.collect();
        if !cleared.is_empty() {
            link.query(&statements.clear_lines, &[&cleared]).await?;
        }
        if !deleted.is_empty() {
            link.query(&statements.delete_records, &[&deleted]).await?;
        }
        for (text, is_present) in [(&statements.put_records, true), (&statements.create_records, false)] {
            let chosen = self.records.iter().filter_map(|(key, (exists, record))| {
                let record = record.as_ref().filter(|_| *exists == is_present)?;
                Some((key.as_str(), i64::try_from(record.version.get()).unwrap_or(i64::MAX), record.value.as_bytes()))
            });
            let (mut names, mut versions, mut values) = (Vec::new(), Vec::new(), Vec::new());
            for (name, version, value) in chosen {
                names.push(name);
                versions.push(version);
                values.push(value);
            }
            if names.is_empty() {
                continue;
            }
            let rows = match link.query(text, &[&names as Parameter<'_>, &versions, &values]).await {
                Err(fault) if fault.is_duplicate() => return Ok(false),
                rows => rows?,
            };
            if !is_present && rows.len() < names.len() {
                return Ok(false);
            }
        }
        if !self.lines.is_empty() {
            let names: Vec<_> = self.lines.keys().map(|(key, _)| key.as_str()).collect();
            let slots: Vec<_> = self.lines.keys().map(|(_, slot)| slot.as_str()).collect();
            let values: Vec<_> = self.lines.values().map(String::as_bytes).collect();
            link.query(&statements.put_lines, &[&names as Parameter<'_>, &slots, &values]).await?;
        }
        let channels: Vec<_> = self.channels.into_iter().collect();
        if channels.is_empty() {
            link.commit().await?;
        } else {
            link.end(&statements.notify, &[&channels]).await?;
        }
        Ok(true)
    }
}

/// Reads records, and checks holdings, in one step.
///
/// All statements see one state of the database. A lease is judged by the time at which this state was read, because a
/// renewal that came later is not in it: the process or the server can be stopped between the statements.
pub(crate) struct Read {
    pub(crate) keys: Vec<Key>,
    pub(crate) holdings: Vec<Holding>,
}

#[async_trait]
impl Query for Read {
    type Output = Reading;

    async fn run(&self, link: &Link, _: &Context) -> Result<Reading, Fault> {
        let names: Vec<_> = self.keys.iter().map(Key::as_str).collect();
        let leases: Vec<_> = self.holdings.iter().map(|holding| holding.key.as_str()).collect();
        if names.is_empty() && leases.is_empty() {
            return Ok(Reading { now: server_time(link).await?, records: Vec::new(), held: Vec::new() });
        }
        let (locks, rows) = if leases.is_empty() {
            (Vec::new(), link.begin_snapshot(&link.statements.records, &[&names]).await?)
        } else {
            let locks = link.begin_snapshot(&link.statements.show, &[&leases]).await?;
            (locks, link.query(&link.statements.records, &[&names]).await?)
        };
        let ended = link.end(&link.statements.time, &[]).await?;
        let now = ended.first().ok_or(Fault::Broken(None))?.try_get(0)?;
        let read_at = locks.first().map(|row| row.try_get(READ_AT_COLUMN)).transpose()?.unwrap_or(now);
        let (found, locks) = (read_records(&rows)?, read_locks(&locks)?);
        let record = |key: &Key| found.get(key.as_str()).cloned().transpose();
        let held = |holding| is_held(&locks, holding, states::moment(read_at));
        Ok(Reading {
            now,
            records: self.keys.iter().map(record).collect(),
            held: self.holdings.iter().map(held).collect(),
        })
    }
}

/// The names of all matching records.
struct Names(Pattern);

#[async_trait]
impl Query for Names {
    type Output = Vec<Key>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Vec<Key>, Fault> {
        let rows = link.query(&link.statements.names, &[&literal_prefix(&self.0)]).await?;
        let mut found = Vec::new();
        for row in &rows {
            let name: &str = row.try_get(0)?;
            found.extend(Key::new(name).ok().filter(|_| self.0.matches(name)));
        }
        Ok(found)
    }
}

/// The text with which each matching name begins.
fn literal_prefix(pattern: &Pattern) -> String {
    let (mut prefix, mut rest) = (String::new(), pattern.as_str().chars());
    while let Some(c) = rest.next() {
        match c {
            '*' | '?' => break,
            '\\' => prefix.extend(rest.next()),
            c => prefix.push(c),
        }
    }
    prefix
}

/// The history of one record.
struct History(Key);

#[async_trait]
impl Query for History {
    type Output = Result<Vec<Line>>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Self::Output, Fault> {
        let rows = link.query(&link.statements.history, &[&self.0.as_str()]).await?;
        let mut lines = Vec::new();
        for row in &rows {
            match text(row.try_get(1)?) {
                Ok(value) => lines.push(Line { slot: row.try_get(0)?, value }),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(lines))
    }
}

/// The records in these rows, by name. An error is that of a record that bandog did not write.
fn read_records(rows: &[Row]) -> Result<HashMap<String, Result<Record>>, Fault> {
    let mut records = HashMap::new();
    for row in rows {
        let (name, version, value): (&str, i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let version = u64::try_from(version).ok().and_then(Version::new);
        let version = version.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the record has no version"));
        let record = version.and_then(|version| Ok(Record { version, value: text(value)? }));
        records.insert(name.to_owned(), record);
    }
    Ok(records)
}

fn text(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map(Into::into);
    text.map_err(|cause| Error::new(ErrorKind::Corrupt, "the record has a text that is not UTF-8").caused_by(cause))
}

fn read_locks(rows: &[Row]) -> Result<HashMap<Key, Result<StoredState>>, Fault> {
    let mut locks = HashMap::new();
    for row in rows {
        if let Ok(key) = Key::new(row.try_get::<&str>(0)?) {
            locks.insert(key, states::read(row)?);
        }
    }
    Ok(locks)
}

fn is_held(locks: &HashMap<Key, Result<StoredState>>, holding: &Holding, now: Moment) -> Result<bool> {
    match locks.get(&holding.key) {
        Some(Ok(stored)) => Ok(stored.state.is_held_by(holding.id, now)),
        Some(Err(error)) => Err(error.clone()),
        None => Ok(false),
    }
}
