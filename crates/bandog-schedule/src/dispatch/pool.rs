//! The slots of the pool, and the jobs that wait for one.

use std::{collections::HashSet, time::Duration};

use bandog_core::Moment;

use super::{Dispatcher, JobId, SlotPriority, at};

/// Minimum wait for a slot that is logged.
const MIN_LOGGED_WAIT: Duration = Duration::from_secs(1);

/// A job that waits for a slot.
pub(super) struct WaitingJob {
    pub(super) job: JobId,
    pub(super) since: Moment,
    /// The log has a warning about this wait.
    is_logged: bool,
}

impl Dispatcher {
    /// Gives the free slots to the jobs that have waited longest.
    pub(super) fn serve_slot_queue(&mut self) {
        let mut free = self.free_slots();
        while free > 0 {
            let Some(WaitingJob { job, .. }) = self.slot_queue.pop_front() else { return };
            self.entries[at(job)].is_in_slot_queue = false;
            self.ready.push_back((job, SlotPriority::NextInQueue));
            free -= 1;
        }
    }

    pub(super) fn free_slots(&self) -> usize {
        if self.stopping.is_some() { 0 } else { self.pool.saturating_sub(self.runs.len() + self.reserved) }
    }

    pub(super) fn join_slot_queue(&mut self, job: JobId) {
        let now = self.time.moment();
        let entry = &mut self.entries[at(job)];
        if !entry.is_in_slot_queue {
            entry.is_in_slot_queue = true;
            self.slot_queue.push_back(WaitingJob { job, since: now, is_logged: false });
        }
    }

    pub(super) fn log_long_waits(&mut self, now: Moment) {
        let blockers = || {
            let names: HashSet<&str> =
                self.runs.values().map(|run| &*self.entries[at(run.job)].definition.name).take(3).collect();
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        let is_long = |waiting: &&WaitingJob| !waiting.is_logged && now.since(waiting.since) >= MIN_LOGGED_WAIT;
        let logged: Vec<JobId> = self.slot_queue.iter().filter(is_long).map(|waiting| waiting.job).collect();
        for job in &logged {
            let (name, size) = (&self.entries[at(*job)].definition.name, self.pool);
            tracing::warn!(job = %name, "the job waits for a slot: the pool of {size} runs {}; a larger pool runs both", blockers());
        }
        let waiting = self.slot_queue.iter_mut().filter(|waiting| logged.contains(&waiting.job));
        waiting.for_each(|waiting| waiting.is_logged = true);
    }
}
