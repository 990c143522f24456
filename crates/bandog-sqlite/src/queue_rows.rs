//! The rows of one work queue, within a transaction.

use std::{collections::BTreeSet, time::Duration};

use bandog_core::{
    Fence, Key,
    queues::{
        Body, Element, ElementId, MAX_COUNT, Outcome, Phase, Position, Priority, QueueSettings, Rate, Rows, TakeId,
        envelope::is_envelope,
        rules::{Now, SIDE_WORK},
    },
};
use rusqlite::{OptionalExtension, Params, Row, params};

use crate::{fault::Fault, sql, table::Table};

/// The kinds of what is kept for a time.
const ONCE: i64 = 0;
const PUSH: i64 = 1;
const RESULT: i64 = 2;
const WORKER: i64 = 3;

/// One queue.
pub(crate) struct QueueRows<'a, 't> {
    table: &'a mut Table<'t>,
    name: &'a Key,
    now: Now,
    /// The row of the queue. None: there is no such queue.
    queue: Option<Queue>,
    is_changed: bool,
    /// Whether this is for an operator, who changes nothing.
    only_reads: bool,
    pub(crate) rings: bool,
    pub(crate) results: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    id: i64,
    fence: i64,
    settings: QueueSettings,
    next_delivery: u64,
}

impl<'a, 't> QueueRows<'a, 't> {
    pub(crate) fn load(table: &'a mut Table<'t>, name: &'a Key, now: Now, only_reads: bool) -> Result<Self, Fault> {
        let queue = if table.has_queues() { read(table, name)? } else { None };
        Ok(Self { table, name, now, queue, is_changed: false, only_reads, rings: false, results: BTreeSet::new() })
    }

    /// Writes the row of the queue, if it has changed.
    pub(crate) fn store(&mut self) -> Result<(), Fault> {
        let Some(Queue { id, fence, settings, next_delivery }) = self.queue.filter(|_| self.is_changed) else {
            return Ok(());
        };
        let QueueSettings { is_paused, concurrency, rate } = settings;
        let (concurrency, deliveries) = (concurrency.map(u32::from), rate.map(|rate| rate.deliveries.get()));
        let period = rate.map(|rate| micros(rate.per));
        let row = params![id, fence, is_paused, concurrency, deliveries, period, signed(next_delivery)];
        self.table.in_layout(|table, texts| table.write(texts.set, row)).map(drop)
    }

    /// The queue, which is added if it is missing.
    fn queue(&mut self) -> Result<&mut Queue, Fault> {
        if self.queue.is_none() {
            let name = self.name;
            self.table.in_layout(|table, texts| table.write(texts.add, [name.as_str()]))?;
            self.queue = read(self.table, name)?;
        }
        self.queue.as_mut().ok_or(Fault::MustWrite)
    }

    /// The id of the queue. A queue that is missing has no rows.
    fn id(&self) -> i64 {
        self.queue.map_or(0, |queue| queue.id)
    }

    fn elements(&mut self, sql: &'static str, params: impl Params) -> Result<Vec<Element>, Fault> {
        if self.queue.is_none() {
            return Ok(Vec::new());
        }
        let rows = self.table.statement(sql)?.query_map(params, read_element)?.collect::<Result<_, _>>()?;
        Ok(rows)
    }

    /// Gives taken elements of other boots a whole lease by the clock of this one. If their takers run, they extend it.
    fn adopt(&mut self) -> Result<(), Fault> {
        let boot = self.table.host().boot();
        let others = params![self.id(), boot, limit(SIDE_WORK)];
        if self.queue.is_none() || self.only_reads {
            return Ok(());
        }
        let read = |row: &Row<'_>| Ok((read_element(row)?, row.get::<_, Option<i64>>(14)?));
        let found: Vec<_> =
            self.table.statement(sql::WORK_OTHER_BOOTS)?.query_map(others, read)?.collect::<Result<_, _>>()?;
        for (mut element, lease) in found {
            element.at = self.now.lease.saturating_add(lease.unwrap_or_default().unsigned_abs());
            self.update(&element)?;
        }
        Ok(())
    }

    fn keep(&mut self, kind: i64, id: &[u8], until: u64, content: &[u8]) -> Result<(), Fault> {
        let queue = self.queue()?.id;
        self.table.write(sql::WORK_KEEP, params![queue, kind, id, signed(until), content])?;
        Ok(())
    }

    fn kept(&mut self, kind: i64, id: &[u8]) -> Result<Option<(Vec<u8>, u64)>, Fault> {
        if self.queue.is_none() {
            return Ok(None);
        }
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
        let queue = self.id();
        Ok(self.table.statement(sql::WORK_KEPT)?.query_row(params![queue, kind, id], read).optional()?)
    }
}

impl Rows for QueueRows<'_, '_> {
    type Error = Fault;

    fn settings(&mut self) -> Result<QueueSettings, Fault> {
        Ok(self.queue.unwrap_or_default().settings)
    }

    fn set_settings(&mut self, settings: &QueueSettings) -> Result<(), Fault> {
        self.queue()?.settings = *settings;
        self.is_changed = true;
        Ok(())
    }

    fn next_delivery(&mut self) -> Result<u64, Fault> {
        Ok(self.queue.unwrap_or_default().next_delivery)
    }

    fn set_next_delivery(&mut self, at: u64) -> Result<(), Fault> {
        self.queue()?.next_delivery = at;
        self.is_changed = true;
        Ok(())
    }

    fn next_fence(&mut self) -> Result<Fence, Fault> {
        let now = signed(self.now.wall);
        let queue = self.queue()?;
        queue.fence = (queue.fence + 1).max(now);
        let fence = Fence::new(queue.fence.unsigned_abs());
        self.is_changed = true;
        Ok(fence)
    }

    fn element(&mut self, id: ElementId) -> Result<Option<Element>, Fault> {
        let queue = self.id();
        Ok(self.elements(sql::WORK_ELEMENT, params![queue, bytes(id)])?.pop())
    }

    fn insert(&mut self, element: &Element, payload: &[u8]) -> Result<(), Fault> {
        if is_envelope(payload) {
            self.table.raise(self.now.wall)?;
        }
        let queue = self.queue()?.id;
        let (lease, boot) = self.lease(element);
        let row = params![
            queue,
            bytes(element.id),
            phase_number(element.phase),
            rank(element.phase, element.priority),
            signed(element.at),
            signed(element.place),
            signed(element.pushed),
            element.priority.get(),
            element.order_key.as_deref(),
            element.attempt,
            signed(element.fence.get()),
            element.taken_by.map(take_bytes),
            element.keep_result.map(micros),
            element.before.map(bytes),
            element.waits_for,
            element.is_cancelled,
            lease,
            boot,
        ];
        self.table.write(sql::WORK_INSERT, row)?;
        self.table.write(sql::WORK_ADD_BODY, params![queue, bytes(element.id), payload])?;
        Ok(())
    }

    fn update(&mut self, element: &Element) -> Result<(), Fault> {
        let queue = self.queue()?.id;
        let (lease, boot) = self.lease(element);
        let row = params![
            queue,
            bytes(element.id),
            phase_number(element.phase),
            rank(element.phase, element.priority),
            signed(element.at),
            signed(element.place),
            element.attempt,
            signed(element.fence.get()),
            element.taken_by.map(take_bytes),
            element.waits_for,
            element.is_cancelled,
            lease,
            boot,
        ];
        self.table.write(sql::WORK_UPDATE, row)?;
        Ok(())
    }

    fn remove(&mut self, id: ElementId) -> Result<(), Fault> {
        let queue = self.queue()?.id;
        self.table.write(sql::WORK_DELETE, params![queue, bytes(id)])?;
        self.table.write(sql::WORK_DELETE_BODY, params![queue, bytes(id)])?;
        Ok(())
    }

    fn payload_len(&mut self, id: ElementId) -> Result<usize, Fault> {
        let queue = self.id();
        let read = |row: &Row<'_>| row.get::<_, i64>(0);
        let length =
            self.table.statement(sql::WORK_PAYLOAD_LEN)?.query_row(params![queue, bytes(id)], read).optional()?;
        Ok(length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default())
    }

    fn body(&mut self, id: ElementId) -> Result<Body, Fault> {
        let queue = self.id();
        let read = |row: &Row<'_>| Ok(Body { payload: row.get(0)?, error: row.get(1)?, progress: row.get(2)? });
        let body = self.table.statement(sql::WORK_BODY)?.query_row(params![queue, bytes(id)], read).optional()?;
        Ok(body.unwrap_or_default())
    }

    fn set_texts(&mut self, id: ElementId, error: Option<&str>, progress: Option<&str>) -> Result<(), Fault> {
        let queue = self.queue()?.id;
        self.table.write(sql::WORK_SET_TEXTS, params![queue, bytes(id), error, progress])?;
        Ok(())
    }

    fn first(&mut self, phase: Phase, at_most: usize) -> Result<Vec<Element>, Fault> {
        if phase == Phase::Taken {
            self.adopt()?;
        }
        let queue = self.id();
        self.elements(sql::WORK_FIRST, params![queue, phase_number(phase), limit(at_most)])
    }

    fn after(&mut self, phase: Phase, last: &Position, at_most: usize) -> Result<Vec<Element>, Fault> {
        let (queue, rank) = (self.id(), rank(phase, last.priority));
        let after = params![queue, phase_number(phase), rank, signed(last.at), bytes(last.id), limit(at_most)];
        self.elements(sql::WORK_AFTER, after)
    }

    fn count(&mut self, phase: Phase) -> Result<u64, Fault> {
        if self.queue.is_none() {
            return Ok(0);
        }
        let counted = params![self.id(), phase_number(phase), signed(MAX_COUNT)];
        let count: i64 = self.table.statement(sql::WORK_COUNT)?.query_row(counted, |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    fn blocked(&mut self, order_key: &str) -> Result<Option<Element>, Fault> {
        let queue = self.id();
        Ok(self.elements(sql::WORK_BLOCKED, params![queue, order_key])?.pop())
    }

    fn has_head(&mut self, order_key: &str) -> Result<bool, Fault> {
        if self.queue.is_none() {
            return Ok(false);
        }
        let queue = self.id();
        Ok(self.table.statement(sql::WORK_HAS_HEAD)?.exists(params![queue, order_key])?)
    }

    fn taken_by(&mut self, take: TakeId) -> Result<Vec<Element>, Fault> {
        let queue = self.id();
        self.elements(sql::WORK_TAKEN_BY, params![queue, take_bytes(take)])
    }

    fn once(&mut self, id: &str) -> Result<Option<(ElementId, u64)>, Fault> {
        let kept = self.kept(ONCE, id.as_bytes())?;
        kept.map(|(content, until)| Ok((read_id(&content)?, until))).transpose()
    }

    fn set_once(&mut self, id: &str, by: ElementId, until: u64) -> Result<(), Fault> {
        self.keep(ONCE, id.as_bytes(), until, &bytes(by))
    }

    fn was_pushed(&mut self, first: ElementId) -> Result<bool, Fault> {
        Ok(self.kept(PUSH, &bytes(first))?.is_some())
    }

    fn set_pushed(&mut self, first: ElementId, until: u64) -> Result<(), Fault> {
        self.keep(PUSH, &bytes(first), until, &[])
    }

    fn result(&mut self, id: ElementId) -> Result<Option<(Outcome, u64)>, Fault> {
        let kept = self.kept(RESULT, &bytes(id))?;
        kept.map(|(content, until)| Ok((read_outcome(&content)?, until))).transpose()
    }

    fn set_result(&mut self, id: ElementId, outcome: &Outcome, until: u64) -> Result<(), Fault> {
        self.keep(RESULT, &bytes(id), until, &outcome_bytes(outcome))
    }

    fn forget_result(&mut self, id: ElementId) -> Result<(), Fault> {
        let queue = self.queue()?.id;
        self.table.write(sql::WORK_FORGET_ONE, params![queue, RESULT, bytes(id)])?;
        Ok(())
    }

    fn workers(&mut self, now: u64) -> Result<Vec<String>, Fault> {
        if self.queue.is_none() {
            return Ok(Vec::new());
        }
        let read = |row: &Row<'_>| row.get::<_, Vec<u8>>(0);
        let of = params![self.id(), signed(now)];
        let texts: Vec<_> = self.table.statement(sql::WORK_WORKERS)?.query_map(of, read)?.collect::<Result<_, _>>()?;
        Ok(texts.into_iter().map(|text| String::from_utf8_lossy(&text).into_owned()).collect())
    }

    fn set_worker(&mut self, worker: u64, text: &str, until: u64) -> Result<(), Fault> {
        self.keep(WORKER, &worker.to_be_bytes(), until, text.as_bytes())
    }

    fn forget(&mut self, until: u64, at_most: usize) -> Result<(), Fault> {
        let Some(Queue { id, .. }) = self.queue else { return Ok(()) };
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
        let expired = params![id, signed(until), limit(at_most)];
        let over: Vec<_> =
            self.table.statement(sql::WORK_EXPIRED)?.query_map(expired, read)?.collect::<Result<_, _>>()?;
        for (kind, what) in over {
            self.table.write(sql::WORK_FORGET_ONE, params![id, kind, what])?;
        }
        Ok(())
    }

    fn ring(&mut self) -> Result<(), Fault> {
        self.rings = true;
        Ok(())
    }

    fn ring_result(&mut self, client: u64) -> Result<(), Fault> {
        self.results.insert(client);
        Ok(())
    }
}

impl QueueRows<'_, '_> {
    /// The rest of the lease of a taken element, and the boot of its clock.
    fn lease(&self, element: &Element) -> (Option<i64>, Option<String>) {
        match element.phase {
            Phase::Taken => {
                let left = element.at.saturating_sub(self.now.lease);
                (Some(signed(left)), Some(self.table.host().boot().to_owned()))
            }
            _ => (None, None),
        }
    }
}

/// The row of a queue.
fn read(table: &mut Table<'_>, name: &Key) -> Result<Option<Queue>, Fault> {
    table.in_layout(|table, texts| {
        Ok(table.statement(texts.queue)?.query_row([name.as_str()], read_queue).optional()?)
    })
}

fn read_queue(row: &Row<'_>) -> rusqlite::Result<Queue> {
    let (deliveries, period): (Option<u32>, Option<i64>) = (row.get(4)?, row.get(5)?);
    let rate = deliveries.and_then(|deliveries| deliveries.try_into().ok()).zip(period);
    let settings = QueueSettings {
        is_paused: row.get(2)?,
        concurrency: row.get::<_, Option<u32>>(3)?.and_then(|limit| limit.try_into().ok()),
        rate: rate.map(|(deliveries, period)| Rate { deliveries, per: duration(period) }),
    };
    let next_delivery = row.get::<_, i64>(6)?.unsigned_abs();
    Ok(Queue { id: row.get(0)?, fence: row.get(1)?, settings, next_delivery })
}

fn read_element(row: &Row<'_>) -> rusqlite::Result<Element> {
    let time = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let id = |at: usize| row.get::<_, Option<Vec<u8>>>(at)?.map(|bytes| read_id(&bytes)).transpose();
    let taker = id(9)?.map(|ElementId { client, number }| TakeId { taker: client, number });
    Ok(Element {
        id: id(0)?.ok_or(rusqlite::Error::InvalidQuery)?,
        phase: read_phase(row.get(1)?)?,
        at: time(2)?,
        place: time(3)?,
        pushed: time(4)?,
        priority: Priority::new(row.get(5)?).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(5, 0))?,
        order_key: row.get::<_, Option<String>>(6)?.map(Into::into),
        attempt: row.get(7)?,
        fence: Fence::new(time(8)?),
        taken_by: taker,
        keep_result: row.get::<_, Option<i64>>(10)?.map(duration),
        before: id(11)?,
        waits_for: row.get(12)?,
        is_cancelled: row.get(13)?,
    })
}

/// The bytes of an id. Their order is that of the ids.
fn bytes(id: ElementId) -> [u8; 16] {
    (u128::from(id.client) << 64 | u128::from(id.number)).to_be_bytes()
}

fn take_bytes(TakeId { taker, number }: TakeId) -> [u8; 16] {
    bytes(ElementId { client: taker, number })
}

fn read_id(bytes: &[u8]) -> rusqlite::Result<ElementId> {
    let number = bytes.try_into().map(u128::from_be_bytes).map_err(|_| rusqlite::Error::InvalidQuery)?;
    let half = |number: u128| u64::try_from(number & u128::from(u64::MAX)).unwrap_or_default();
    Ok(ElementId { client: half(number >> 64), number: half(number) })
}

fn outcome_bytes(outcome: &Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Done(result) => [&[0], result.as_slice()].concat(),
        Outcome::Failed(error) => [&[1], error.as_bytes()].concat(),
        Outcome::Cancelled => vec![2],
    }
}

fn read_outcome(bytes: &[u8]) -> rusqlite::Result<Outcome> {
    match bytes.split_first() {
        Some((0, result)) => Ok(Outcome::Done(result.to_vec())),
        Some((1, error)) => Ok(Outcome::Failed(String::from_utf8_lossy(error).into_owned())),
        Some((2, [])) => Ok(Outcome::Cancelled),
        _ => Err(rusqlite::Error::InvalidQuery),
    }
}

fn phase_number(phase: Phase) -> i64 {
    match phase {
        Phase::Ready => 0,
        Phase::Delayed => 1,
        Phase::Blocked => 2,
        Phase::Taken => 3,
        Phase::Dead => 4,
        Phase::Ended => 5, // No row has it.
    }
}

fn read_phase(number: i64) -> rusqlite::Result<Phase> {
    let found = Phase::IN_QUEUE.into_iter().find(|phase| phase_number(*phase) == number);
    found.ok_or(rusqlite::Error::IntegralValueOutOfRange(1, number))
}

/// The order of elements of one phase before their times.
fn rank(phase: Phase, priority: Priority) -> i64 {
    if phase == Phase::Ready { i64::from(Priority::MAX.get() - priority.get()) } else { 0 }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn limit(at_most: usize) -> i64 {
    i64::try_from(at_most).unwrap_or(i64::MAX)
}

/// A duration in µs, rounded up.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX)
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}
