//! Figures of the whole store: about the runs of the last 24 hours, and about the starts of runs in the next hour.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bandog_cron::Time;
use bandog_schedule::{Fire, State};
use serde::Serialize;

use crate::{
    digest::{Brief, Digest},
    past_day::percentile,
    snapshot::is_bad,
};

/// The duration of the timeline, which begins now.
pub(crate) const AHEAD: Duration = Duration::from_secs(3600);
/// Maximum number of starts of one job on the timeline. If a job has more starts, the timeline shows none of these
/// starts, because they would hide the starts of other jobs. Such jobs are only counted.
pub(crate) const PER_JOB: usize = 12;
/// Maximum number of starts that are listed with the names of their jobs.
const LISTED: usize = 100;
/// Maximum number of frequent jobs that are listed by name.
const NAMED: usize = 10;

const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;

/// The part of the page above the list of jobs.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    last_24h: Day,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_hour: Option<Arc<Hour>>,
}

/// Figures of the runs that ended in the last 24 hours. Runs whose lines the store has already removed from the
/// histories are not included.
#[derive(Debug, Serialize)]
struct Day {
    since: String,
    runs: u64,
    failures: u64,
    /// The oldest failure in the last 24 hours.
    oldest_failure: Option<Failure>,
    /// The lags of the scheduled runs. A lag is the time from the due time of a run to its start.
    lag: Option<Lag>,
    /// Number of jobs in the store.
    jobs: usize,
    /// Number of jobs whose history is included in these figures.
    jobs_read: usize,
    /// Number of jobs whose history does not cover 24 hours. Runs that ended before the start of such a history are not
    /// counted.
    jobs_cut: usize,
    /// The job whose history covers the shortest time. `None` if each history covers 24 hours.
    shortest: Option<Cut>,
}

/// A run that failed.
#[derive(Debug, Serialize)]
struct Failure {
    job: String,
    ended: String,
    state: State,
    /// Whether the failure still stands, which means that no run of the job has succeeded since then.
    stands: bool,
}

/// Percentiles of the lags.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Lag {
    p50_ms: u32,
    p99_ms: u32,
    /// Number of runs with a lag.
    runs: usize,
}

/// A history that does not cover 24 hours.
#[derive(Debug, Serialize)]
struct Cut {
    job: String,
    covers_ms: u64,
}

/// The starts of the next hour.
#[derive(Debug, Serialize)]
pub(crate) struct Hour {
    from: String,
    /// Number of starts in each minute of the hour. Only jobs with at most [`PER_JOB`] starts in the hour are included.
    minutes: Vec<u32>,
    /// The first `LISTED` of the starts in `minutes`, in the order of their times.
    starts: Vec<Start>,
    /// Number of jobs with more than [`PER_JOB`] starts in the hour.
    often: usize,
    /// The names of the first `NAMED` jobs that are counted in `often`.
    often_jobs: Vec<String>,
}

/// One start of a job on the timeline.
#[derive(Debug, Serialize)]
struct Start {
    job: String,
    due: String,
}

/// The time 24 hours before `now`, in milliseconds since 1970.
pub(crate) fn day_before(now: SystemTime) -> i64 {
    Time::from(now).millisecond() - DAY_MS
}

impl Summary {
    /// `jobs` is a pair: the number of jobs in the store, and the number of jobs without a run in the last 24 hours.
    /// `digests` contains only the digests that were read already.
    pub(crate) fn new(
        now: SystemTime,
        jobs: (usize, usize),
        digests: &[(String, Arc<Digest>)],
        next_hour: Option<Arc<Hour>>,
    ) -> Self {
        Self { last_24h: Day::new(Time::from(now).millisecond(), jobs, digests), next_hour }
    }
}

impl Day {
    /// The parameters are those of [`Summary::new`]. `quiet` is the number of jobs without a run in the last 24 hours.
    fn new(now: i64, (jobs, quiet): (usize, usize), digests: &[(String, Arc<Digest>)]) -> Self {
        let since = now - DAY_MS;
        let (mut runs, mut failures, mut lags) = (0, 0, Vec::new());
        let mut oldest: Option<(i64, &str, State, &Digest)> = None;
        // The histories that do not cover 24 hours: the start of each history, and the name of its job.
        let mut cuts: Vec<(i64, &str)> = Vec::new();
        for (name, digest) in digests {
            let ended = digest.since(since);
            runs += ended.iter().filter(|run| !run.is_retried).count() as u64;
            lags.extend(ended.iter().filter_map(|run| run.lag));
            let is_failure = |run: &&Brief| is_bad(run.state) && !run.is_retried;
            failures += ended.iter().filter(is_failure).count() as u64;
            let failure = ended.iter().find(is_failure);
            if let Some(run) = failure.filter(|run| oldest.is_none_or(|(at, ..)| run.ended < at)) {
                oldest = Some((run.ended, name, run.state, digest));
            }
            cuts.extend(digest.cut(since).map(|from| (from, name.as_str())));
        }
        let oldest_failure = oldest.map(|(ended, job, state, digest)| Failure {
            job: job.to_owned(),
            ended: Time::from_millisecond(ended).to_string(),
            state,
            stands: !digest.since(ended).iter().any(|run| run.state == State::Ok),
        });
        let shortest = cuts.iter().max().map(|(from, job)| Cut {
            job: (*job).to_owned(),
            covers_ms: now.saturating_sub(*from).max(0).unsigned_abs(),
        });
        Self {
            since: Time::from_millisecond(since).to_string(),
            runs,
            failures,
            oldest_failure,
            lag: Lag::of(lags),
            jobs,
            jobs_read: quiet + digests.len(),
            jobs_cut: cuts.len(),
            shortest,
        }
    }
}

impl Lag {
    fn of(mut lags: Vec<u32>) -> Option<Self> {
        let runs = lags.len();
        Some(Self { p50_ms: percentile(&mut lags, 50)?, p99_ms: percentile(&mut lags, 99)?, runs })
    }
}

impl Hour {
    /// `fires` has at most [`PER_JOB`] + 1 ticks of each job.
    pub(crate) fn new(now: SystemTime, fires: &[Fire]) -> Self {
        let now = Time::from(now).millisecond();
        let from = now - now.rem_euclid(MINUTE_MS);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        fires.iter().for_each(|fire| *counts.entry(&fire.job).or_default() += 1);
        let is_often = |job: &str| counts.get(job).is_some_and(|count| *count > PER_JOB);
        let mut starts: Vec<(i64, &Fire)> = fires
            .iter()
            .filter(|fire| !is_often(&fire.job))
            .filter_map(|fire| Some((fire.due.parse::<Time>().ok()?.millisecond(), fire)))
            .collect();
        starts.sort_by_key(|(due, _)| *due);
        let mut minutes = vec![0; usize::try_from(AHEAD.as_secs() / 60).unwrap_or(60)];
        for (due, _) in &starts {
            let minute = usize::try_from((due - from) / MINUTE_MS).ok();
            if let Some(count) = minute.and_then(|minute| minutes.get_mut(minute)) {
                *count += 1;
            }
        }
        let often: Vec<&str> = counts.keys().copied().filter(|job| is_often(job)).collect();
        Self {
            from: Time::from_millisecond(from).to_string(),
            minutes,
            starts: starts.iter().take(LISTED).map(|(_, fire)| Start::of(fire)).collect(),
            often: often.len(),
            often_jobs: often.iter().take(NAMED).map(|job| (*job).to_owned()).collect(),
        }
    }
}

impl Start {
    fn of(fire: &Fire) -> Self {
        Self { job: fire.job.clone(), due: fire.due.clone() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue can only panic")]
pub(crate) mod tests;
