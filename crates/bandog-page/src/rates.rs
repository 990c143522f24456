//! How many elements of queues are done per second, by what their workers have counted.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use bandog_core::queues::WorkerRow;
use tokio::time::Instant;

/// The counts of the last time of this length are kept.
const WINDOW: Duration = Duration::from_secs(60);
/// Minimum time between two kept counts of a queue.
const STEP: Duration = Duration::from_secs(5);
/// Minimum time for a rate. Workers report every 20 s.
const LEAST: Duration = Duration::from_secs(20);
/// Maximum number of queues whose counts are kept.
const QUEUES: usize = 1000;

/// The done elements of each worker of a queue.
type Counts = BTreeMap<u64, u64>;

/// The last counts of queues.
#[derive(Debug, Default)]
pub(crate) struct Rates(HashMap<String, VecDeque<(Instant, Counts)>>);

impl Rates {
    /// Adds the counts of a queue, and returns its done elements per second in the last minute. None: the counts do not go
    /// back far enough.
    pub(crate) fn add(&mut self, queue: &str, now: Instant, workers: &[WorkerRow]) -> Option<f64> {
        if self.0.len() >= QUEUES && !self.0.contains_key(queue) {
            self.0.retain(|_, kept| kept.back().is_some_and(|(at, _)| now.duration_since(*at) < WINDOW));
            if self.0.len() >= QUEUES {
                return None;
            }
        }
        let counts: Counts = workers.iter().map(|worker| (worker.id, worker.done)).collect();
        let kept = self.0.entry(queue.to_owned()).or_default();
        while kept.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            kept.pop_front();
        }
        let rate = kept.front().and_then(|(at, before)| {
            let time = now.duration_since(*at);
            // A worker that is not among the old counts has begun since.
            let done = |(id, done): (&u64, &u64)| done.saturating_sub(before.get(id).copied().unwrap_or(0));
            let all: u64 = counts.iter().map(done).sum();
            (time >= LEAST).then(|| (all as f64 / time.as_secs_f64() * 1000.0).round() / 1000.0)
        });
        if kept.back().is_none_or(|(at, _)| now.duration_since(*at) >= STEP) {
            kept.push_back((now, counts));
        }
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_minute() {
        let (mut rates, begun) = (Rates::default(), Instant::now());
        let worker = |id, done| WorkerRow { id, done, ..WorkerRow::default() };
        let mut at = |second: u64, workers: &[WorkerRow]| rates.add("a", begun + Duration::from_secs(second), workers);
        assert_eq!(at(0, &[worker(1, 1000)]), None);
        assert_eq!(at(10, &[worker(1, 1010)]), None);
        assert_eq!(at(20, &[worker(1, 1040)]), Some(2.0));
        assert_eq!(at(40, &[worker(1, 1040), worker(2, 40)]), Some(2.0));
        // The first counts are forgotten, and a worker that has ended does not count.
        assert_eq!(at(70, &[worker(2, 100)]), Some(1.667));
        assert_eq!(at(200, &[worker(2, 100)]), None);
        assert_eq!(at(220, &[worker(2, 100)]), Some(0.0));
    }
}
