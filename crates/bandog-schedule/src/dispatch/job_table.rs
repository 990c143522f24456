//! The jobs of the dispatcher, by number and by name.

use std::{
    ops::{Index, IndexMut},
    sync::Arc,
};

use super::entry::{JobEntry, JobId};

pub(super) struct JobTable {
    entries: Vec<JobEntry>,
    /// All jobs, sorted by name.
    by_name: Vec<JobId>,
}

impl JobTable {
    pub(super) fn new(entries: Vec<JobEntry>) -> Self {
        let name = |job: JobId| &entries[index(job)].definition.name;
        let mut by_name: Vec<JobId> = (0..).zip(&entries).map(|(job, _)| job).collect();
        by_name.sort_unstable_by(|one, other| name(*one).cmp(name(*other)));
        Self { entries, by_name }
    }

    pub(super) fn name(&self, job: JobId) -> &Arc<str> {
        &self[job].definition.name
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, &JobEntry)> {
        (0..).zip(&self.entries)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (JobId, &mut JobEntry)> {
        (0..).zip(&mut self.entries)
    }

    /// The jobs in the store.
    pub(super) fn shared(&self) -> impl Iterator<Item = (JobId, &JobEntry)> {
        self.iter().filter(|(_, entry)| entry.is_shared)
    }

    /// The shared job of this name.
    pub(super) fn shared_named(&self, name: &str) -> Option<JobId> {
        let found = self.by_name.binary_search_by(|job| (**self.name(*job)).cmp(name));
        let job = *self.by_name.get(found.ok()?)?;
        self[job].is_shared.then_some(job)
    }
}

impl Index<JobId> for JobTable {
    type Output = JobEntry;

    fn index(&self, job: JobId) -> &JobEntry {
        &self.entries[index(job)]
    }
}

impl IndexMut<JobId> for JobTable {
    fn index_mut(&mut self, job: JobId) -> &mut JobEntry {
        &mut self.entries[index(job)]
    }
}

pub(super) fn index(job: JobId) -> usize {
    usize::try_from(job).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, Run};

    #[test]
    fn only_shared_jobs_are_found_by_name() {
        let entry = |name: &str| JobEntry::new(Job::once(name).run(async |_: Run| ()).prepare(None).unwrap());
        let mut jobs = JobTable::new(["b", "c", "a"].map(entry).into());
        jobs[0].is_shared = true;
        jobs[2].is_shared = true;
        assert_eq!(["a", "b", "c", "d"].map(|name| jobs.shared_named(name)), [Some(2), Some(0), None, None]);
        assert_eq!(jobs.shared().map(|(job, _)| job).collect::<Vec<_>>(), [0, 2]);
    }
}
