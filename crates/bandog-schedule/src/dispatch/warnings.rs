//! Warnings about a job's record that was read.

use bandog_cron::Time;

use super::entry::JobEntry;
use crate::{
    job::JobDefinition,
    plan::rests_until,
    state::{JobSpec, JobState},
    trigger::{DurationMs, UnixMs},
};

/// Minimum distance of a future watermark that is logged. Small steps of the store's clock stay below it.
const MAX_AHEAD_MS: DurationMs = 60_000;

/// Logs that the watermark (the newest tick that was ever claimed) lies in the future, because the store's clock was set
/// back.
pub(crate) fn warn_about_future_watermark(job: &str, state: &JobState, now: UnixMs) {
    if let Some(until) = rests_until(state, now.saturating_add(MAX_AHEAD_MS)) {
        let until = Time::from_millisecond(until);
        tracing::error!(job, %until, "a future tick was claimed, so the store's clock was set back: the job rests until then; `bandog jobs reset` lets it go on");
    }
}

/// Logs, once for each change, that another replica has registered a different job under the same name, with the same
/// or a greater revision.
pub(super) fn warn_about_dispute(entry: &JobEntry, read: &JobState) {
    let JobDefinition { name, trigger, policy, .. } = &entry.definition;
    let known = entry.state.as_ref().and_then(|known| known.spec.as_ref());
    let Some(theirs) = read.spec.as_ref().filter(|spec| spec.revision >= policy.revision && Some(*spec) != known)
    else {
        return;
    };
    if theirs.revision > policy.revision {
        let (ours, theirs) = (policy.revision, theirs.revision);
        tracing::warn!(job = %name, ours, theirs, "the store knows a newer revision of the job: this node claims no tick of it");
        return;
    }
    let ours = JobSpec::new(trigger, policy);
    if ours != **theirs {
        tracing::warn!(
            job = %name,
            changed = ours.change_to(theirs),
            "another replica has changed the job at the same revision: this node also claims its ticks, with its own \
             settings; a \
             greater `Job::revision` prevents that"
        );
    }
}
