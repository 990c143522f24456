//! Ticks that nobody runs: they are counted, and the log is told of them, gathered, so that they do not flood it.

use std::{collections::BTreeMap, time::Duration};

use bandog_core::Moment;
use bandog_cron::Time;

use super::{Dispatch, JobId, LOOK, at};
use crate::{meters, misfire::Range, plan::Plan};

/// So long after one telling comes the next one.
const REST: Duration = Duration::from_secs(10);
/// So many jobs are told of one by one in one telling.
const TOLD: usize = 100;

/// Ticks that the log has not been told of.
#[derive(Default)]
pub(super) struct Left {
    jobs: BTreeMap<JobId, Ranges>,
    /// When it is told of them; none while there are none.
    due: Option<Moment>,
    /// When it was told last.
    told: Option<Moment>,
}

#[derive(Default)]
struct Ranges {
    missed: Range,
    lost: Range,
    unknown: Range,
    died: Range,
}

impl Left {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_none()
    }
}

impl Dispatch {
    /// Takes note of ticks that will not run, once that is written.
    pub(super) fn leave_out(&mut self, job: JobId, plan: &Plan) {
        meters::left_out(&self.entries[at(job)].task.name, plan);
        if plan.missed.ticks == 0 && plan.lost.ticks == 0 && plan.died.ticks == 0 {
            return;
        }
        if self.left.is_empty() {
            let soon = self.time.moment() + LOOK;
            self.left.due = Some(self.left.told.map_or(soon, |told| soon.max(told + REST)));
        }
        let ranges = self.left.jobs.entry(job).or_default();
        ranges.died.join(plan.died);
        if plan.is_recalled {
            ranges.unknown.join(plan.missed);
            ranges.unknown.join(plan.lost);
        } else {
            ranges.missed.join(plan.missed);
            ranges.lost.join(plan.lost);
        }
    }

    /// Tells the log when it is time.
    pub(super) fn tell_of_left(&mut self) {
        if self.left.due.is_some_and(|due| self.time.moment() >= due) {
            self.tell_of_all_left();
        }
    }

    pub(super) fn tell_of_all_left(&mut self) {
        (self.left.due, self.left.told) = (None, Some(self.time.moment()));
        let mut jobs = std::mem::take(&mut self.left.jobs).into_iter();
        for (job, Ranges { missed, lost, unknown, died }) in jobs.by_ref().take(TOLD) {
            let job = &self.entries[at(job)].task.name;
            if let Some((ticks, first, last)) = told(missed) {
                tracing::warn!(%job, ticks, %first, %last, "ticks were missed: nobody ran them in time");
            }
            if let Some((ticks, first, last)) = told(lost) {
                tracing::warn!(%job, ticks, %first, %last, "ticks were lost: the node that ran them died or lost its session");
            }
            if let Some((ticks, first, last)) = told(died) {
                tracing::warn!(%job, ticks, %first, %last, "the node that ran the job died or lost its session: the run is tried again");
            }
            if let Some((ticks, first, last)) = told(unknown) {
                tracing::warn!(%job, ticks, %first, %last, "whether ticks ran is not known: the store lost the job's record");
            }
        }
        let (jobs, ticks) = jobs.fold((0_u64, 0), |(jobs, ticks), (_, more)| {
            (jobs + 1, ticks + more.missed.ticks + more.lost.ticks + more.unknown.ticks + more.died.ticks)
        });
        if jobs > 0 {
            tracing::warn!(jobs, ticks, "ticks of more jobs were missed or lost: the jobs' histories have them");
        }
    }
}

fn told(range: Range) -> Option<(u64, Time, Time)> {
    Some((range.ticks, Time::from_millisecond(range.first?), Time::from_millisecond(range.last)))
}
