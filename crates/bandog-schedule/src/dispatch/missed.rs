//! Collects the ticks that did not run, and logs them together, because a log entry for each tick would flood the log.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bandog_core::Moment;
use bandog_cron::Time;

use super::{entry::JobId, polls::POLL_INTERVAL};
use crate::{misfire::TickRange, plan::Plan};

/// Minimum interval between two reports.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of jobs that a report names. Further jobs are only counted.
const MAX_LOGGED_JOBS: usize = 100;

/// Ticks that are not logged yet.
#[derive(Default)]
pub(crate) struct MissedTicks {
    jobs: BTreeMap<JobId, TickRanges>,
    /// Time of the next report. None while there is nothing to report.
    due: Option<Moment>,
    /// Time of the last report.
    logged_at: Option<Moment>,
}

#[derive(Default)]
/// The ticks of one job, by what happened to them.
struct TickRanges {
    /// Ticks that no node ran in time.
    missed: TickRange,
    /// Ticks whose node died during the run. These ticks do not run again.
    lost: TickRange,
    /// Ticks that might have run before the store lost the job's record.
    unknown: TickRange,
    /// Ticks whose node died during the run. These ticks run again.
    died: TickRange,
}

impl MissedTicks {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_none()
    }

    /// Adds the missed and lost ticks of a plan whose state is confirmed.
    pub(crate) fn add(&mut self, job: JobId, plan: &Plan, now: impl FnOnce() -> Moment) {
        if plan.missed.ticks == 0 && plan.lost.ticks == 0 && plan.died.ticks == 0 {
            return;
        }
        if self.due.is_none() {
            let soon = now() + POLL_INTERVAL;
            self.due = Some(self.logged_at.map_or(soon, |logged_at| soon.max(logged_at + LOG_INTERVAL)));
        }
        let ranges = self.jobs.entry(job).or_default();
        ranges.died.join(plan.died);
        if plan.is_restored {
            ranges.unknown.join(plan.missed);
            ranges.unknown.join(plan.lost);
        } else {
            ranges.missed.join(plan.missed);
            ranges.lost.join(plan.lost);
        }
    }

    /// Whether [`MissedTicks::log`] should be called now.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.due.is_some_and(|due| now >= due)
    }

    /// Writes the report.
    pub(crate) fn log(&mut self, now: Moment, name_of: impl Fn(JobId) -> Arc<str>) {
        (self.due, self.logged_at) = (None, Some(now));
        let mut jobs = std::mem::take(&mut self.jobs).into_iter();
        for (job, TickRanges { missed, lost, unknown, died }) in jobs.by_ref().take(MAX_LOGGED_JOBS) {
            let job = name_of(job);
            if let Some((ticks, first, last)) = first_and_last(missed) {
                tracing::warn!(%job, ticks, %first, %last, "ticks were missed: no node ran them in time");
            }
            if let Some((ticks, first, last)) = first_and_last(lost) {
                tracing::warn!(%job, ticks, %first, %last, "ticks were lost: the node that ran them died or lost its session");
            }
            if let Some((ticks, first, last)) = first_and_last(died) {
                tracing::warn!(%job, ticks, %first, %last, "the node that ran the job died or lost its session: the run is tried again");
            }
            if let Some((ticks, first, last)) = first_and_last(unknown) {
                tracing::warn!(%job, ticks, %first, %last, "ticks may have run or not: the store lost the job's record");
            }
        }
        let (jobs, ticks) = jobs.fold((0_u64, 0), |(jobs, ticks), (_, more)| {
            (jobs + 1, ticks + more.missed.ticks + more.lost.ticks + more.unknown.ticks + more.died.ticks)
        });
        if jobs > 0 {
            tracing::warn!(jobs, ticks, "ticks of further jobs were missed or lost: see the histories of the jobs");
        }
    }
}

/// The number of ticks, the first tick and the last tick. None if the range is empty.
fn first_and_last(range: TickRange) -> Option<(u64, Time, Time)> {
    Some((range.ticks, Time::from_millisecond(range.first?), Time::from_millisecond(range.last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_millis(ms)
    }

    fn missing(tick: i64) -> Plan {
        let mut plan = Plan::default();
        plan.missed.add(tick);
        plan
    }

    #[test]
    fn a_report_is_due_a_second_after_its_first_tick_and_ten_after_the_last_report() {
        let mut missed = MissedTicks::default();
        missed.add(0, &Plan::default(), || at(0));
        assert!(missed.is_empty(), "this plan leaves out nothing");
        missed.add(0, &missing(1), || at(0));
        missed.add(0, &missing(2), || at(900));
        assert!(!missed.is_due(at(999)) && missed.is_due(at(1000)));
        missed.log(at(1000), |_| "job".into());
        assert!(missed.is_empty() && !missed.is_due(at(99_000)));
        missed.add(0, &missing(3), || at(2000));
        assert!(!missed.is_due(at(10_999)) && missed.is_due(at(11_000)));
    }

    #[test]
    fn ticks_of_a_record_that_the_store_lost_are_unknown() {
        let mut missed = MissedTicks::default();
        missed.add(7, &missing(1), || at(0));
        missed.add(7, &Plan { is_restored: true, ..missing(5) }, || at(0));
        let ranges = &missed.jobs[&7];
        assert_eq!((ranges.missed.ticks, ranges.missed.last), (1, 1));
        assert_eq!((ranges.unknown.ticks, ranges.unknown.last), (1, 5));
    }
}
