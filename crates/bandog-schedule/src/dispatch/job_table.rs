//! The jobs of the dispatcher. A job is found by its number or by its name.

use std::{
    ops::{Index, IndexMut},
    sync::Arc,
};

use bandog_core::{Holding, Key, Record, Result};

use super::{
    entry::{JobEntry, JobId},
    store_event::ReadJob,
};
use crate::{news::ChangedJobs, records::job_key, state::LiveRun};

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

    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, &JobEntry)> + Clone {
        (0..).zip(&self.entries)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (JobId, &mut JobEntry)> {
        (0..).zip(&mut self.entries)
    }

    /// The jobs in the store.
    pub(super) fn shared(&self) -> impl Iterator<Item = (JobId, &JobEntry)> + Clone {
        self.iter().filter(|(_, entry)| entry.is_shared)
    }

    pub(super) fn shared_ids(&self) -> Vec<JobId> {
        self.shared().map(|(job, _)| job).collect()
    }

    /// Whether every event is written and no swap is in flight.
    pub(super) fn are_settled(&self) -> bool {
        self.entries.iter().all(JobEntry::is_settled)
    }

    /// Whether any job has events that are not written.
    pub(super) fn have_events(&self) -> bool {
        self.entries.iter().any(|entry| !entry.events.is_empty())
    }

    /// The jobs whose records other nodes should read after this node has stopped.
    pub(super) fn concerning_others(&self) -> ChangedJobs {
        let mut changed = ChangedJobs::none();
        let concerned = self.entries.iter().filter(|entry| entry.concerns_others());
        concerned.for_each(|entry| changed.add(&entry.definition.name));
        changed
    }

    /// The values that a read of the job's record needs: the job with its known version, and the key of the record.
    /// None if the job's name cannot be part of a key.
    pub(super) fn read_job(&self, job: JobId) -> Option<(ReadJob, Key)> {
        let entry = &self[job];
        Some((ReadJob { job, known: entry.version }, job_key(&entry.definition.name).ok()?))
    }

    /// Whether a record that was read is outdated. This happens if the answer to a swap arrives while the read is in
    /// flight, and the swap has written a later version of the record.
    pub(super) fn is_outdated(&self, read: ReadJob, record: &Result<Option<Record>>) -> bool {
        let known = self[read.job].version;
        let version = record.as_ref().map(|record| record.as_ref().map(|record| record.version));
        known != read.known && version.is_ok_and(|version| version < known)
    }

    /// The sessions of all runs under way, on this node and on others.
    pub(super) fn sessions_of_runs(&self) -> impl Iterator<Item = Holding> {
        self.entries.iter().flat_map(JobEntry::running).filter_map(LiveRun::holding)
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

/// The job's index in a list of all jobs.
pub(super) fn index(job: JobId) -> usize {
    usize::try_from(job).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use bandog_core::{Error, Version};

    use super::*;
    use crate::{Job, Run};

    fn table(names: &[&str]) -> JobTable {
        let entry = |name: &&str| JobEntry::new(Job::once(name).run(async |_: Run| ()).prepare(None).unwrap());
        JobTable::new(names.iter().map(entry).collect())
    }

    #[test]
    fn a_record_that_was_read_before_a_later_swap_is_outdated() {
        let mut jobs = table(&["a"]);
        let record = |version: u64| Ok(Version::new(version).map(|version| Record { version, value: String::new() }));
        let read = |known: u64| ReadJob { job: 0, known: Version::new(known) };
        jobs[0].version = Version::new(5);
        assert!(jobs.is_outdated(read(4), &record(4)) && jobs.is_outdated(read(4), &record(0)));
        assert!(!jobs.is_outdated(read(4), &record(5)) && !jobs.is_outdated(read(4), &record(6)));
        assert!(
            !jobs.is_outdated(read(5), &record(4)),
            "no swap was answered after the read was sent, so the store fell back"
        );
        assert!(!jobs.is_outdated(read(4), &Err(Error::unavailable("down"))));
    }

    #[test]
    fn only_shared_jobs_are_found_by_name() {
        let mut jobs = table(&["b", "c", "a"]);
        jobs[0].is_shared = true;
        jobs[2].is_shared = true;
        assert_eq!(["a", "b", "c", "d"].map(|name| jobs.shared_named(name)), [Some(2), Some(0), None, None]);
        assert_eq!(jobs.shared_ids(), [0, 2]);
    }
}
