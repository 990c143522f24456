//! The pool's places, and the jobs that wait for one.

use std::{collections::HashSet, time::Duration};

use bandog_core::Moment;

use super::{Dispatch, JobId, Turn, at};

/// A job that waits so long for a place is told of.
const LONG_WAIT: Duration = Duration::from_secs(1);

impl Dispatch {
    /// Those who wait longest get the free places.
    pub(super) fn serve_line(&mut self) {
        let mut free = self.free();
        while free > 0 {
            let Some((job, ..)) = self.line.pop_front() else { return };
            self.entries[at(job)].is_in_line = false;
            self.ready.push_back((job, Turn::Served));
            free -= 1;
        }
    }

    pub(super) fn free(&self) -> usize {
        if self.stopping.is_some() { 0 } else { self.pool.saturating_sub(self.runs.len() + self.reserved) }
    }

    pub(super) fn stand_in_line(&mut self, job: JobId) {
        let now = self.time.moment();
        let entry = &mut self.entries[at(job)];
        if !entry.is_in_line {
            entry.is_in_line = true;
            self.line.push_back((job, now, false));
        }
    }

    pub(super) fn tell_of_long_waits(&mut self, now: Moment) {
        let blockers = || {
            let names: HashSet<&str> =
                self.runs.values().map(|hand| &*self.entries[at(hand.job)].task.name).take(3).collect();
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        let told: Vec<JobId> = (self.line.iter())
            .filter(|(_, since, is_told)| !is_told && now.since(*since) >= LONG_WAIT)
            .map(|(job, ..)| *job)
            .collect();
        for job in &told {
            let (name, size) = (&self.entries[at(*job)].task.name, self.pool);
            tracing::warn!(job = %name, "it waits for a place in the pool of {size}, which is taken by {}; a larger pool runs both", blockers());
        }
        self.line.iter_mut().filter(|(job, ..)| told.contains(job)).for_each(|(_, _, is_told)| *is_told = true);
    }
}
