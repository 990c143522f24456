//! A transaction that reads and locks rows of a queue, and writes their changes.
//!
//! A read that locks a row sees what was committed last. So the rules decide about present rows, and no other transaction
//! changes them meanwhile. Keys of order have locks, too, which are rows of a table of their own, by a hash of the key: a
//! transaction that adds an element with a key, ends the one that is ready, delayed or taken, or makes a blocked one ready
//! first locks the key. A transaction of the user leaves a signal instead, which the next take applies: see
//! [`super::super::locked`], where the same is done with advisory locks.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bandog_core::{
    Key,
    queues::{Body, Element, ElementId, Phase, Priority, TakeId},
    structures::Bytes,
};

use super::{
    super::{
        elements::{id_bytes, phase_number, phase_of, read_fence, read_id},
        read::read_settings,
        statements::MySql,
    },
    view::View,
    written::Written,
};
use crate::{client::Statement, context::Context, fault::Fault, row::Row, session::Link, value::Parameter};

/// The number of the locks of keys.
const LOCKS: u64 = 256;
/// Maximum number of rows that one transaction removes because they need not be kept any more.
const MAX_OLD: i64 = 1000;
/// The number of columns of an element.
const COLUMNS: usize = 15;

/// An open transaction on the rows of one queue.
pub(super) struct Transaction<'t> {
    pub(super) link: &'t Link,
    pub(super) texts: &'t MySql,
    queue: &'t Key,
    /// The number of the queue.
    pub(super) number: i64,
    pub(super) view: View,
    /// Rows that the queue need not keep any more: their kinds and names.
    old: Vec<(i64, Vec<u8>)>,
}

impl<'t> Transaction<'t> {
    /// Begins a transaction, and executes its first queries. Returns also the rows of each. None: the queue has no row.
    /// `locks_queue`: whether the row of the queue is locked.
    pub(super) async fn begin<const N: usize>(
        link: &'t Link,
        context: &'t Context,
        queue: &'t Key,
        locks_queue: bool,
        first: [Statement<'_>; N],
    ) -> Result<Option<(Self, [Vec<Row>; N])>, Fault> {
        let texts = &context.work.of(link).mysql;
        let text = if locks_queue { &texts.lock_queue } else { &texts.queue };
        let parameters: [Parameter<'_>; 1] = [&queue.as_str()];
        let all: Vec<Statement<'_>> = [(text.as_str(), &parameters[..])].into_iter().chain(first).collect();
        let mut sets = link.begin_all(&all).await?.into_iter();
        let rows = sets.next().unwrap_or_default();
        let Some(row) = rows.first() else {
            link.roll_back().await?;
            return Ok(None);
        };
        let first = sets.collect::<Vec<_>>().try_into().map_err(|_| Fault::Broken(None))?;
        let mut view = View::new(row.try_get(5)?);
        (view.settings, view.next_delivery) = (read_settings(row)?, row.try_get(4)?);
        let number = row.try_get(6)?;
        Ok(Some((Self { link, texts, queue, number, view, old: Vec::new() }, first)))
    }

    /// The payloads of these elements that were not read with them.
    pub(super) async fn payloads(&self, ids: &[ElementId]) -> Result<HashMap<ElementId, Bytes>, Fault> {
        let missing: Vec<_> = ids.iter().copied().filter(|id| !self.view.has_payload(*id)).collect();
        if missing.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = self.query_ids(&self.texts.payloads, &missing).await?;
        rows.iter().map(|row| Ok((read_id(row.try_get(0)?)?, row.try_get::<&[u8]>(1)?.to_vec()))).collect()
    }

    pub(super) async fn query(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        self.link.query(text, parameters).await
    }

    async fn query_ids(&self, text: &str, ids: &[ElementId]) -> Result<Vec<Row>, Fault> {
        let ids: Vec<_> = ids.iter().map(|id| id_bytes(*id)).collect();
        let ids: Vec<&[u8]> = ids.iter().map(<[u8; 16]>::as_slice).collect();
        self.query(text, &[&ids]).await
    }

    /// Adds elements that were read.
    pub(super) fn load(&mut self, rows: &[Row]) -> Result<Vec<ElementId>, Fault> {
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            let element = read(row)?;
            ids.push(element.id);
            let body = (row.len() > COLUMNS).then(|| read_body(row)).transpose()?;
            self.view.load(element, body);
        }
        Ok(ids)
    }

    /// Locks the elements that wait for these, and the keys of all of them.
    pub(super) async fn lock_around(&mut self, ids: &[ElementId]) -> Result<(), Fault> {
        let of = |id: &ElementId| self.view.get(*id);
        let befores: BTreeSet<_> = ids.iter().filter_map(|id| of(id)?.before).collect();
        let befores: Vec<_> = befores.into_iter().filter(|id| self.view.get(*id).is_none()).collect();
        let mut all = ids.to_vec();
        if !befores.is_empty() {
            let rows = self.query_ids(&self.texts.by_id, &befores).await?;
            all.extend(self.load(&rows)?);
        }
        let keys: BTreeSet<_> = all.iter().filter_map(|id| self.view.get(*id)?.order_key.clone()).collect();
        self.lock_keys(&keys, all.len()).await
    }

    /// Locks keys, and reads the first elements of each: as many as can end, and one more.
    pub(super) async fn lock_keys(&mut self, keys: &BTreeSet<Arc<str>>, ends: usize) -> Result<(), Fault> {
        if keys.is_empty() {
            return Ok(());
        }
        let numbers: BTreeSet<i64> = keys.iter().map(|key| self.lock_of(key)).collect();
        let numbers: Vec<i64> = numbers.into_iter().collect();
        self.query(&self.texts.lock_keys, &[&numbers]).await?;
        let number = i64::try_from(ends).unwrap_or(i64::MAX).saturating_add(1);
        for key in keys {
            let rows = self.query(&self.texts.of_key, &[&&**key, &number]).await?;
            self.load(&rows)?;
        }
        Ok(())
    }

    /// FNV-1a over the queue and the key. All versions of bandog must agree on it.
    fn lock_of(&self, key: &str) -> i64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in self.queue.as_str().bytes().chain([0]).chain(key.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        ((hash >> 32) % LOCKS).cast_signed()
    }

    /// Locks elements, those that wait for them, and their keys.
    pub(super) async fn lock(&mut self, ids: &[ElementId]) -> Result<(), Fault> {
        if ids.is_empty() {
            return Ok(());
        }
        let rows = self.query_ids(&self.texts.by_id, ids).await?;
        let found = self.load(&rows)?;
        self.lock_around(&found).await
    }

    /// The first 1,000 elements of a phase.
    pub(super) async fn first(&self, phase: Phase) -> Result<Vec<ElementId>, Fault> {
        let rows = self.query(&self.texts.first, &[&phase_number(phase)]).await?;
        rows.iter().map(|row| read_id(row.try_get(0)?)).collect()
    }

    /// Removes a row that is kept at the commit.
    pub(super) fn drop_later(&mut self, kind: i64, name: &[u8]) {
        self.old.push((kind, name.to_vec()));
    }

    /// Locks rows that the queue need not keep any more, once in a while. `added`: the rows that may be added.
    pub(super) async fn find_old(&mut self, context: &Context, added: usize) -> Result<(), Fault> {
        let forgets = context.work.hints.change(self.queue, |hints| hints.forgets(added));
        let Some((_, most)) = forgets else { return Ok(()) };
        let rows = self.query(&self.texts.old, &[&most.min(MAX_OLD)]).await?;
        for row in &rows {
            self.old.push((row.try_get(0)?, row.try_get::<&[u8]>(1)?.to_vec()));
        }
        Ok(())
    }

    /// Writes the changes and commits. Returns the rows as they are now.
    pub(super) async fn commit(self) -> Result<View, Fault> {
        Written::of(&self.view, &self.old, self.number).write(self.link, self.texts).await?;
        Ok(self.view)
    }

    /// Ends a transaction that has changed nothing.
    pub(super) async fn abandon(self) -> Result<(), Fault> {
        self.link.roll_back().await
    }
}

fn read(row: &Row) -> Result<Element, Fault> {
    let number = |column: usize| Ok::<u64, Fault>(u64::try_from(row.try_get::<i64>(column)?).unwrap_or(0));
    let optional = |column: usize| row.try_get::<Option<i64>>(column);
    let taken_by = optional(8)?.zip(optional(9)?);
    Ok(Element {
        id: read_id(row.try_get(0)?)?,
        phase: phase_of(row.try_get(1)?),
        priority: Priority::new(u8::try_from(number(2)?).unwrap_or(0)).unwrap_or_default(),
        at: number(3)?,
        place: number(4)?,
        pushed: number(5)?,
        attempt: u32::try_from(number(6)?).unwrap_or(u32::MAX),
        fence: read_fence(row.try_get(7)?),
        taken_by: taken_by
            .map(|(taker, number)| TakeId { taker: taker.cast_unsigned(), number: number.cast_unsigned() }),
        keep_result: optional(10)?.map(|keep| Duration::from_micros(u64::try_from(keep).unwrap_or(0))),
        before: row.try_get::<Option<&str>>(11)?.map(read_id).transpose()?,
        waits_for: u32::try_from(number(12)?).unwrap_or(u32::MAX),
        is_cancelled: row.try_get(13)?,
        order_key: row.try_get::<Option<&str>>(14)?.map(Into::into),
    })
}

/// The length of a payload, and the texts of its element; a long payload is left out.
fn read_body(row: &Row) -> Result<(usize, Body), Fault> {
    let length = usize::try_from(row.try_get::<i64>(COLUMNS)?).unwrap_or(0);
    let payload: Option<&[u8]> = row.try_get(COLUMNS + 1)?;
    let error: Option<&[u8]> = row.try_get(COLUMNS + 2)?;
    let error = error.map(|error| String::from_utf8_lossy(error).into_owned());
    Ok((length, Body { payload: payload.unwrap_or_default().to_vec(), error, progress: None }))
}
