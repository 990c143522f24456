//! The last 24 hours in steps of ten minutes, for the charts of the page.

use std::{collections::BTreeMap, sync::Arc};

use bandog_cron::Time;
use bandog_schedule::State;
use serde::Serialize;

use crate::{
    digest::Digest,
    observed::{Observed, Runs, Sample},
    snapshot::is_bad,
};

/// The length of a step.
const STEP_MS: i64 = 600_000;
/// Number of steps. The last one has begun and has not ended.
const STEPS: usize = 144;
/// An observation is at most this old, while the process observes.
const LATE_MS: i64 = 90_000;
/// Maximum number of queues and of locks.
const NAMES: usize = 10;

/// Each list has a value for each step, the oldest first.
#[derive(Debug, Serialize)]
pub(crate) struct PastDay {
    #[serde(skip)]
    steps: Steps,
    from: String,
    step_ms: i64,
    /// The time of the first observation that is kept. None: there is none.
    observed_since: Option<String>,
    runs: RunSteps,
    lag: LagSteps,
    /// The queues in which most elements have waited.
    queues: Vec<QueueSteps>,
    /// The locks for which most calls have waited.
    locks: Vec<LockSteps>,
}

/// The runs that ended in each step.
#[derive(Debug, Serialize)]
struct RunSteps {
    ok: Vec<u64>,
    failed: Vec<u64>,
    /// Whether all runs of the step are counted. If not, the counts are lower bounds.
    whole: Vec<bool>,
}

/// Percentiles of the lags in each step, of the runs that are in the histories. `None`: there is no such run.
#[derive(Debug, Serialize)]
struct LagSteps {
    p50_ms: Vec<Option<u32>>,
    p99_ms: Vec<Option<u32>>,
}

/// The greatest observed values of a queue in each step. `None`: it was not observed.
#[derive(Debug, Serialize)]
pub(crate) struct QueueSteps {
    name: String,
    /// Elements that are ready, delayed or blocked.
    depth: Vec<Option<u32>>,
    oldest_ms: Vec<Option<u32>>,
}

/// The last 24 hours with the requested queue.
#[derive(Debug, Serialize)]
pub(crate) struct PastDayOf<'a> {
    #[serde(flatten)]
    day: &'a PastDay,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<QueueSteps>,
}

/// The greatest observed number of calls that wait for a lock in each step. `None`: it was not observed.
#[derive(Debug, Serialize)]
struct LockSteps {
    name: String,
    waiting: Vec<Option<u32>>,
}

/// The steps: the start of the first one, and the present time.
#[derive(Debug, Clone, Copy)]
struct Steps {
    from: i64,
    now: i64,
}

impl PastDay {
    /// `digests` are the histories of the jobs that have run in the last 24 hours; `is_read` says whether these are all of
    /// them.
    pub(crate) fn new(now: i64, digests: &[(String, Arc<Digest>)], is_read: bool, observed: &Observed) -> Self {
        let steps = Steps { from: now - now.rem_euclid(STEP_MS) - (STEPS as i64 - 1) * STEP_MS, now };
        let samples = steps.samples(observed);
        let first = samples.first().map(|sample| Time::from_millisecond(sample.at).to_string());
        let of_queue = |name: &str| QueueSteps::new(name, steps, &samples);
        let of_lock = |name: &str| LockSteps::new(name, steps, &samples);
        Self {
            steps,
            from: Time::from_millisecond(steps.from).to_string(),
            step_ms: STEP_MS,
            observed_since: first,
            runs: RunSteps::new(steps, digests, is_read, &samples),
            lag: LagSteps::new(steps, digests),
            queues: greatest(depths(&samples)).into_iter().map(of_queue).collect(),
            locks: greatest(waits(&samples)).into_iter().map(of_lock).collect(),
        }
    }

    /// The same with the queue of this name.
    pub(crate) fn with_queue(&self, observed: &Observed, queue: Option<&str>) -> PastDayOf<'_> {
        let queue = queue.map(|name| QueueSteps::new(name, self.steps, &self.steps.samples(observed)));
        PastDayOf { day: self, queue }
    }
}

impl Steps {
    /// The observations in these steps.
    fn samples(self, observed: &Observed) -> Vec<&Sample> {
        observed.samples().iter().filter(|sample| sample.at >= self.from).collect()
    }

    /// The step of a time. None if it is before the first step or in the future.
    fn of(self, at: i64) -> Option<usize> {
        usize::try_from((at - self.from).div_euclid(STEP_MS)).ok().filter(|step| *step < STEPS)
    }

    /// The start and the end of a step.
    fn range(self, step: usize) -> (i64, i64) {
        let start = self.from + step as i64 * STEP_MS;
        (start, start + STEP_MS)
    }

    /// The greatest value in each step. `of` returns the value of an observation.
    fn greatest(self, samples: &[&Sample], of: impl Fn(&Sample) -> Option<u32>) -> Vec<Option<u32>> {
        let mut values = vec![None; STEPS];
        for sample in samples {
            if let Some((value, step)) = of(sample).zip(self.of(sample.at)) {
                values[step] = values[step].max(Some(value));
            }
        }
        values
    }
}

impl RunSteps {
    fn new(steps: Steps, digests: &[(String, Arc<Digest>)], is_read: bool, samples: &[&Sample]) -> Self {
        // The counts of the histories, and those of the observations.
        let (mut read, mut seen) = (vec![(0, 0); STEPS], vec![(0, 0); STEPS]);
        for run in digests.iter().flat_map(|(_, digest)| digest.since(steps.from)) {
            let Some(step) = steps.of(run.ended) else { continue };
            read[step].0 += u64::from(run.state == State::Ok);
            read[step].1 += u64::from(is_bad(run.state) && !run.is_retried);
        }
        for runs in counted(samples) {
            let Some(step) = steps.of(runs.to) else { continue };
            seen[step].0 += runs.ended.ok;
            seen[step].1 += runs.ended.failed;
        }
        // From this time on, the histories have all runs.
        let cut = digests.iter().filter_map(|(_, digest)| digest.cut(steps.from)).max().unwrap_or(steps.from);
        let is_whole = |step: usize| is_read && cut <= steps.range(step).0;
        let spans = spans(samples);
        let is_seen = |step: usize| {
            let (start, end) = steps.range(step);
            let end = end.min(steps.now - LATE_MS).max(start);
            spans.iter().any(|(from, to)| *from <= start && *to >= end)
        };
        let count = |step: usize, of: fn(&(u64, u64)) -> u64| match is_whole(step) {
            true => of(&read[step]),
            false => of(&read[step]).max(of(&seen[step])),
        };
        Self {
            ok: (0..STEPS).map(|step| count(step, |counts| counts.0)).collect(),
            failed: (0..STEPS).map(|step| count(step, |counts| counts.1)).collect(),
            whole: (0..STEPS).map(|step| is_whole(step) || is_seen(step)).collect(),
        }
    }
}

impl LagSteps {
    fn new(steps: Steps, digests: &[(String, Arc<Digest>)]) -> Self {
        let mut lags = vec![Vec::new(); STEPS];
        for run in digests.iter().flat_map(|(_, digest)| digest.since(steps.from)) {
            if let Some((lag, step)) = run.lag.zip(steps.of(run.ended)) {
                lags[step].push(lag);
            }
        }
        let mut at = |percent| lags.iter_mut().map(|lags| percentile(lags, percent)).collect();
        Self { p50_ms: at(50), p99_ms: at(99) }
    }
}

impl QueueSteps {
    fn new(name: &str, steps: Steps, samples: &[&Sample]) -> Self {
        let of = |sample: &Sample, value: fn(u32, u32) -> u32| {
            let queues = sample.queues.as_ref()?;
            match queues.iter().find(|depth| &*depth.name == name) {
                Some(depth) => Some(value(depth.waiting, depth.oldest_ms)),
                // Without elements, or not observed.
                None => sample.last_queue.as_ref().is_none_or(|last| name <= &**last).then_some(0),
            }
        };
        Self {
            name: name.to_owned(),
            depth: steps.greatest(samples, |sample| of(sample, |waiting, _| waiting)),
            oldest_ms: steps.greatest(samples, |sample| of(sample, |_, oldest| oldest)),
        }
    }
}

impl LockSteps {
    fn new(name: &str, steps: Steps, samples: &[&Sample]) -> Self {
        let calls = |sample: &Sample| {
            let waiting = sample.locks.as_ref()?.iter().find(|waiting| &*waiting.name == name);
            Some(waiting.map_or(0, |waiting| waiting.calls))
        };
        Self { name: name.to_owned(), waiting: steps.greatest(samples, calls) }
    }
}

/// The value below which this percentage of the values lies. None: there is no value.
pub(crate) fn percentile(values: &mut [u32], percent: usize) -> Option<u32> {
    let place = (values.len() * percent).div_ceil(100).checked_sub(1)?;
    Some(*values.select_nth_unstable(place).1)
}

/// The counted runs, without those of a gap: some of them ended long before.
fn counted(samples: &[&Sample]) -> impl Iterator<Item = Runs> {
    samples.iter().filter_map(|sample| sample.runs).filter(|runs| runs.to - runs.from <= STEP_MS)
}

/// The times over which the counters of jobs were observed without a gap.
fn spans(samples: &[&Sample]) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for runs in counted(samples) {
        match spans.last_mut() {
            Some((_, to)) if *to == runs.from => *to = runs.to,
            Some(_) | None => spans.push((runs.from, runs.to)),
        }
    }
    spans
}

/// The depths of all observations.
fn depths<'a>(samples: &[&'a Sample]) -> impl Iterator<Item = (&'a str, u32)> {
    let all = samples.iter().filter_map(|sample| sample.queues.as_ref()).flatten();
    all.map(|depth| (&*depth.name, depth.waiting))
}

/// The waiting calls of all observations.
fn waits<'a>(samples: &[&'a Sample]) -> impl Iterator<Item = (&'a str, u32)> {
    let all = samples.iter().filter_map(|sample| sample.locks.as_ref()).flatten();
    all.map(|waiting| (&*waiting.name, waiting.calls))
}

/// The names with the greatest sums, the greatest first.
fn greatest<'a>(values: impl Iterator<Item = (&'a str, u32)>) -> Vec<&'a str> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, value) in values {
        *sums.entry(name).or_default() += u64::from(value);
    }
    let mut names: Vec<(&str, u64)> = sums.into_iter().collect();
    names.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    names.into_iter().take(NAMES).map(|(name, _)| name).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue can only panic")]
mod tests;
