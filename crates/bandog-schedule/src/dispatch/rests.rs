//! Logs the jobs that rest. A job rests if its watermark (the newest tick that was ever claimed) lies in the future: the
//! clock was ahead when the tick was claimed, or was set back later.

use std::collections::BTreeMap;

use bandog_cron::Time;

use super::entry::{JobEntry, JobId};
use crate::{
    plan::rests_until,
    trigger::{DurationMs, UnixMs},
};

/// A rest is logged only if it ends later than this time from now. So small steps of the clock are not logged.
const MIN_LOGGED_MS: DurationMs = 60_000;
/// Maximum number of jobs that one check logs by name. Further jobs are only counted.
const MAX_LOGGED_JOBS: usize = 100;

/// The rests that are logged already: for each job, the end of its rest.
#[derive(Debug, Default)]
pub(super) struct Rests(BTreeMap<JobId, UnixMs>);

impl Rests {
    /// Logs an error for each of these jobs that rests. A rest is logged once.
    pub(super) fn check<'a>(&mut self, jobs: impl Iterator<Item = (JobId, &'a JobEntry)>, now: UnixMs) {
        let begun: Vec<(&JobEntry, UnixMs)> =
            jobs.filter_map(|(job, entry)| Some((entry, self.begins(job, entry, now)?))).collect();
        for (entry, until) in begun.iter().take(MAX_LOGGED_JOBS) {
            let (job, until) = (&entry.definition.name, Time::from_millisecond(*until));
            if entry.is_shared {
                tracing::error!(
                    %job,
                    %until,
                    "the store's clock was ahead when a tick was claimed, or was set back: the job does not fire until \
                     this future tick; `bandog jobs reset` ends this"
                );
            } else {
                tracing::error!(
                    %job,
                    %until,
                    "this machine's clock was set back: the job does not fire until this future tick; a restart of \
                     the process ends this"
                );
            }
        }
        if let Some(jobs) = begun.len().checked_sub(MAX_LOGGED_JOBS).filter(|more| *more > 0) {
            tracing::error!(jobs, "further jobs do not fire, for the same reason: `bandog jobs ls` shows them");
        }
    }

    /// The end of the job's rest, if the rest is not logged yet.
    fn begins(&mut self, job: JobId, entry: &JobEntry, now: UnixMs) -> Option<UnixMs> {
        let until = rests_until(entry.state.as_deref()?, now.saturating_add(MIN_LOGGED_MS))?;
        let known = self.0.insert(job, until);
        Some(until).filter(|_| known.is_none_or(|known| known <= now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, Run, state::JobState};

    #[test]
    fn each_rest_is_found_once() {
        let mut entry = JobEntry::new(Job::once("job").run(async |_: Run| ()).prepare(None).unwrap());
        entry.state = Some(Box::new(JobState::new(&entry.definition.policy, 1_000_000, None)));
        let mut rests = Rests::default();
        assert_eq!(rests.begins(0, &entry, 1_000_000), None);
        assert_eq!(rests.begins(0, &entry, 950_000), None, "a small step");
        assert_eq!(rests.begins(0, &entry, 500_000), Some(999_999));
        assert_eq!(rests.begins(0, &entry, 400_000), None, "it is logged");
        assert_eq!(rests.begins(0, &entry, 1_000_001), None, "the rest is over");
        entry.state.iter_mut().for_each(|state| state.watermark = 2_000_000);
        assert_eq!(rests.begins(0, &entry, 1_100_000), Some(2_000_000), "another rest");
    }
}
