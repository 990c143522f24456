//! Work queues and their elements as JSON.

use bandog_core::queues::{ElementRow, Outcome, Phase, QueueSettings, Rate, WorkerRow};
use serde::Serialize;

use crate::{lock_json::millis, queues::QueueState};

/// Maximum number of characters of a payload.
const PAYLOAD: usize = 1000;

/// The state of a queue in JSON: as `bandog queues --json` prints it, with the rate. Programs rely on the field names.
#[derive(Debug, Serialize)]
pub(crate) struct QueueJson<'a> {
    name: &'a str,
    ready: u64,
    delayed: u64,
    blocked: u64,
    taken: u64,
    dead: u64,
    oldest_ms: Option<u64>,
    /// Done elements per second in the last minute, by what the workers have reported. None: not known yet.
    done_per_second: Option<f64>,
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

/// An element in JSON: as `bandog queue NAME ls --json` prints it, with the beginning of its payload. Programs rely on the
/// field names.
#[derive(Debug, Serialize)]
pub(crate) struct ElementJson<'a> {
    id: String,
    phase: &'static str,
    age_ms: Option<u64>,
    left_ms: Option<u64>,
    priority: u8,
    key: Option<&'a str>,
    attempt: u32,
    fence: Option<u64>,
    worker: Option<String>,
    /// The host and the process of the worker. None if it has not reported lately.
    place: Option<&'a str>,
    /// The first characters. None if the payload is not UTF-8.
    payload: Option<String>,
    /// The first bytes. None if the payload is UTF-8.
    payload_hex: Option<String>,
    /// The length of the whole payload.
    payload_bytes: usize,
    error: Option<&'a str>,
    progress: Option<&'a str>,
    cancelled: bool,
}

impl<'a> QueueJson<'a> {
    pub(crate) fn new(name: &'a str, state: &'a QueueState, store: &'a str) -> Self {
        let (status, done_per_second) = (&state.status, state.done_per_second);
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
            done_per_second,
            paused: is_paused,
            concurrency: concurrency.map(Into::into),
            rate: rate.map(|Rate { deliveries, per }| RateJson { deliveries: deliveries.into(), per_ms: millis(per) }),
            workers: status.workers.iter().map(WorkerJson::new).collect(),
            store,
        }
    }
}

impl<'a> WorkerJson<'a> {
    fn new(WorkerRow { id, place, slots, running, done, failed }: &'a WorkerRow) -> Self {
        Self { id: taker(*id), place, slots: *slots, running: *running, done: *done, failed: *failed }
    }
}

impl<'a> ElementJson<'a> {
    /// `state` is that of its queue.
    pub(crate) fn new(row: &'a ElementRow, state: &'a QueueState) -> Self {
        let text = std::str::from_utf8(&row.payload).ok();
        let hex = || row.payload.iter().take(PAYLOAD / 2).map(|byte| format!("{byte:02x}")).collect();
        let error = match &row.outcome {
            Some(Outcome::Failed(error)) => Some(error.as_str()),
            Some(Outcome::Done(_) | Outcome::Cancelled) | None => row.error.as_deref(),
        };
        let worker = state.status.workers.iter().find(|worker| row.taker == Some(worker.id));
        Self {
            id: row.id.to_string(),
            phase: row.phase.as_str(),
            age_ms: row.age.map(millis),
            left_ms: row.left.map(millis),
            priority: row.priority.get(),
            key: row.order_key.as_deref(),
            attempt: row.attempt,
            fence: Some(row.fence.get()).filter(|fence| *fence > 0),
            worker: row.taker.map(taker),
            place: worker.map(|worker| worker.place.as_str()),
            payload: text.map(|text| text.chars().take(PAYLOAD).collect()),
            payload_hex: text.is_none().then(hex),
            payload_bytes: row.payload.len(),
            error,
            progress: row.progress.as_deref(),
            cancelled: row.is_cancelled,
        }
    }
}

/// The id of a worker as text.
fn taker(id: u64) -> String {
    format!("{id:016x}")
}
