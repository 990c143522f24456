//! Records: small texts that are replaced as a whole, and survive a power failure.

use std::{sync::Arc, time::SystemTime};

use async_trait::async_trait;
use bandog_core::{
    Backend, Error, Holding, Key, Latches, Line, Notifier, Pattern, Reading, Record, Records, Result, Subscription,
    Swap, Swapped, Swaps, Version, queues::Queues,
};
use rusqlite::{OptionalExtension, params};

use crate::{
    Sqlite,
    fault::Fault,
    sql,
    subscribers::Topic,
    table::Table,
    work::{ReadRecords, RecordHistory, RecordNames, SwapRecords},
};

#[async_trait]
impl Records for Sqlite {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let mut answer = self.request(SwapRecords(swaps.to_vec())).await.map_err(|error| error.during("swap"))?;
        answer.each = with_context("swap", answer.each, swaps.iter().map(|swap| &swap.key));
        Ok(answer)
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let work = ReadRecords { keys: keys.to_vec(), holdings: holdings.to_vec(), purpose: self.purpose() };
        let mut answer = self.request(work).await.map_err(|error| error.during("read"))?;
        answer.records = with_context("read", answer.records, keys);
        answer.held = with_context("read", answer.held, holdings.iter().map(|holding| &holding.key));
        Ok(answer)
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.request(RecordNames(pattern.clone(), self.purpose())).await.map_err(|error| error.during("names"))
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.request(RecordHistory(key.clone(), self.purpose())).await.map_err(|error| error.during("history").at(key))
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let subscribed = self.subscribe_topic(Topic::of(key), notifier).await;
        subscribed.map_err(|error| error.during("subscribe").at(key))
    }
}

impl Latches for Sqlite {}

impl Backend for Sqlite {
    fn queues(&self) -> Option<Arc<dyn Queues>> {
        Some(Arc::new(self.clone()))
    }
}

/// Adds the verb and the key to each error.
fn with_context<'k, T>(
    verb: &'static str,
    each: Vec<Result<T>>,
    keys: impl IntoIterator<Item = &'k Key>,
) -> Vec<Result<T>> {
    let add = |(answer, key): (Result<T>, &Key)| answer.map_err(|error: Error| error.during(verb).at(key));
    each.into_iter().zip(keys).map(add).collect()
}

impl Table<'_> {
    /// Executes the swaps in this order. A swap changes nothing if one of its conditions is not met.
    pub(crate) fn swap_all(&mut self, swaps: &[Swap]) -> Result<Swaps, Fault> {
        let now = self.host().wall();
        let each = swaps.iter().map(|swap| {
            let swapped = self.one_row(|table| table.swap(swap, now))?;
            if swap.notifies && matches!(swapped, Ok(Swapped::Done(_))) {
                self.notify_after_commit(Topic::of(&swap.key));
            }
            Ok(swapped)
        });
        Ok(Swaps { now, each: each.collect::<Result<_, Fault>>()? })
    }

    /// Reads the records with these keys, and checks whether these claims hold their locks.
    pub(crate) fn read(&mut self, keys: &[Key], holdings: &[Holding]) -> Result<Reading, Fault> {
        let now = self.host().wall();
        let records = keys.iter().map(|key| self.one_row(|table| table.record(key))).collect::<Result<_, Fault>>()?;
        let held = holdings.iter().map(|holding| self.one_row(|table| table.is_held(holding)));
        Ok(Reading { now, records, held: held.collect::<Result<_, Fault>>()? })
    }

    /// The names of all matching records.
    pub(crate) fn names(&mut self, pattern: &Pattern) -> Result<Vec<Key>, Fault> {
        if !self.has_records() {
            return Ok(Vec::new());
        }
        let mut rows = self.statement(sql::NAMES)?.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let name = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            found.extend(Key::new(name).ok().filter(|_| pattern.matches(name)));
        }
        Ok(found)
    }

    /// The history of one record.
    pub(crate) fn history(&mut self, key: &Key) -> Result<Vec<Line>, Fault> {
        if !self.has_records() {
            return Ok(Vec::new());
        }
        let read = |row: &rusqlite::Row<'_>| Ok(Line { slot: row.get(0)?, value: row.get(1)? });
        let lines = self.statement(sql::HISTORY)?.query_map([key.as_str()], read)?.collect::<Result<_, _>>()?;
        Ok(lines)
    }

    /// Executes one swap. `now` is the time of the wall clock.
    fn swap(&mut self, swap: &Swap, now: SystemTime) -> Result<Swapped, Fault> {
        let record = self.record(&swap.key)?;
        let last = record.as_ref().map(|record| record.version);
        if last != swap.from {
            return Ok(Swapped::Differs(record));
        }
        let time_left = swap.not_before.and_then(|time| time.duration_since(now).ok());
        if let Some(time_left) = time_left.filter(|time_left| !time_left.is_zero()) {
            return Ok(Swapped::Early(time_left));
        }
        if let Some(holding) = &swap.held
            && !self.is_held(holding)?
        {
            return Ok(Swapped::NotHeld);
        }
        let Some(value) = &swap.to else {
            self.write_together(|table| table.delete(&swap.key))?;
            return Ok(Swapped::Done(None));
        };
        let version = Version::after(last, now);
        self.write_together(|table| table.put(&swap.key, version, value, &swap.lines))?;
        Ok(Swapped::Done(Some(version)))
    }

    /// The record with this key. None if there is no such record.
    fn record(&mut self, key: &Key) -> Result<Option<Record>, Fault> {
        if !self.has_records() {
            return Ok(None);
        }
        Ok(self.statement(sql::RECORD)?.query_row([key.as_str()], read_record).optional()?)
    }

    /// Writes the record, and adds lines to its history.
    fn put(&mut self, key: &Key, version: Version, value: &str, lines: &[Line]) -> Result<(), Fault> {
        let number = i64::try_from(version.get()).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, i64::MAX))?;
        self.write(sql::PUT, params![key.as_str(), number, value])?;
        for Line { slot, value } in lines {
            self.write(sql::NOTE, params![key.as_str(), slot, value])?;
        }
        Ok(())
    }

    /// Deletes the record and its history.
    fn delete(&mut self, key: &Key) -> Result<(), Fault> {
        self.write(sql::DELETE, [key.as_str()])?;
        self.write(sql::CLEAR, [key.as_str()])?;
        Ok(())
    }
}

/// Reads the row of a record. Fails if the row contains a version that bandog never writes.
fn read_record(row: &rusqlite::Row<'_>) -> rusqlite::Result<Record> {
    let number: i64 = row.get(0)?;
    let version = u64::try_from(number).ok().and_then(Version::new);
    let version = version.ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number))?;
    Ok(Record { version, value: row.get(1)? })
}
