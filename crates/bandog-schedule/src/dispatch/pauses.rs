//! What is paused beside single jobs: all of them, or this node.

use bandog_core::{Record, Result};

use super::{Dispatch, JobId, Turn, entry::Entry};
use crate::{
    Paused,
    pauses::{Known, Standing},
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
                self.plan_shared_if(|_| true);
            }
            Some(_) | None => {}
        }
        self.pauses = pauses;
    }

    /// Whether a word to all jobs is still to be taken in by this one.
    pub(super) fn lags(&self, entry: &Entry) -> bool {
        let lags = |state: &crate::state::JobState| state.lags(&self.pauses.standing.all);
        entry.is_shared && entry.state.as_deref().is_some_and(lags)
    }

    /// Whoever said a word to all jobs may have broken off before each of them had it in its record.
    pub(super) fn spread_pauses(&mut self) {
        let all = self.pauses.standing.all.clone();
        self.plan_shared_if(|entry| entry.state.as_ref().is_some_and(|state| state.lags(&all)));
    }

    fn plan_shared_if(&mut self, is_meant: impl Fn(&Entry) -> bool) {
        let shared = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_shared && is_meant(entry));
        self.ready.extend(shared.map(|(job, _)| -> (JobId, Turn) { (job, Turn::Usual) }));
    }
}
