//! Work queues for operators.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc, time::Duration};

use super::{ElementId, Outcome, Phase, Priority};
use crate::{Error, ErrorKind, Fence, Result, structures::Bytes};

/// A store may stop to count at this number of elements.
pub const MAX_COUNT: u64 = 100_000;

/// Limits a queue to a number of deliveries in each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number of deliveries.
    pub deliveries: NonZeroU32,
    /// The period: at least 1 ms.
    pub per: Duration,
}

/// The settings of a queue, which all its takers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSettings {
    /// Whether no element is delivered.
    pub is_paused: bool,
    /// Maximum number of elements that are taken at the same time.
    pub concurrency: Option<NonZeroU32>,
    /// Maximum number of deliveries per time.
    pub rate: Option<Rate>,
}

/// The state of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueStatus {
    /// The settings.
    pub settings: QueueSettings,
    /// The number of elements in each phase, at most [`MAX_COUNT`]. Phases without elements may be missing.
    pub counts: BTreeMap<Phase, u64>,
    /// The time for which the next ready element has been ready.
    pub oldest: Option<Duration>,
    /// The workers.
    pub workers: Vec<WorkerRow>,
}

impl QueueStatus {
    /// The number of elements in a phase.
    pub fn count(&self, phase: Phase) -> u64 {
        self.counts.get(&phase).copied().unwrap_or(0)
    }
}

/// A change by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Pauses or continues, and leaves the other settings.
    Pause(bool),
    /// Limits the number of elements that are taken at the same time, and leaves the other settings. None: no limit.
    Concurrency(Option<NonZeroU32>),
    /// Limits the number of deliveries per time, and leaves the other settings. None: no limit.
    Rate(Option<Rate>),
    /// Dead elements become ready, with no attempts. Empty: all.
    Retry(Vec<ElementId>),
    /// Removes elements; those that are taken are cancelled: their takers must stop. An element that waits for a removed one
    /// never becomes ready by itself.
    Remove(Vec<ElementId>),
    /// Removes the elements that were never delivered, as cancelled. Answer: their number. So if it is 1, no taker has got the
    /// element, and none will. A repeated call, after an answer that was lost, finds nothing.
    Withdraw(Vec<ElementId>),
    /// Removes all elements in this phase, which must not be [`Phase::Taken`].
    Purge(Phase),
    /// Writes a row about a worker, which is kept for this time. Zero removes it.
    Worker(WorkerRow, Duration),
}

/// An element for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementRow {
    /// Its id.
    pub id: ElementId,
    /// Its phase.
    pub phase: Phase,
    /// The time since its push. None for a result.
    pub age: Option<Duration>,
    /// Delayed: the time until it is ready. Taken: the rest of its lease.
    pub left: Option<Duration>,
    /// Its priority.
    pub priority: Priority,
    /// Its key of order.
    pub order_key: Option<Arc<str>>,
    /// The number of its deliveries.
    pub attempt: u32,
    /// The fence of its last delivery.
    pub fence: Fence,
    /// The worker that has it: [`WorkerRow::id`].
    pub taker: Option<u64>,
    /// The bytes that were pushed, or their beginning. Empty for a result.
    pub payload: Bytes,
    /// The number of bytes that were pushed, if bytes of the payload were asked for.
    pub payload_len: usize,
    /// Why the last delivery has failed.
    pub error: Option<String>,
    /// The text of its taker about its progress.
    pub progress: Option<String>,
    /// Whether its taker must stop.
    pub is_cancelled: bool,
    /// [`Phase::Ended`] and [`Phase::Dead`]: how it has ended. None also if the answer had no room for a result.
    pub outcome: Option<Outcome>,
}

/// A program that works on a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerRow {
    /// Its number as a taker.
    pub id: u64,
    /// The host and the process: `web-1/4711`.
    pub place: String,
    /// The number of elements on which it can work at the same time.
    pub slots: u32,
    /// The number of elements on which it works.
    pub running: u32,
    /// The number of deliveries that it has completed since its start.
    pub done: u64,
    /// The number of deliveries that have failed since its start.
    pub failed: u64,
}

/// The text of a worker in a store: fields with blanks between them, the place last.
pub fn write_worker_row(row: &WorkerRow) -> String {
    let WorkerRow { id, place, slots, running, done, failed } = row;
    format!("{id:016x} {slots} {running} {done} {failed} {place}")
}

/// Reads the texts of workers. A text of another program is an error.
///
/// # Errors
/// [`ErrorKind::Corrupt`]: a text is not that of a worker.
pub fn read_worker_rows<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Vec<WorkerRow>> {
    texts.into_iter().map(read_worker_row).collect()
}

fn read_worker_row(text: &str) -> Result<WorkerRow> {
    let parse = || {
        let mut parts = text.splitn(6, ' ');
        Some(WorkerRow {
            id: u64::from_str_radix(parts.next()?, 16).ok()?,
            slots: parts.next()?.parse().ok()?,
            running: parts.next()?.parse().ok()?,
            done: parts.next()?.parse().ok()?,
            failed: parts.next()?.parse().ok()?,
            place: parts.next()?.to_owned(),
        })
    };
    parse().ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("{text:?} is not a row of a worker")))
}
