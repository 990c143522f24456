//! The part of a job's history that is kept in memory. The page needs this part for the bars of the last runs and for
//! the figures of the last day.

use bandog_cron::Time;
use bandog_schedule::{Kind, RunRow, State};
use serde::Serialize;

/// Number of runs that the page draws as bars.
pub(crate) const BARS: usize = 50;
/// Number of successful runs that the store keeps in a job's history. The store also keeps this number of other runs.
/// So if a history has fewer than this number of successful runs, no successful run is missing. The same is true for
/// other runs.
const KEPT: usize = 50;

/// The ended runs of one job, without their texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    /// The job's mark at the time of the query. A mark is a number that changes with each new line of the job's
    /// history.
    pub(crate) mark: u64,
    /// The runs in the order of their ends, the latest last.
    pub(crate) runs: Vec<Brief>,
    /// Successful runs that ended before this time might be missing. `None` if no successful run is missing.
    ok_from: Option<i64>,
    /// Other runs (for example failed ones) that ended before this time might be missing. `None` if no such run is
    /// missing.
    failed_from: Option<i64>,
}

/// One run. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Brief {
    /// The end of the run, since 1970.
    pub(crate) ended: i64,
    /// The duration of the run.
    took: u32,
    /// The lag of a scheduled run: the time from its due time to its start. `None` for a run of another kind. Such a
    /// run is requested after its due time, so this time is no lag.
    pub(crate) lag: Option<u32>,
    pub(crate) state: State,
    /// Whether this is an attempt that was repeated, so that it is no end of a run.
    pub(crate) is_retried: bool,
}

/// One bar.
#[derive(Debug, Serialize)]
pub(crate) struct Bar {
    state: State,
    ended: String,
    took_ms: u32,
}

impl Digest {
    /// Makes the digest of a history that was read when the job had this mark.
    pub(crate) fn new(mark: u64, history: &[RunRow]) -> Self {
        let mut runs: Vec<Brief> = history.iter().filter_map(Brief::of).collect();
        runs.sort_by_key(|run| run.ended);
        let from = |is_wanted: fn(State) -> bool| {
            let mut ends = runs.iter().filter(|run| is_wanted(run.state)).map(|run| run.ended);
            let oldest = ends.next()?;
            (ends.count() + 1 >= KEPT).then_some(oldest)
        };
        let (ok_from, failed_from) = (from(|state| state == State::Ok), from(|state| state != State::Ok));
        Self { mark, runs, ok_from, failed_from }
    }

    /// The last runs, the latest run at the end.
    pub(crate) fn bars(&self) -> Vec<Bar> {
        let first = self.runs.len().saturating_sub(BARS);
        self.runs[first..].iter().map(Brief::bar).collect()
    }

    /// The runs that ended at or after this time.
    pub(crate) fn since(&self, from: i64) -> &[Brief] {
        &self.runs[self.runs.partition_point(|run| run.ended < from)..]
    }

    /// If runs that ended after `from` might be missing: the time after which no run is missing. Otherwise `None`.
    pub(crate) fn cut(&self, from: i64) -> Option<i64> {
        self.ok_from.max(self.failed_from).filter(|cut| *cut > from)
    }
}

impl Brief {
    /// The run of this row. `None` if the run has not ended.
    fn of(row: &RunRow) -> Option<Self> {
        match row.state {
            State::Queued | State::Running | State::Skipped | State::Missed | State::Reset => return None,
            State::Ok | State::Failed | State::TimedOut | State::Cancelled | State::Interrupted | State::Lost => {}
        }
        let at = |text: &Option<String>| Some(text.as_ref()?.parse::<Time>().ok()?.millisecond());
        let ended = at(&row.ended)?;
        let took = at(&row.started).map_or(0, |started| ended.saturating_sub(started).max(0));
        let lag = row.lag_ms.filter(|_| row.kind == Kind::Scheduled);
        Some(Self {
            ended,
            took: small(took.unsigned_abs()),
            lag: lag.map(small),
            state: row.state,
            is_retried: row.retried,
        })
    }

    fn bar(&self) -> Bar {
        let Self { ended, took, state, .. } = *self;
        Bar { state, ended: Time::from_millisecond(ended).to_string(), took_ms: took }
    }
}

/// A duration in milliseconds as a `u32`. Durations of more than 49 days become 49 days, which is enough for a bar.
fn small(ms: u64) -> u32 {
    u32::try_from(ms).unwrap_or(u32::MAX)
}
