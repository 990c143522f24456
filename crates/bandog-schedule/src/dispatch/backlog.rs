//! Warns about jobs with a fixed rate if their runs take longer than the period. More and more ticks of such a job are
//! queued.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use bandog_core::Moment;

use super::entry::JobId;
use crate::trigger::DurationMs;

/// Minimum interval between two warnings about one job. A warning compares the backlog (the number of queued ticks)
/// with the backlog before this interval.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// A job has a backlog if at least this number of ticks is queued. A single queued tick is normal, because a tick is
/// queued whenever a run takes slightly longer than the period.
const MIN_BACKLOG: usize = 2;

/// The jobs that have a backlog.
#[derive(Debug, Default)]
pub(super) struct Backlogs(BTreeMap<JobId, Backlog>);

#[derive(Debug)]
/// The backlog of a job, as it was when the present interval began.
struct Backlog {
    /// Start of the interval.
    since: Moment,
    /// Number of queued ticks at that time.
    waiting: usize,
}

/// The growth of a backlog.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// Number of ticks that waited at the start of `time`.
    before: usize,
    /// Number of ticks that wait now.
    waiting: usize,
    /// Time over which the backlog has grown.
    time: Duration,
}

impl Growth {
    /// Logs the growth of a job's backlog. `period`: the job's period. `most`: maximum number of queued ticks.
    pub(super) fn log(&self, job: &str, period: DurationMs, most: NonZeroU32) {
        let Self { before, waiting, time } = self;
        let period = humantime::format_duration(Duration::from_millis(period.unsigned_abs()));
        let ago = humantime::format_duration(Duration::from_secs(time.as_secs()));
        tracing::warn!(
            job = %job,
            waiting,
            before,
            "the job's runs take longer than its period of {period}: {waiting} ticks wait, {before} waited {ago} \
             ago; when {most} wait, further ticks are skipped. With a longer period or overlap = \"allow(2)\" the \
             job keeps up, with overlap = \"skip\" it skips ticks"
        );
    }
}

impl Backlogs {
    /// Records the number of a job's queued ticks. Once a minute, compares this number with the number of the last
    /// minute. If the number has grown, returns the growth.
    pub(super) fn observe(&mut self, job: JobId, waiting: usize, now: impl FnOnce() -> Moment) -> Option<Growth> {
        if waiting < MIN_BACKLOG {
            self.0.remove(&job);
            return None;
        }
        let now = now();
        let known = self.0.entry(job).or_insert(Backlog { since: now, waiting });
        let time = now.since(known.since);
        if time < LOG_INTERVAL {
            return None;
        }
        let Backlog { waiting: before, .. } = std::mem::replace(known, Backlog { since: now, waiting });
        (waiting > before).then_some(Growth { before, waiting, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_backlog_that_grows_for_a_minute_is_found_once_a_minute() {
        let mut backlogs = Backlogs::default();
        assert_eq!(backlogs.observe(1, 2, || at(0)), None);
        assert_eq!(backlogs.observe(1, 9, || at(59)), None);
        let growth = backlogs.observe(1, 10, || at(60));
        assert_eq!(growth, Some(Growth { before: 2, waiting: 10, time: Duration::from_secs(60) }));
        assert_eq!(backlogs.observe(1, 20, || at(61)), None);
        assert_eq!(backlogs.observe(1, 10, || at(120)), None, "it has not grown");
    }

    #[test]
    fn a_new_backlog_is_measured_from_its_own_start() {
        let mut backlogs = Backlogs::default();
        backlogs.observe(1, 2, || at(0));
        backlogs.observe(1, 1, || at(30));
        backlogs.observe(1, 3, || at(31));
        assert_eq!(backlogs.observe(1, 9, || at(60)), None);
        assert_eq!(backlogs.observe(2, 9, || at(60)), None, "another job");
        assert!(backlogs.observe(1, 9, || at(91)).is_some());
    }
}
