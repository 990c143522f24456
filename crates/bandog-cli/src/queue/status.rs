//! Prints the state of queues.

use std::{
    io::{self, BufWriter, Write},
    time::Duration,
};

use bandog::work::{Phase, QueueSettings, QueueStatus, Rate, WorkerRow};
use serde::Serialize;

use crate::{console::escaped, row};

/// The state of a queue as JSON. Scripts rely on the names of these fields.
#[derive(Debug, Serialize)]
pub(crate) struct StatusJson<'a> {
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

impl<'a> StatusJson<'a> {
    pub(crate) fn new(name: &'a str, status: &'a QueueStatus, store: &'a str) -> Self {
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

impl<'a> WorkerJson<'a> {
    fn new(WorkerRow { id, place, slots, running, done, failed }: &'a WorkerRow) -> Self {
        Self { id: taker(*id), place, slots: *slots, running: *running, done: *done, failed: *failed }
    }
}

/// The id of a worker as text.
pub(super) fn taker(id: u64) -> String {
    format!("{id:016x}")
}

/// A duration in milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Prints a table with one line for each queue, in this order.
pub(crate) fn table(queues: &[(String, QueueStatus)]) -> io::Result<()> {
    let heads = ["NAME", "READY", "DELAYED", "BLOCKED", "TAKEN", "DEAD", "OLDEST", "WORKERS", "SETTINGS"];
    let lines: Vec<[String; 9]> = queues.iter().map(|(name, status)| cells(name, status)).collect();
    columns(&[heads.map(String::from)].into_iter().chain(lines).collect::<Vec<_>>())
}

/// Prints the workers of a queue.
pub(crate) fn workers(workers: &[WorkerRow]) -> io::Result<()> {
    if workers.is_empty() {
        return Ok(());
    }
    let heads = ["WORKER", "PLACE", "SLOTS", "RUNNING", "DONE", "FAILED"].map(String::from);
    let line = |worker: &WorkerRow| {
        let WorkerRow { id, place, slots, running, done, failed } = worker;
        [taker(*id), escaped(place), slots.to_string(), running.to_string(), done.to_string(), failed.to_string()]
    };
    columns(&[heads].into_iter().chain(workers.iter().map(line)).collect::<Vec<_>>())
}

fn cells(name: &str, status: &QueueStatus) -> [String; 9] {
    // A store may stop to count.
    let count = |phase| match status.count(phase) {
        0 => "-".to_owned(),
        bandog::work::MAX_COUNT.. => format!("{}+", bandog::work::MAX_COUNT),
        number => number.to_string(),
    };
    let [ready, delayed, blocked, taken, dead] = Phase::IN_QUEUE.map(count);
    let oldest = status.oldest.map_or("-".to_owned(), row::remaining);
    let workers = if status.workers.is_empty() { "-".to_owned() } else { status.workers.len().to_string() };
    [escaped(name), ready, delayed, blocked, taken, dead, oldest, workers, settings(status.settings)]
}

/// The settings as text.
pub(super) fn settings(QueueSettings { is_paused, concurrency, rate }: QueueSettings) -> String {
    let mut words = Vec::new();
    if is_paused {
        words.push("paused".to_owned());
    }
    words.extend(concurrency.map(|number| format!("at most {number} at a time")));
    words.extend(rate.map(|Rate { deliveries, per }| format!("{deliveries}/{}", humantime::format_duration(per))));
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

/// Prints lines as columns.
pub(crate) fn columns<const N: usize>(lines: &[[String; N]]) -> io::Result<()> {
    let widths: [usize; N] =
        std::array::from_fn(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0));
    let mut out = BufWriter::new(io::stdout().lock());
    for line in lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn settings_are_words() {
        let (four, per) = (NonZeroU32::new(4), Duration::from_secs(60));
        let rate = four.map(|deliveries| Rate { deliveries, per });
        assert_eq!(settings(QueueSettings::default()), "-");
        let all = QueueSettings { is_paused: true, concurrency: four, rate };
        assert_eq!(settings(all), "paused, at most 4 at a time, 4/1m");
    }
}
