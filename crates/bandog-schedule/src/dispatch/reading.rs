//! Parses a job's record, and warns about contents that an operator has to correct.

use bandog_core::{Error, Record};

use super::entry::JobEntry;
use crate::{
    job::JobDefinition,
    records::job_key,
    recovery::RecordRead,
    state::{JobSpec, JobState},
};

/// Parses a record, and warns about contents that an operator has to correct.
pub(super) fn read_record(entry: &mut JobEntry, record: Record) -> RecordRead {
    if entry.pending.is_some() {
        return RecordRead::Unusable;
    }
    if Some(record.version) == entry.version {
        return RecordRead::Unchanged;
    }
    let name = &entry.definition.name;
    match job_key(name).and_then(|key| JobState::read(&record.value, &key)) {
        Ok(state) => {
            warn_about_dispute(entry, &state);
            entry.is_fault_logged = false;
            RecordRead::Found(record.version, Box::new(state))
        }
        Err(error) => {
            log_unreadable(entry, &error);
            RecordRead::Unusable
        }
    }
}

/// Logs that the record cannot be read, for example because a newer version of bandog has written it. This is logged
/// only once. It is logged again only if this node could read the record in the meantime.
pub(super) fn log_unreadable(entry: &mut JobEntry, error: &Error) {
    if entry.pending.is_none() && !std::mem::replace(&mut entry.is_fault_logged, true) {
        tracing::error!(job = %entry.definition.name, %error, "the job's record cannot be read: this node does not run the job until it can");
    }
}

/// Logs that another replica has registered a different job under the same name, if the revision of that job is the
/// same or greater. Each change is logged once.
fn warn_about_dispute(entry: &JobEntry, read: &JobState) {
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
             settings; a greater `revision` of the job prevents that"
        );
    }
}
