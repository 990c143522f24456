//! A job of this node, as the dispatcher keeps it.

use std::sync::Arc;

use bandog_core::{Holding, Version};

use crate::{
    State,
    job::JobDefinition,
    meters,
    pauses::AllJobsPause,
    plan::{Event, Plan, next_claim},
    policy::Policy,
    state::{JobState, LiveRun},
    trigger::{DurationMs, UnixMs, duration_ms},
};

/// Index of a job in the dispatcher's tables.
pub(crate) type JobId = u32;

/// A job, its last known state, its events that are not written yet, and its swap in flight. A swap replaces the job's
/// record in the store if the record still has the version that this node knows. Some services have a million jobs, so
/// parts that are rarely used are boxed.
pub(crate) struct JobEntry {
    pub(crate) definition: JobDefinition,
    /// The last known state. None in two cases: the job is in the store and its record was not read yet, or the job is
    /// a job of this process and was not planned yet.
    pub(crate) state: Option<Box<JobState>>,
    /// The version of the record. None if the job has no record, for example because it is a job of this process.
    pub(crate) version: Option<Version>,
    /// Events that are not in a confirmed state yet.
    pub(crate) events: Vec<Event>,
    /// The swap in flight.
    pub(crate) pending: Option<Box<PendingSwap>>,
    /// Whether the job is in the store, and so is shared by all nodes. Otherwise it is a job of this process.
    pub(crate) is_shared: bool,
    /// Whether the job became ready for planning while a swap was in flight. Then the job is planned again after the
    /// answer to the swap.
    pub(crate) is_ready: bool,
    /// Whether the present fault of this job is logged already. The fault is either that the store refuses the job's
    /// swaps, or that the job's record cannot be read.
    pub(crate) is_fault_logged: bool,
}

/// A swap in flight.
pub(crate) struct PendingSwap {
    /// The state of the job after the swap.
    pub(crate) next: JobState,
    /// The plan to apply after the swap.
    pub(crate) plan: Plan,
    /// Number of events that the swap contains. They are the first ones in the entry's list of events.
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

    /// Time at which the job's next tick is due for a claim, as far as this node knows. `since`: if the job has no
    /// state, all ticks before this time are ignored.
    pub(super) fn next_claim(&self, since: UnixMs) -> Option<UnixMs> {
        let JobDefinition { name, trigger, policy, .. } = &self.definition;
        match &self.state {
            Some(state) => next_claim(state, name, trigger, policy),
            None => next_claim(&JobState::new(policy, since, None), name, trigger, policy),
        }
    }

    /// Time at which a node without a free slot claims the next tick: half of the misfire grace after the tick is due.
    /// Then the tick waits for a slot in the record, so it is neither missed nor lost with this node. A node with a
    /// free slot claims the tick earlier.
    pub(super) fn claim_without_slot(&self, since: UnixMs) -> Option<UnixMs> {
        let half = duration_ms(self.definition.policy.misfire_grace / 2);
        Some(self.next_claim(since)?.saturating_add(half))
    }

    /// The runs under way, on any node.
    pub(super) fn running(&self) -> &[LiveRun] {
        self.state.as_ref().map_or(&[], |state| &state.running)
    }

    /// Sets the metrics of the job's record, when a node starts.
    pub(crate) fn show_first_state(&self) {
        // The record has the end of the last run only. If that run has failed, the tick of the last success is the best
        // known time.
        let success = self.state.as_ref().and_then(|state| state.last_success);
        success.iter().for_each(|tick| meters::succeeded(&self.definition.name, *tick));
        self.show_state();
    }

    /// Sets the metrics of the job's record.
    pub(super) fn show_state(&self) {
        let Some(state) = self.state.as_ref().filter(|_| self.is_shared) else { return };
        meters::paused(&self.definition.name, state.is_paused());
        if let Some(last) = state.last.as_ref().filter(|last| last.state == State::Ok) {
            meters::succeeded(&self.definition.name, last.ended);
        }
    }

    /// Whether every event is written and no swap is in flight.
    pub(super) fn is_settled(&self) -> bool {
        self.pending.is_none() && self.events.is_empty()
    }

    /// Whether other nodes should read the job's record after this node has stopped.
    pub(super) fn concerns_others(&self) -> bool {
        self.is_shared && (!self.events.is_empty() || self.state.as_ref().is_some_and(|state| !state.is_idle()))
    }

    /// Whether the record needs a write that no tick causes. There are two cases. A heartbeat is due. Or an operator
    /// has paused or resumed all jobs, but the operator's process ended before it had written the pause or resume to
    /// the job's record.
    pub(super) fn needs_write(&self, all: &AllJobsPause, now: UnixMs) -> bool {
        let needs_write = |state: &JobState| state.has_not_applied(all) || state.needs_heartbeat(now);
        self.is_shared && self.state.as_deref().is_some_and(needs_write)
    }

    /// Whether another replica has registered the job with a greater revision. If so, only the replicas with the
    /// greatest revision claim the job's ticks.
    pub(super) fn is_superseded(&self) -> bool {
        let spec = self.state.as_ref().and_then(|state| state.spec.as_ref());
        spec.is_some_and(|spec| spec.revision > self.definition.policy.revision)
    }

    /// The fences of the local runs whose ends are not written yet.
    pub(super) fn ended_fences(&self) -> Vec<u64> {
        let fence = |event: &Event| if let Event::RunEnded(ended) = event { Some(ended.fence) } else { None };
        self.events.iter().filter_map(fence).collect()
    }

    /// Adds the event that the node with this session has died. Returns true if the event is new. If the node had no
    /// run of this job, no event is added. Each poll calls this function again, until the runs have ended.
    pub(crate) fn node_died(&mut self, session: &Holding, now: UnixMs) -> bool {
        let event = Event::NodeDied(session.clone());
        let is_its_run = |live: &LiveRun| live.holding().as_ref() == Some(session);
        let had_runs = self.state.as_ref().is_some_and(|state| {
            state.running.iter().any(|live| is_its_run(live) && !state.awaits_copies(live.started, now))
        });
        let is_new = had_runs && !self.events.contains(&event);
        if is_new {
            self.events.push(event);
        }
        is_new
    }

    /// Whether the job's ticks are moved when the wall clock is set. This is so if the job has a period and is not
    /// shared with other nodes.
    pub(super) fn moves_with_clock(&self) -> bool {
        !self.is_shared && self.definition.trigger.is_counted()
    }

    /// Moves all times of the job by this duration, because the wall clock was set.
    pub(super) fn move_by(&mut self, by: DurationMs) {
        self.state.iter_mut().for_each(|state| state.move_by(by));
        for event in &mut self.events {
            if let Event::RunEnded(ended) = event {
                ended.at = ended.at.saturating_add(by);
            }
        }
    }
}
