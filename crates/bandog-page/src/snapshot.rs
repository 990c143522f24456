//! All jobs of the store at one moment.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use bandog_cron::Time;
use bandog_schedule::{JobRow, RunRow, State};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    histories::Marked,
    query::{StateFilter, Wanted},
    source::{Trouble, unwritable},
};

/// The jobs by name, with precomputed answers to frequent queries.
#[derive(Debug)]
pub(crate) struct Snapshot {
    jobs: Vec<Job>,
    /// For each name, the index of the job in `jobs`.
    places: BTreeMap<String, usize>,
    counts: Counts,
}

/// One job, written as JSON.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) json: Box<RawValue>,
    /// A number that changes with each new line of the job's history.
    pub(crate) mark: u64,
    /// The name in lower case, for the filter by name.
    lower: String,
    /// The end of the job's last run, in milliseconds since 1970.
    ended: Option<i64>,
    /// The runs that have ended since the job began.
    counts: Ended,
    is_running: bool,
    is_paused: bool,
    is_failing: bool,
}

/// Numbers of runs that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
}

/// Number of jobs in each state. All jobs are counted, even those that a request's filter by name excludes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) all: usize,
    pub(crate) running: usize,
    pub(crate) paused: usize,
    pub(crate) failing: usize,
}

/// The jobs of one answer: those between the request's offset and limit, of all jobs that match the request's filters.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) jobs: Vec<&'a Job>,
    /// Number of jobs that match.
    pub(crate) total: usize,
    pub(crate) counts: Counts,
}

impl Snapshot {
    pub(crate) fn new(rows: &[JobRow]) -> Result<Self, Trouble> {
        let mut jobs = rows.iter().map(Job::new).collect::<Result<Vec<_>, _>>()?;
        jobs.sort_by(|a, b| a.name.cmp(&b.name));
        let places = jobs.iter().enumerate().map(|(place, job)| (job.name.clone(), place)).collect();
        let count = |is: StateFilter| jobs.iter().filter(|job| job.is(is)).count();
        let counts = Counts {
            all: jobs.len(),
            running: count(StateFilter::Running),
            paused: count(StateFilter::Paused),
            failing: count(StateFilter::Failing),
        };
        Ok(Self { jobs, places, counts })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Job> {
        self.places.get(name).map(|place| &self.jobs[*place])
    }

    /// Number of jobs.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The jobs with a run that ended at or after this time. Jobs whose last run failed come first.
    pub(crate) fn since(&self, from: i64) -> Vec<Marked> {
        let mut jobs: Vec<&Job> = self.jobs.iter().filter(|job| job.ended.is_some_and(|ended| ended >= from)).collect();
        jobs.sort_by_key(|job| !job.is_failing);
        jobs.into_iter().map(Job::marked).collect()
    }

    /// The runs of each job that have ended, by a hash of its name.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (u64, Ended)> {
        self.jobs.iter().map(|job| (hash(&job.name), job.counts))
    }

    /// The jobs that match the filters in `wanted`, from the offset on, and at most as many as the limit allows.
    pub(crate) fn part(&self, wanted: &Wanted) -> Part<'_> {
        let matching: Vec<&Job> =
            self.jobs.iter().filter(|job| job.is(wanted.is) && job.lower.contains(&wanted.name)).collect();
        let total = matching.len();
        let jobs = matching.into_iter().skip(wanted.offset).take(wanted.limit.unwrap_or(usize::MAX)).collect();
        Part { jobs, total, counts: self.counts }
    }
}

impl Job {
    fn new(row: &JobRow) -> Result<Self, Trouble> {
        Ok(Self {
            name: row.name.clone(),
            json: to_raw_value(row).map_err(|error| unwritable(&error))?,
            mark: mark(row),
            lower: row.name.to_lowercase(),
            ended: row.last.as_ref().and_then(|last| last.ended.as_ref()?.parse::<Time>().ok()).map(Time::millisecond),
            counts: Ended { ok: row.ok, failed: row.failed + row.lost },
            is_running: row.live.iter().any(|run| run.state == State::Running),
            is_paused: row.paused.is_some() || row.all_paused.is_some(),
            is_failing: row.last.as_ref().is_some_and(is_failure),
        })
    }

    /// The name and the mark of the job.
    pub(crate) fn marked(&self) -> Marked {
        (self.name.clone(), self.mark)
    }

    /// Whether the job has this state.
    fn is(&self, is: StateFilter) -> bool {
        match is {
            StateFilter::Any => true,
            StateFilter::Running => self.is_running,
            StateFilter::Paused => self.is_paused,
            StateFilter::Failing => self.is_failing,
        }
    }
}

/// Whether a run failed. A run that ended for a reason outside the job and its node, such as a cancelled run, has not
/// failed, and neither has one whose next attempt follows. The counters of the job follow the same rule.
pub(crate) fn is_failure(run: &RunRow) -> bool {
    is_bad(run.state) && !run.retried
}

/// Whether this state is a failure, as in [`is_failure`].
pub(crate) fn is_bad(state: State) -> bool {
    match state {
        State::Failed | State::TimedOut | State::Lost => true,
        State::Queued
        | State::Running
        | State::Ok
        | State::Cancelled
        | State::Interrupted
        | State::Skipped
        | State::Missed
        | State::Reset => false,
    }
}

fn hash(name: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    name.hash(&mut hash);
    hash.finish()
}

/// A number that changes with each new line of the job's history. The number is a hash of the counters and of the last
/// run. Each new line raises a counter or changes the last run.
fn mark(row: &JobRow) -> u64 {
    let mut mark = DefaultHasher::new();
    (row.ok, row.failed, row.cancelled, row.skipped, row.missed, row.lost).hash(&mut mark);
    if let Some(last) = &row.last {
        (last.id, last.attempt, &last.ended, last.state).hash(&mut mark);
    }
    mark.finish()
}
