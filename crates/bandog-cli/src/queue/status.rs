//! Prints the state of queues.

use std::io::{self, BufWriter, Write};

use bandog::work::{Phase, QueueSettings, QueueStatus, Rate, WorkerRow};
use bandog_page::worker_id;

use crate::{console::escaped, row};

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
        let WorkerRow { id, place, slots, running, done, failed, layout: _ } = worker;
        [worker_id(*id), escaped(place), slots.to_string(), running.to_string(), done.to_string(), failed.to_string()]
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
    use std::{num::NonZeroU32, time::Duration};

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
