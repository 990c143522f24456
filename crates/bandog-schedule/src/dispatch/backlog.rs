//! Warns about fixed rates whose runs take longer than their period while the number of queued ticks grows.

use std::{collections::BTreeMap, time::Duration};

use bandog_core::Moment;

use super::{Dispatcher, JobId, at};
use crate::{Overlap, trigger::Trigger};

/// Minimum interval between two warnings about one job, and the time over which its backlog must have grown.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Minimum number of queued ticks of a backlog. A single tick waits whenever a run takes slightly longer.
const MIN_BACKLOG: usize = 2;

/// Jobs with queued ticks.
#[derive(Debug, Default)]
pub(super) struct Backlogs(BTreeMap<JobId, Backlog>);

#[derive(Debug)]
struct Backlog {
    since: Moment,
    waiting: usize,
}

impl Dispatcher {
    /// Warns if the number of queued ticks has grown for a minute and this node runs the job.
    pub(super) fn note_backlog(&mut self, job: JobId) {
        let entry = &self.entries[at(job)];
        let (Trigger::FixedRate(period), Overlap::Queue(most)) =
            (&entry.definition.trigger, entry.definition.policy.overlap)
        else {
            return;
        };
        let waiting = entry.state.as_ref().map_or(0, |state| state.queue.len());
        if waiting < MIN_BACKLOG {
            self.backlogs.0.remove(&job);
            return;
        }
        let now = self.time.moment();
        let known = self.backlogs.0.entry(job).or_insert(Backlog { since: now, waiting });
        if now.since(known.since) < LOG_INTERVAL {
            return;
        }
        let Backlog { since, waiting: before } = std::mem::replace(known, Backlog { since: now, waiting });
        let is_here = self.runs.range((job, 0)..=(job, u64::MAX)).next().is_some();
        if waiting > before && is_here {
            let period = humantime::format_duration(Duration::from_millis(period.unsigned_abs()));
            let ago = humantime::format_duration(Duration::from_secs(now.since(since).as_secs()));
            tracing::warn!(
                job = %entry.definition.name,
                waiting,
                before,
                "the job's runs take longer than its period of {period}: {waiting} ticks wait, {before} waited {ago} \
                 ago; when {most} wait, further ticks are skipped. With a longer period or overlap = \"allow(2)\" the \
                 job keeps up, with overlap = \"skip\" it skips ticks"
            );
        }
    }
}
