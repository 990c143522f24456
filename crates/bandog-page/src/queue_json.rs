//! Work queues and their elements as JSON.

use std::{borrow::Cow, collections::BTreeMap};

use bandog_core::queues::{ElementRow, Outcome, Phase, QueueSettings, QueueStatus, Rate, WorkerRow};
use serde::Serialize;

use crate::{lock_json::millis, queues::QueueState};

/// Maximum number of characters of a payload on the page.
const PAYLOAD: usize = 1000;
/// The number of bytes of a payload that are read for them.
pub(crate) const PAYLOAD_BYTES: usize = 4 * PAYLOAD;

/// The state of a queue in JSON. Programs rely on the field names.
#[derive(Debug, Serialize)]
pub struct QueueJson<'a> {
    name: &'a str,
    ready: u64,
    delayed: u64,
    blocked: u64,
    taken: u64,
    dead: u64,
    oldest_ms: Option<u64>,
    paused: bool,
    concurrency: Option<u32>,
    rate: Option<RateJson>,
    workers: Vec<WorkerJson<'a>>,
    store: &'a str,
}

#[derive(Debug, Serialize)]
struct RateJson {
    deliveries: u32,
    per_ms: u64,
}

#[derive(Debug, Serialize)]
struct WorkerJson<'a> {
    id: String,
    place: &'a str,
    slots: u32,
    running: u32,
    done: u64,
    failed: u64,
}

/// The state of a queue as the page shows it.
#[derive(Debug, Serialize)]
pub(crate) struct ShownQueue<'a> {
    #[serde(flatten)]
    queue: QueueJson<'a>,
    /// Done elements per second in the last minute, by what the workers have reported. None: not known yet.
    done_per_second: Option<f64>,
}

/// An element in JSON. Programs rely on the field names.
#[derive(Debug, Serialize)]
pub struct ElementJson<'a> {
    id: String,
    phase: &'static str,
    age_ms: Option<u64>,
    left_ms: Option<u64>,
    priority: u8,
    key: Option<&'a str>,
    attempt: u32,
    fence: Option<u64>,
    worker: Option<String>,
    headers: BTreeMap<&'a str, &'a str>,
    /// None if the payload is not UTF-8.
    payload: Option<Cow<'a, str>>,
    /// None if the payload is UTF-8.
    payload_hex: Option<String>,
    error: Option<&'a str>,
    progress: Option<&'a str>,
    cancelled: bool,
    outcome: Option<&'static str>,
}

/// An element as the page shows it: with the beginning of its payload.
#[derive(Debug, Serialize)]
pub(crate) struct ShownElement<'a> {
    #[serde(flatten)]
    element: ElementJson<'a>,
    /// The host and the process of the worker. None if it has not reported lately.
    place: Option<&'a str>,
    /// The length of the whole payload.
    payload_bytes: usize,
}

impl<'a> QueueJson<'a> {
    /// The JSON of a queue.
    pub fn new(name: &'a str, status: &'a QueueStatus, store: &'a str) -> Self {
        let QueueSettings { is_paused, concurrency, rate } = status.settings;
        let [ready, delayed, blocked, taken, dead] = Phase::IN_QUEUE.map(|phase| status.count(phase));
        Self {
            name,
            ready,
            delayed,
            blocked,
            taken,
            dead,
            oldest_ms: status.oldest.map(millis),
            paused: is_paused,
            concurrency: concurrency.map(Into::into),
            rate: rate.map(|Rate { deliveries, per }| RateJson { deliveries: deliveries.into(), per_ms: millis(per) }),
            workers: status.workers.iter().map(WorkerJson::new).collect(),
            store,
        }
    }
}

impl<'a> ShownQueue<'a> {
    pub(crate) fn new(name: &'a str, state: &'a QueueState, store: &'a str) -> Self {
        Self { queue: QueueJson::new(name, &state.status, store), done_per_second: state.done_per_second }
    }
}

impl<'a> WorkerJson<'a> {
    fn new(WorkerRow { id, place, slots, running, done, failed, layout: _ }: &'a WorkerRow) -> Self {
        Self { id: worker_id(*id), place, slots: *slots, running: *running, done: *done, failed: *failed }
    }
}

impl<'a> ElementJson<'a> {
    /// The JSON of an element.
    pub fn new(row: &'a ElementRow) -> Self {
        let error = match &row.outcome {
            Some(Outcome::Failed(error)) => Some(error.as_str()),
            Some(Outcome::Done(_) | Outcome::Cancelled) | None => row.error.as_deref(),
        };
        let payload = match std::str::from_utf8(&row.payload) {
            Ok(text) => Some(text),
            // The beginning of a longer text may end within a character.
            Err(error) if row.payload.len() < row.payload_len && error.error_len().is_none() => {
                std::str::from_utf8(&row.payload[..error.valid_up_to()]).ok()
            }
            Err(_) => None,
        };
        let hex = || row.payload.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            id: row.id.to_string(),
            phase: row.phase.as_str(),
            age_ms: row.age.map(millis),
            left_ms: row.left.map(millis),
            priority: row.priority.get(),
            key: row.order_key.as_deref(),
            attempt: row.attempt,
            fence: Some(row.fence.get()).filter(|fence| *fence > 0),
            worker: row.taker.map(worker_id),
            headers: row.headers.iter().collect(),
            payload: payload.map(Cow::Borrowed),
            payload_hex: payload.is_none().then(hex),
            error,
            progress: row.progress.as_deref(),
            cancelled: row.is_cancelled,
            outcome: row.outcome.as_ref().map(|outcome| match outcome {
                Outcome::Done(_) => "done",
                Outcome::Failed(_) => "failed",
                Outcome::Cancelled => "cancelled",
            }),
        }
    }
}

impl<'a> ShownElement<'a> {
    /// `state` is that of its queue.
    pub(crate) fn new(row: &'a ElementRow, state: &'a QueueState) -> Self {
        let mut element = ElementJson::new(row);
        element.payload = element.payload.map(|text| text.chars().take(PAYLOAD).collect());
        if let Some(hex) = &mut element.payload_hex {
            hex.truncate(PAYLOAD);
        }
        let worker = state.status.workers.iter().find(|worker| row.taker == Some(worker.id));
        Self { element, place: worker.map(|worker| worker.place.as_str()), payload_bytes: row.payload_len }
    }
}

/// The id of a worker as text.
pub fn worker_id(id: u64) -> String {
    format!("{id:016x}")
}
