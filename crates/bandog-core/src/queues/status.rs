//! Work queues for operators.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc, time::Duration};

use super::{ElementId, Headers, Outcome, Phase, Priority, envelope::open};
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
    /// Its headers: after [`ElementRow::opened`].
    pub headers: Headers,
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

impl ElementRow {
    /// The row of a store, with the headers and at most this number of bytes of the payload, instead of an envelope. The store
    /// must have been asked for [`MAX_ENVELOPE`](super::envelope::MAX_ENVELOPE) bytes more. A content that this program cannot open stays as it is.
    pub fn opened(mut self, at_most: usize) -> Self {
        if let Ok((headers, payload)) = open(&self.payload) {
            let envelope = self.payload.len() - payload.len();
            self.headers = headers;
            self.payload.drain(..envelope);
            self.payload_len = self.payload_len.saturating_sub(envelope);
        }
        self.payload.truncate(at_most);
        self
    }
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
    /// The newest layout of elements that it knows: [`LAYOUT`](super::LAYOUT) of its version, and 1 for those that do not say it.
    pub layout: u8,
}

/// What is before the layout in the text of a worker. Programs that know the layout 1 only take it for a part of the place.
const LAYOUT_MARK: &str = " layout=";

/// The text of a worker in a store: fields with blanks between them, then the place, and the layout.
pub fn write_worker_row(row: &WorkerRow) -> String {
    let WorkerRow { id, place, slots, running, done, failed, layout } = row;
    format!("{id:016x} {slots} {running} {done} {failed} {place}{LAYOUT_MARK}{layout}")
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
        let known = text.rsplit_once(LAYOUT_MARK).and_then(|(rest, layout)| Some((rest, layout.parse().ok()?)));
        let (rest, layout) = known.unwrap_or((text, 1));
        let mut parts = rest.splitn(6, ' ');
        Some(WorkerRow {
            id: u64::from_str_radix(parts.next()?, 16).ok()?,
            slots: parts.next()?.parse().ok()?,
            running: parts.next()?.parse().ok()?,
            done: parts.next()?.parse().ok()?,
            failed: parts.next()?.parse().ok()?,
            place: parts.next()?.to_owned(),
            layout,
        })
    };
    parse().ok_or_else(|| Error::new(ErrorKind::Corrupt, format!("{text:?} is not a row of a worker")))
}
