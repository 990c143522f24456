//! What is paused beside single jobs: all of them, or this node.

use bandog_core::{Record, Result};

use super::{Dispatch, JobId, Turn, entry::Entry};
use crate::{
    Paused,
    pauses::{Known, Standing},
    state::JobState,
};

impl Dispatch {
    /// With the pauses that stand when it starts.
    pub(crate) fn under(mut self, pauses: Known) -> Self {
        self.stand(pauses);
        self
    }

    /// Takes in the record of pauses. What cannot be read changes nothing.
    pub(super) fn learn_pauses(&mut self, record: Option<Result<Option<Record>>>) {
        let Some(Ok(record)) = record else { return };
        let version = record.as_ref().map(|record| record.version);
        if version < self.pauses.version {
            // The store lost what it was told: nobody ever deletes this record.
            self.desk.iter().for_each(|desk| desk.write_pauses(version, &self.pauses.standing));
        } else if version > self.pauses.version {
            match Standing::of(record.as_ref()) {
                Ok(standing) => self.stand(Known { version, standing }),
                Err(error) => {
                    tracing::error!(%error, "pauses of all jobs and of nodes that are said now are not heard here");
                    self.pauses.version = version;
                }
            }
        }
    }

    /// A word to all jobs stands in their records too, so each takes it in when it is planned next.
    fn stand(&mut self, pauses: Known) {
        let paused = pauses.standing.of_node(&self.node);
        let was_held = std::mem::replace(&mut self.is_held, paused.is_some());
        match paused {
            Some(Paused { by, reason, .. }) if !was_held => {
                tracing::warn!(node = %self.node, by, reason, "this node is paused: it claims nothing until it is resumed");
            }
            None if was_held => {
                tracing::warn!(node = %self.node, "this node is resumed");
                let shared = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_shared);
                self.ready.extend(shared.map(|(job, _)| -> (JobId, Turn) { (job, Turn::Usual) }));
            }
            Some(_) | None => {}
        }
        self.pauses = pauses;
    }

    /// Whether the job's record should say something that no tick brings about: a word to all jobs by somebody who broke
    /// off before each of them had it, or that a node has this job.
    pub(super) fn is_behind(&self, entry: &Entry) -> bool {
        let now = self.time.now();
        let is_behind = |state: &JobState| state.lags(&self.pauses.standing.all) || state.is_to_be_seen(now);
        entry.is_shared && entry.state.as_deref().is_some_and(is_behind)
    }

    /// Plans the jobs whose records are behind.
    pub(super) fn plan_rare(&mut self) {
        let behind = (0..).zip(&self.entries).filter(|(_, entry)| self.is_behind(entry));
        let behind: Vec<JobId> = behind.map(|(job, _)| job).collect();
        self.ready.extend(behind.into_iter().map(|job| (job, Turn::Usual)));
    }
}
