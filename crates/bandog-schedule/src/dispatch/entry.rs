//! A job in the dispatcher.

use std::sync::Arc;

use bandog_core::Version;

use crate::{
    job::JobDefinition,
    plan::{Event, Plan},
    policy::Policy,
    state::JobState,
    trigger::UnixMs,
};

/// A job, its last known state, and its events and swap in flight. Some services have a million jobs, so rarely used
/// parts are boxed.
pub(crate) struct JobEntry {
    pub(crate) definition: JobDefinition,
    /// None while a job of this process has its initial state.
    pub(crate) state: Option<Box<JobState>>,
    /// The record's version. None for a job of this process only, and while there is no record.
    pub(crate) version: Option<Version>,
    /// Events that are not written yet.
    pub(crate) events: Vec<Event>,
    /// The swap in flight.
    pub(crate) pending: Option<Box<PendingSwap>>,
    /// Time of the next planning. Entries of the agenda with another time are outdated.
    pub(crate) wakes_at: UnixMs,
    pub(crate) is_shared: bool,
    /// The job waits for a slot.
    pub(crate) is_in_slot_queue: bool,
    /// The job was ready while a swap was in flight.
    pub(crate) is_ready: bool,
    /// The log has an error about this job: the store refuses its swaps, or its record cannot be read.
    pub(crate) is_fault_logged: bool,
}

/// A swap in flight.
pub(crate) struct PendingSwap {
    pub(crate) next: JobState,
    pub(crate) plan: Plan,
    /// Number of events that the swap contains.
    pub(crate) events: usize,
}

impl JobEntry {
    pub(crate) fn new(definition: JobDefinition, is_shared: bool) -> Self {
        let (state, version, pending) = (None, None, None);
        let (wakes_at, events) = (UnixMs::MAX, Vec::new());
        Self {
            definition,
            state,
            version,
            events,
            pending,
            wakes_at,
            is_shared,
            is_in_slot_queue: false,
            is_ready: false,
            is_fault_logged: false,
        }
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.definition.policy)
    }

    /// Time of the job's next tick, as far as this node knows.
    pub(crate) fn wakes(&self, started: UnixMs) -> Option<UnixMs> {
        let JobDefinition { name, trigger, policy, .. } = &self.definition;
        match &self.state {
            Some(state) => state.wakes(name, trigger, policy),
            None => JobState::new(policy, started, None).wakes(name, trigger, policy),
        }
    }
}
