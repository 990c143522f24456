//! Queries about queues.

use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    Key, PORTION, Pattern,
    queues::{ElementId, ElementRow, MAX_PRIORITY, Phase, QueueSettings, QueueStatus, Rate, read_worker_rows},
    structures::Cursor,
};

use super::{
    elements::{id_text, phase_number, read_element},
    tables,
};
use crate::{context::Context, fault::Fault, job::Query, row::Row, session::Link, value::Parameter};

/// Finds elements and results.
pub(super) struct Find {
    pub(super) queue: Key,
    pub(super) ids: Vec<ElementId>,
    pub(super) payload: usize,
}

#[async_trait]
impl Query for Find {
    type Output = Vec<Option<ElementRow>>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Self::Output, Fault> {
        tables::ensure(link, context).await?;
        let ids: Vec<_> = self.ids.iter().map(|id| id_text(*id)).collect();
        let [payload, portion] = [self.payload, PORTION].map(number);
        let rows =
            link.query(&context.work.of(link).shared.find, &[&self.queue.as_str(), &ids, &payload, &portion]).await?;
        let mut found = HashMap::new();
        for row in &rows {
            let element = read_element(row)?;
            found.insert(element.id, element);
        }
        Ok(self.ids.iter().map(|id| found.get(id).cloned()).collect())
    }
}

/// Reads a page of elements.
pub(super) struct Page {
    pub(super) queue: Key,
    pub(super) phase: Phase,
    pub(super) from: Cursor,
    pub(super) about: usize,
    pub(super) payload: usize,
}

#[async_trait]
impl Query for Page {
    type Output = (Vec<ElementRow>, Option<Cursor>);

    async fn run(&self, link: &Link, context: &Context) -> Result<Self::Output, Fault> {
        if self.phase == Phase::Ended {
            return Ok((Vec::new(), None));
        }
        tables::ensure(link, context).await?;
        let texts = &context.work.of(link).shared;
        let (priority, at, id) =
            read_cursor(&self.from).unwrap_or((MAX_PRIORITY, -1, ElementId { client: 0, number: 0 }));
        let (queue, rank, phase) = (self.queue.as_str(), i64::from(MAX_PRIORITY - priority), phase_number(self.phase));
        let (id, [about, payload, portion]) = (id_text(id), [self.about, self.payload, PORTION].map(number));
        let ready: [Parameter<'_>; 7] = [&queue, &rank, &at, &id, &about, &payload, &portion];
        let others: [Parameter<'_>; 7] = [&queue, &phase, &at, &id, &about, &payload, &portion];
        let rows = match self.phase {
            Phase::Ready => link.query(&texts.ready, &ready).await?,
            _ => link.query(&texts.others, &others).await?,
        };
        let next = match rows.last() {
            // The last column says whether there may be further ones.
            Some(row) if row.try_get(15)? => {
                let element = read_element(row)?;
                let at: i64 = row.try_get(3)?;
                Some(Cursor(format!("{} {at} {}", element.priority.get(), element.id)))
            }
            Some(_) | None => None,
        };
        Ok((rows.iter().map(read_element).collect::<Result<_, _>>()?, next))
    }
}

/// A number as a parameter.
fn number(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read_cursor(cursor: &Cursor) -> Option<(u8, i64, ElementId)> {
    let mut parts = cursor.0.split(' ');
    let priority = parts.next()?.parse().ok().filter(|priority| *priority <= MAX_PRIORITY)?;
    Some((priority, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Reads the state of a queue.
pub(super) struct Status(pub(super) Key);

#[async_trait]
impl Query for Status {
    type Output = QueueStatus;

    async fn run(&self, link: &Link, context: &Context) -> Result<QueueStatus, Fault> {
        tables::ensure(link, context).await?;
        let rows = link.query(&context.work.of(link).shared.status, &[&self.0.as_str()]).await?;
        match rows.first() {
            Some(row) => {
                let workers = link.query(&context.work.of(link).shared.workers, &[&self.0.as_str()]).await?;
                read_status(row, &workers)
            }
            None => Ok(QueueStatus::default()),
        }
    }
}

/// The number of workers of a queue that have a free slot, at most 100.
pub(super) async fn count_workers(link: &Link, context: &Context, queue: &Key) -> Result<u64, Fault> {
    let rows = link.query(&context.work.of(link).shared.crowd, &[&queue.as_str()]).await?;
    let number: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(u64::try_from(number).unwrap_or(0))
}

fn read_status(row: &Row, workers: &[Row]) -> Result<QueueStatus, Fault> {
    let mut status = QueueStatus { settings: read_settings(row)?, ..QueueStatus::default() };
    for (phase, column) in Phase::IN_QUEUE.into_iter().zip(4..) {
        status.counts.insert(phase, u64::try_from(row.try_get::<i64>(column)?).unwrap_or(0));
    }
    let oldest: Option<i64> = row.try_get(9)?;
    status.oldest = oldest.map(|age| Duration::from_micros(u64::try_from(age).unwrap_or(0)));
    let texts: Vec<&str> = workers.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    // A text of a newer program is left out.
    status.workers = texts.into_iter().filter_map(|text| read_worker_rows([text]).ok()).flatten().collect();
    Ok(status)
}

/// The settings in a row whose first columns are `is_paused`, `concurrency`, `deliveries` and `period`.
pub(super) fn read_settings(row: &Row) -> Result<QueueSettings, Fault> {
    let number = |column: usize| {
        let number: Option<i64> = row.try_get(column)?;
        Ok::<_, Fault>(number.and_then(|number| NonZeroU32::new(u32::try_from(number).unwrap_or(0))))
    };
    let period: Option<i64> = row.try_get(3)?;
    let period = period.map(|period| Duration::from_micros(u64::try_from(period).unwrap_or(0)));
    let rate = number(2)?.zip(period).map(|(deliveries, per)| Rate { deliveries, per });
    Ok(QueueSettings { is_paused: row.try_get(0)?, concurrency: number(1)?, rate })
}

/// Reads a page of the names of queues.
pub(super) struct Names {
    pub(super) pattern: Pattern,
    pub(super) from: Cursor,
    pub(super) about: usize,
}

#[async_trait]
impl Query for Names {
    type Output = (Vec<Key>, Option<Cursor>);

    async fn run(&self, link: &Link, context: &Context) -> Result<Self::Output, Fault> {
        tables::ensure(link, context).await?;
        let about = i64::try_from(self.about).unwrap_or(i64::MAX);
        let rows = link.query(&context.work.of(link).shared.queues, &[&self.from.0, &about]).await?;
        let mut names = Vec::new();
        for row in &rows {
            let name: &str = row.try_get(0)?;
            let is_shown = row.try_get(1)? && self.pattern.matches(name);
            names.extend(Key::new(name).ok().filter(|_| is_shown));
        }
        let next = match rows.last() {
            Some(row) if rows.len() == self.about => Some(Cursor(row.try_get::<&str>(0)?.to_owned())),
            Some(_) | None => None,
        };
        Ok((names, next))
    }
}
