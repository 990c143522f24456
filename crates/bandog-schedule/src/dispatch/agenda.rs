//! The agenda: when each job is planned next, and which jobs are planned in this round.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use super::{entry::JobId, job_table::index, pool::SlotPriority};
use crate::trigger::{DurationMs, UnixMs};

/// Time of a job that is not scheduled.
const NEVER: UnixMs = UnixMs::MAX;

pub(super) struct Agenda {
    /// Time of each job's next planning, or [`NEVER`].
    times: Vec<UnixMs>,
    /// The jobs, sorted by time. An item is outdated, and is ignored, if the job has a different time in `times` now.
    due: BinaryHeap<Reverse<(UnixMs, JobId)>>,
    /// Jobs to plan in this round.
    ready: VecDeque<(JobId, SlotPriority)>,
    /// Start of the dispatcher.
    started: UnixMs,
    /// The time `started` plus all steps of the wall clock since then. It is used for jobs that have a period.
    counted: UnixMs,
}

impl Agenda {
    /// Creates an agenda. `first`: the time of each job's first planning.
    pub(super) fn new(started: UnixMs, first: impl Iterator<Item = Option<UnixMs>>) -> Self {
        let times: Vec<UnixMs> = first.map(|time| time.unwrap_or(NEVER)).collect();
        let due = scheduled(&times);
        Self { times, due, ready: VecDeque::new(), started, counted: started }
    }

    /// If a job has no record, all of its ticks before this time are ignored. `is_counted`: whether the job has a
    /// period. Periods are measured on the monotonic clock, so their start time moves with each step of the wall clock.
    pub(super) fn since(&self, is_counted: bool) -> UnixMs {
        if is_counted { self.counted } else { self.started }
    }

    /// Plans the job at this time. This replaces the time that was set before.
    pub(super) fn schedule(&mut self, job: JobId, time: UnixMs) {
        let known = &mut self.times[index(job)];
        if *known != time {
            *known = time;
            self.due.push(Reverse((time, job)));
        }
    }

    /// Makes the jobs that are due ready. Ready jobs are planned in this round.
    pub(super) fn wake(&mut self, now: UnixMs) {
        while let Some(Reverse((due, job))) = self.due.peek().copied() {
            if due > now {
                break;
            }
            self.due.pop();
            let time = &mut self.times[index(job)];
            if *time == due {
                *time = NEVER;
                self.ready.push_back((job, SlotPriority::Normal));
            }
        }
    }

    /// Time at which [`Agenda::wake`] has to be called next. If this is the time of an outdated item, the call makes no
    /// job ready.
    pub(super) fn next_time(&self) -> Option<UnixMs> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// Moves the times of some jobs by this duration, because the wall clock was set. `is_moved`: selects the jobs.
    pub(super) fn move_by(&mut self, by: DurationMs, is_moved: impl Fn(JobId) -> bool) {
        self.counted = self.counted.saturating_add(by);
        for (job, time) in (0..).zip(&mut self.times) {
            if *time != NEVER && is_moved(job) {
                *time = time.saturating_add(by);
            }
        }
        self.due = scheduled(&self.times);
    }

    /// Plans the job in this round.
    pub(super) fn make_ready(&mut self, job: JobId, priority: SlotPriority) {
        self.ready.push_back((job, priority));
    }

    pub(super) fn next_ready(&mut self) -> Option<(JobId, SlotPriority)> {
        self.ready.pop_front()
    }

    /// Number of jobs to plan in this round.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }
}

/// The heap of all jobs that are scheduled.
fn scheduled(times: &[UnixMs]) -> BinaryHeap<Reverse<(UnixMs, JobId)>> {
    let scheduled = (0..).zip(times).filter(|(_, time)| **time != NEVER);
    scheduled.map(|(job, time)| Reverse((*time, job))).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(agenda: &mut Agenda) -> Vec<JobId> {
        std::iter::from_fn(|| agenda.next_ready()).map(|(job, _)| job).collect()
    }

    #[test]
    fn jobs_wake_in_the_order_of_their_times() {
        let mut agenda = Agenda::new(0, [Some(30), None, Some(10), Some(20)].into_iter());
        agenda.wake(9);
        assert_eq!((ready(&mut agenda), agenda.next_time()), (vec![], Some(10)));
        agenda.wake(20);
        assert_eq!((ready(&mut agenda), agenda.next_time()), (vec![2, 3], Some(30)));
        agenda.wake(1000);
        assert_eq!((ready(&mut agenda), agenda.next_time()), (vec![0], None), "job 1 has no time");
    }

    #[test]
    fn a_job_that_is_scheduled_again_wakes_once_at_its_last_time() {
        let mut agenda = Agenda::new(0, [Some(10)].into_iter());
        agenda.schedule(0, 40);
        agenda.schedule(0, 20);
        agenda.schedule(0, 30);
        agenda.wake(29);
        assert_eq!(ready(&mut agenda), [0; 0]);
        agenda.wake(100);
        assert_eq!(ready(&mut agenda), [0]);
        agenda.wake(100);
        assert_eq!(ready(&mut agenda), [0; 0]);
    }

    #[test]
    fn a_step_of_the_clock_moves_the_jobs_with_a_period_only() {
        let mut agenda = Agenda::new(5, [Some(10), Some(10), None].into_iter());
        agenda.move_by(1000, |job| job != 1);
        assert_eq!((agenda.since(true), agenda.since(false)), (1005, 5));
        agenda.wake(1009);
        assert_eq!(ready(&mut agenda), [1]);
        agenda.wake(UnixMs::MAX - 1);
        assert_eq!(ready(&mut agenda), [0], "job 2 has still no time");
        agenda.schedule(0, 50);
        agenda.move_by(-20, |_| true);
        assert_eq!((agenda.next_time(), agenda.since(true)), (Some(30), 985));
    }
}
