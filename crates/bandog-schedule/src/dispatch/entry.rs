//! A job in the dispatcher.

use std::sync::Arc;

use bandog_core::{Holding, Version};

use crate::{
    job::JobDefinition,
    pauses::AllJobsPause,
    plan::{Event, Plan, next_claim},
    policy::Policy,
    state::{JobState, LiveRun},
    trigger::{DurationMs, UnixMs},
};

/// Index of a job in the dispatcher's tables.
pub(crate) type JobId = u32;

/// A job, its last known state, and its events and swap in flight. A swap replaces the job's record in the store if the
/// record still has the known version. Some services have a million jobs, so rarely used parts are boxed.
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
    /// Whether the job is in the store and shared by all nodes.
    pub(crate) is_shared: bool,
    /// Whether the job became ready while a swap was in flight. Then it is planned again after the answer.
    pub(crate) is_ready: bool,
    /// Whether an error about this job is logged already: the store refuses its swaps, or its record cannot be read.
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
    pub(crate) fn new(definition: JobDefinition) -> Self {
        Self {
            definition,
            state: None,
            version: None,
            events: Vec::new(),
            pending: None,
            is_shared: false,
            is_ready: false,
            is_fault_logged: false,
        }
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.definition.policy)
    }

    /// Time of the job's next tick, as far as this node knows. `since`: the time from which the ticks of a job without
    /// a state count.
    pub(super) fn next_claim(&self, since: UnixMs) -> Option<UnixMs> {
        let JobDefinition { name, trigger, policy, .. } = &self.definition;
        match &self.state {
            Some(state) => next_claim(state, name, trigger, policy),
            None => next_claim(&JobState::new(policy, since, None), name, trigger, policy),
        }
    }

    /// The runs under way, on any node.
    pub(super) fn running(&self) -> &[LiveRun] {
        self.state.as_ref().map_or(&[], |state| &state.running)
    }

    /// Whether every event is written.
    pub(super) fn is_settled(&self) -> bool {
        self.pending.is_none() && self.events.is_empty()
    }

    /// Whether other nodes should read the record once this node is gone.
    pub(super) fn concerns_others(&self) -> bool {
        self.is_shared && (!self.events.is_empty() || self.state.as_ref().is_some_and(|state| !state.is_idle()))
    }

    /// Whether the record needs a write that no tick causes: a heartbeat is due, or the record lacks a pause or resume
    /// of all jobs, because the operator's process ended before it had written to each job.
    pub(super) fn needs_write(&self, all: &AllJobsPause, now: UnixMs) -> bool {
        let needs_write = |state: &JobState| state.has_not_applied(all) || state.needs_heartbeat(now);
        self.is_shared && self.state.as_deref().is_some_and(needs_write)
    }

    /// Whether another replica has registered the job with a greater revision. Only that replica claims its ticks.
    pub(super) fn is_superseded(&self) -> bool {
        let spec = self.state.as_ref().and_then(|state| state.spec.as_ref());
        spec.is_some_and(|spec| spec.revision > self.definition.policy.revision)
    }

    /// The fences of the local runs whose ends are not written yet.
    pub(super) fn ended_fences(&self) -> Vec<u64> {
        let fence = |event: &Event| if let Event::RunEnded(ended) = event { Some(ended.fence) } else { None };
        self.events.iter().filter_map(fence).collect()
    }

    /// Adds the event that the node with this session has died. Returns false if no run under this session is under
    /// way, or if the event was added before.
    pub(super) fn node_died(&mut self, session: &Holding) -> bool {
        let event = Event::NodeDied(session.clone());
        let had_runs = self.running().iter().any(|live| live.holding().as_ref() == Some(session));
        let is_new = had_runs && !self.events.contains(&event);
        if is_new {
            self.events.push(event);
        }
        is_new
    }

    /// Whether the job's ticks are moved when the clock is set: the job has a period and is not shared with other
    /// nodes.
    pub(super) fn moves_with_clock(&self) -> bool {
        !self.is_shared && self.definition.trigger.is_counted()
    }

    /// Moves all times of the job after the clock was set.
    pub(super) fn move_by(&mut self, by: DurationMs) {
        self.state.iter_mut().for_each(|state| state.move_by(by));
        for event in &mut self.events {
            if let Event::RunEnded(ended) = event {
                ended.at = ended.at.saturating_add(by);
            }
        }
    }
}
