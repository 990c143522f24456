//! Ticks that do not run: counts them, and logs them together, so that they do not flood the log.

use std::{collections::BTreeMap, time::Duration};

use bandog_core::Moment;
use bandog_cron::Time;

use super::{Dispatcher, JobId, POLL_INTERVAL, at};
use crate::{meters, misfire::TickRange, plan::Plan};

/// Minimum interval between two reports.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of jobs that a report names one by one.
const MAX_LOGGED_JOBS: usize = 100;

/// Ticks that are not logged yet.
#[derive(Default)]
pub(super) struct MissedTicks {
    jobs: BTreeMap<JobId, TickRanges>,
    /// Time of the next report; none while there is nothing to report.
    due: Option<Moment>,
    /// Time of the last report.
    logged_at: Option<Moment>,
}

#[derive(Default)]
struct TickRanges {
    missed: TickRange,
    lost: TickRange,
    unknown: TickRange,
    died: TickRange,
}

impl MissedTicks {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_none()
    }
}

impl Dispatcher {
    /// Records the ticks that a written plan leaves out.
    pub(super) fn note_missed(&mut self, job: JobId, plan: &Plan) {
        meters::left_out(&self.entries[at(job)].definition.name, plan);
        if plan.missed.ticks == 0 && plan.lost.ticks == 0 && plan.died.ticks == 0 {
            return;
        }
        if self.missed.is_empty() {
            let soon = self.time.moment() + POLL_INTERVAL;
            self.missed.due = Some(self.missed.logged_at.map_or(soon, |logged_at| soon.max(logged_at + LOG_INTERVAL)));
        }
        let ranges = self.missed.jobs.entry(job).or_default();
        ranges.died.join(plan.died);
        if plan.is_restored {
            ranges.unknown.join(plan.missed);
            ranges.unknown.join(plan.lost);
        } else {
            ranges.missed.join(plan.missed);
            ranges.lost.join(plan.lost);
        }
    }

    /// Writes the report if it is due.
    pub(super) fn log_missed_when_due(&mut self) {
        if self.missed.due.is_some_and(|due| self.time.moment() >= due) {
            self.log_missed();
        }
    }

    pub(super) fn log_missed(&mut self) {
        (self.missed.due, self.missed.logged_at) = (None, Some(self.time.moment()));
        let mut jobs = std::mem::take(&mut self.missed.jobs).into_iter();
        for (job, TickRanges { missed, lost, unknown, died }) in jobs.by_ref().take(MAX_LOGGED_JOBS) {
            let job = &self.entries[at(job)].definition.name;
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

fn first_and_last(range: TickRange) -> Option<(u64, Time, Time)> {
    Some((range.ticks, Time::from_millisecond(range.first?), Time::from_millisecond(range.last)))
}
