//! Fixed rates whose runs take longer than their period: the log is told while more and more ticks wait.

use std::{collections::BTreeMap, time::Duration};

use bandog_core::Moment;

use super::{Dispatch, JobId, at};
use crate::{Overlap, trigger::Trigger};

/// Minimum interval between two warnings about one job, and the time over which its backlog must have grown.
const REST: Duration = Duration::from_secs(60);
/// A backlog of fewer ticks is none: one tick waits whenever a run takes a little longer than usual.
const FEW: usize = 2;

/// Jobs with ticks that wait.
#[derive(Debug, Default)]
pub(super) struct Backlogs(BTreeMap<JobId, Backlog>);

#[derive(Debug)]
struct Backlog {
    since: Moment,
    waiting: usize,
}

impl Dispatch {
    /// Warns when the ticks that wait for runs of this node have become more for a minute.
    pub(super) fn note_backlog(&mut self, job: JobId) {
        let entry = &self.entries[at(job)];
        let (Trigger::FixedRate(period), Overlap::Queue(most)) = (&entry.task.trigger, entry.task.policy.overlap)
        else {
            return;
        };
        let waiting = entry.state.as_ref().map_or(0, |state| state.queue.len());
        if waiting < FEW {
            self.backlogs.0.remove(&job);
            return;
        }
        let now = self.time.moment();
        let known = self.backlogs.0.entry(job).or_insert(Backlog { since: now, waiting });
        if now.since(known.since) < REST {
            return;
        }
        let Backlog { since, waiting: before } = std::mem::replace(known, Backlog { since: now, waiting });
        let is_here = self.runs.range((job, 0)..=(job, u64::MAX)).next().is_some();
        if waiting > before && is_here {
            let period = humantime::format_duration(Duration::from_millis(period.unsigned_abs()));
            let ago = humantime::format_duration(Duration::from_secs(now.since(since).as_secs()));
            tracing::warn!(
                job = %entry.task.name,
                waiting,
                before,
                "its runs take longer than its period of {period}: {waiting} ticks wait, {before} waited {ago} ago; \
                 when {most} wait, further ticks are skipped. A longer period or overlap = \"allow(2)\" lets it keep up, \
                 overlap = \"skip\" leaves ticks out"
            );
        }
    }
}
