//! Swaps of records. The swaps of several calls share a transaction, and so one commit.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bandog_core::{Error, Holding, Key, Record, Result, Swap, Swapped, Swaps, Version};
use tokio::sync::oneshot;

use crate::{
    channel::Channel,
    client::{Statement, View},
    context::Context,
    fault::Fault,
    job::Request,
    record_rows::{is_held, read_locks, read_records},
    session::Link,
    states::{self, StoredState},
    value::Parameter,
};

/// Maximum number of swaps of several calls that share a transaction.
const MAX_SWAPS: usize = 64;
/// Maximum size of their texts and names together, in bytes. Servers limit the size of a statement.
const MAX_BYTES: usize = 256 * 1024;
/// Maximum number of attempts at swaps that create records which others create at the same time.
const MAX_RACES: u32 = 20;

/// The swaps of a caller.
struct Call {
    swaps: Vec<Swap>,
    /// None after the answer was sent.
    reply: Option<oneshot::Sender<Result<Swaps>>>,
}

impl Call {
    /// Does the swaps in a transaction of their own, and answers them, unless other transactions disturb it. Returns this
    /// disturbance. An error is that of the session.
    async fn run(&mut self, link: &Link, rows: Rows, store: &str) -> Result<Option<Fault>, Fault> {
        let swaps: Vec<_> = self.swaps.iter().collect();
        match swap_all(link, &swaps, rows).await {
            Ok(swaps) => self.answer(Ok(swaps)),
            Err(fault) if fault.ends_session() => return Err(fault),
            Err(fault) => {
                link.roll_back().await?;
                if fault.is_transient() {
                    return Ok(Some(fault));
                }
                self.answer(Err(fault.describe(store)));
            }
        }
        Ok(None)
    }

    fn answer(&mut self, answer: Result<Swaps>) {
        if let Some(reply) = self.reply.take() {
            // If the receiver is dropped, no caller waits for the answer.
            let _ = reply.send(answer);
        }
    }
}

/// The swaps of several calls. They are done in one transaction, in the order of the calls.
#[derive(Default)]
pub(crate) struct SwapCalls {
    calls: Vec<Call>,
    /// Whether each call has a transaction of its own, because the common one was disturbed. So a row that stays locked
    /// delays the other calls only once.
    apart: bool,
}

impl SwapCalls {
    /// Whether the swaps of a further call can share the transaction.
    pub(crate) fn has_room_for(&self, swaps: &[Swap]) -> bool {
        let all = || self.calls.iter().flat_map(|call| &call.swaps).chain(swaps);
        all().count() <= MAX_SWAPS && all().map(size).sum::<usize>() <= MAX_BYTES
    }

    pub(crate) fn add(&mut self, swaps: Vec<Swap>, reply: oneshot::Sender<Result<Swaps>>) {
        self.calls.push(Call { swaps, reply: Some(reply) });
    }

    /// Sends this error to the calls that have no answer yet.
    pub(crate) fn finish(self, failed: Option<Error>) {
        let failed = failed.unwrap_or_else(|| Error::unavailable("the swaps were not executed"));
        for mut call in self.calls {
            call.answer(Err(failed.clone()));
        }
    }

    /// The number of swaps.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.calls.iter().map(|call| call.swaps.len()).sum()
    }

    /// Does the swaps of all calls in one transaction.
    async fn run_together(&mut self, link: &Link) -> Result<(), Fault> {
        let swaps: Vec<_> = self.calls.iter().flat_map(|call| &call.swaps).collect();
        let Swaps { now, each } = swap_all(link, &swaps, Rows::Wait).await?;
        let mut each = each.into_iter();
        for call in &mut self.calls {
            let each = each.by_ref().take(call.swaps.len()).collect();
            call.answer(Ok(Swaps { now, each }));
        }
        Ok(())
    }

    /// Does the swaps of each call in a transaction of its own. The calls that other transactions disturb stay without an
    /// answer. At the end, this waits for the rows of the first of them, which is the last one the next time.
    async fn run_apart(&mut self, link: &Link, store: &str) -> Result<(), Fault> {
        // The callers that have gone need no answer.
        self.calls.retain(|call| call.reply.as_ref().is_some_and(|reply| !reply.is_closed()));
        for call in &mut self.calls {
            // The error of a disturbed call is that of the wait below.
            let _ = call.run(link, Rows::IfFree, store).await?;
        }
        self.calls.retain(|call| call.reply.is_some());
        let Some(first) = self.calls.first_mut() else { return Ok(()) };
        let disturbed = first.run(link, Rows::Wait, store).await?;
        self.calls.rotate_left(1);
        match disturbed {
            Some(fault) => Err(fault),
            None if self.calls.iter().any(|call| call.reply.is_some()) => Err(Fault::row_locked()),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Request for SwapCalls {
    async fn run(&mut self, link: &Link, context: &Context) -> Result<(), Fault> {
        if !self.apart {
            match self.run_together(link).await {
                // One of several calls may be the cause.
                Err(fault) if self.calls.len() > 1 && !fault.ends_session() && !fault.may_be_committed() => {
                    link.roll_back().await?;
                }
                result => return result,
            }
            self.apart = true;
        }
        self.run_apart(link, &context.options.store()).await
    }

    fn finish(self: Box<Self>, failed: Option<Error>) {
        Self::finish(*self, failed);
    }
}

/// The behaviour of a transaction if another one has locked the row of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// It waits as long as the settings of the session allow.
    Wait,
    /// It fails at once, because other calls wait behind it.
    IfFree,
}

/// Does swaps in one transaction.
async fn swap_all(link: &Link, swaps: &[&Swap], rows: Rows) -> Result<Swaps, Fault> {
    for _ in 0..MAX_RACES {
        let mut loaded = Loaded::lock(link, swaps, rows).await?;
        let mut changes = Changes::default();
        let each = swaps.iter().map(|swap| swap_one(swap, &mut loaded, &mut changes)).collect();
        if changes.write(link).await? {
            return Ok(Swaps { now: loaded.now, each });
        }
        // Another client has created one of the records meanwhile. Nothing has changed.
        link.roll_back().await?;
    }
    Err(Error::unavailable("other clients create the same records all the time").into())
}

/// The size of a swap in a statement, in bytes.
fn size(swap: &Swap) -> usize {
    let name = swap.key.as_str().len();
    let lines: usize = swap.lines.iter().map(|line| name + line.slot.len() + line.value.len()).sum();
    name + swap.to.as_ref().map_or(0, |value| value.len()) + lines
}

/// The records and locks of a transaction.
struct Loaded {
    now: SystemTime,
    records: HashMap<Key, Result<Option<Record>>>,
    locks: HashMap<Key, Result<StoredState>>,
}

/// The changes of the swaps of a transaction until now.
#[derive(Default)]
struct Changes {
    /// For each changed record, whether it is in the table, and its new contents.
    records: BTreeMap<Key, (bool, Option<Record>)>,
    /// The records whose histories are deleted before the new lines are written.
    cleared: BTreeSet<Key>,
    lines: BTreeMap<(Key, String), String>,
    channels: BTreeSet<String>,
}

/// The columns of records.
#[derive(Default)]
struct RecordRows<'a> {
    names: Vec<&'a str>,
    versions: Vec<i64>,
    values: Vec<&'a [u8]>,
}

impl RecordRows<'_> {
    /// The parameters of a statement that writes these rows.
    fn values(&self) -> [Parameter<'_>; 3] {
        [&self.names, &self.versions, &self.values]
    }
}

impl Loaded {
    /// Begins a transaction, and locks the records and the leases that the swaps name. Leases are locked first, in all
    /// transactions.
    async fn lock(link: &Link, swaps: &[&Swap], rows: Rows) -> Result<Self, Fault> {
        let keys: BTreeSet<_> = swaps.iter().map(|swap| &swap.key).collect();
        let held: BTreeSet<_> = swaps.iter().filter_map(|swap| Some(&swap.held.as_ref()?.key)).collect();
        let (names, leases): (Vec<_>, Vec<_>) =
            (keys.iter().map(|key| key.as_str()).collect(), held.iter().map(|key| key.as_str()).collect());
        let lock_records = match rows {
            Rows::Wait => &link.statements.lock_records,
            Rows::IfFree => &link.statements.lock_free_records,
        };
        let parameters: [Parameter<'_>; 1] = [&names];
        // The time comes last, because the others wait for rows.
        let last: [Statement<'_>; 2] = [(lock_records, &parameters), (&link.statements.time, &[])];
        // Without leases, the table of another library is not needed.
        let (locks, [rows, time]) = if leases.is_empty() {
            (Vec::new(), link.begin_with(View::Latest, last).await?)
        } else {
            let [lock_records, time] = last;
            let first: [Statement<'_>; 3] = [(&link.statements.hold_leases, &[&leases]), lock_records, time];
            let [locks, rows, time] = link.begin_with(View::Latest, first).await?;
            (locks, [rows, time])
        };
        let now = time.first().ok_or(Fault::Broken(None))?.try_get(0)?;
        let mut records = read_records(&rows)?;
        let records = keys.into_iter().map(|key| (key.clone(), records.remove(key.as_str()).transpose())).collect();
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

    /// The new contents of the records that have a row, or of those that have none.
    fn rows(&self, exist: bool) -> RecordRows<'_> {
        let mut rows = RecordRows::default();
        for (key, (exists, record)) in &self.records {
            if let Some(record) = record.as_ref().filter(|_| *exists == exist) {
                rows.names.push(key.as_str());
                rows.versions.push(i64::try_from(record.version.get()).unwrap_or(i64::MAX));
                rows.values.push(record.value.as_bytes());
            }
        }
        rows
    }

    /// Writes the changes and commits. Returns false if a record that is created exists already. Then the transaction is
    /// still open.
    async fn write(self, link: &Link) -> Result<bool, Fault> {
        let statements = &link.statements;
        let created = self.rows(false);
        if !created.names.is_empty() {
            let rows = match link.query(&statements.create_records, &created.values()).await {
                Err(fault) if fault.is_duplicate() => return Ok(false),
                rows => rows?,
            };
            if rows.len() < created.names.len() {
                return Ok(false);
            }
        }
        let cleared: Vec<_> = self.cleared.iter().map(Key::as_str).collect();
        // A record that was deleted and created again has a row only if it had one before.
        let deleted = self.records.iter().filter(|(_, (_, record))| record.is_none()).map(|(key, _)| key.as_str());
        let deleted: Vec<_> = deleted.collect();
        let put = self.rows(true);
        let names: Vec<_> = self.lines.keys().map(|(key, _)| key.as_str()).collect();
        let slots: Vec<_> = self.lines.keys().map(|(_, slot)| slot.as_str()).collect();
        let lines: Vec<_> = self.lines.values().map(String::as_bytes).collect();
        let channels: Vec<_> = self.channels.iter().map(String::as_str).collect();
        let all: [(_, _, &[Parameter<'_>]); 5] = [
            (&statements.clear_lines, &cleared, &[&cleared]),
            (&statements.delete_records, &deleted, &[&deleted]),
            (&statements.put_records, &put.names, &put.values()),
            (&statements.put_lines, &names, &[&names, &slots, &lines]),
            (&statements.notify, &channels, &[&channels]),
        ];
        let needed = all.into_iter().filter(|(_, names, _)| !names.is_empty());
        let last: Vec<_> = needed.map(|(text, _, values)| (text.as_str(), values)).collect();
        link.end(&last).await?;
        Ok(true)
    }
}
