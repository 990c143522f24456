//! Pauses of all jobs and of this node.

use bandog_core::{Record, Result};

use super::{Dispatcher, JobId, SlotPriority, entry::JobEntry};
use crate::{
    Paused,
    pauses::{KnownPauses, StoredPauses},
    state::JobState,
};

impl Dispatcher {
    /// Sets the pauses at the start.
    pub(crate) fn with_pauses(mut self, pauses: KnownPauses) -> Self {
        self.set_pauses(pauses);
        self
    }

    /// Takes the record of pauses. A record that cannot be read changes nothing.
    pub(super) fn pauses_read(&mut self, record: Option<Result<Option<Record>>>) {
        let Some(Ok(record)) = record else { return };
        let version = record.as_ref().map(|record| record.version);
        if version < self.pauses.version {
            // The store has lost a newer version: no operation deletes this record.
            self.store.iter().for_each(|store| store.write_pauses(version, &self.pauses.stored));
        } else if version > self.pauses.version {
            match StoredPauses::of(record.as_ref()) {
                Ok(stored) => self.set_pauses(KnownPauses { version, stored }),
                Err(error) => {
                    tracing::error!(%error, "the record of pauses cannot be read: this node does not see new pauses of all jobs and of nodes");
                    self.pauses.version = version;
                }
            }
        }
    }

    /// A pause of all jobs is in their records too; each job applies it with its next plan.
    fn set_pauses(&mut self, pauses: KnownPauses) {
        let paused = pauses.stored.of_node(&self.node);
        let was_held = std::mem::replace(&mut self.is_node_paused, paused.is_some());
        match paused {
            Some(Paused { by, reason, .. }) if !was_held => {
                tracing::warn!(node = %self.node, by, reason, "this node is paused: it claims nothing until it is resumed");
            }
            None if was_held => {
                tracing::warn!(node = %self.node, "this node is resumed");
                let shared = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_shared);
                self.ready.extend(shared.map(|(job, _)| -> (JobId, SlotPriority) { (job, SlotPriority::Normal) }));
            }
            Some(_) | None => {}
        }
        self.pauses = pauses;
    }

    /// Whether the record needs a write that no tick causes: a heartbeat, or a change of the pause of all jobs whose
    /// caller stopped before it reached each job.
    pub(super) fn needs_write(&self, entry: &JobEntry) -> bool {
        let now = self.time.now();
        let needs_write =
            |state: &JobState| state.has_not_applied(&self.pauses.stored.all) || state.needs_heartbeat(now);
        entry.is_shared && entry.state.as_deref().is_some_and(needs_write)
    }

    /// Plans the jobs whose records need a write.
    pub(super) fn plan_jobs_that_need_a_write(&mut self) {
        let behind = (0..).zip(&self.entries).filter(|(_, entry)| self.needs_write(entry));
        let behind: Vec<JobId> = behind.map(|(job, _)| job).collect();
        self.ready.extend(behind.into_iter().map(|job| (job, SlotPriority::Normal)));
    }
}
