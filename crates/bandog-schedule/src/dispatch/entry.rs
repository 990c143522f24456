//! One job as its node keeps it.

use std::sync::Arc;

use bandog_core::Version;

use crate::{
    job::Task,
    plan::{Event, Plan},
    policy::Policy,
    state::JobState,
    trigger::Ms,
};

/// A job, its state as far as this node knows it, and what is under way for it. Many services have few jobs, and some a
/// million: what most jobs lack at most times stands behind a pointer.
pub(crate) struct Entry {
    pub(crate) task: Task,
    /// None while it is as a new one of this process.
    pub(crate) state: Option<Box<JobState>>,
    /// The record's version; none for a job of this process only, and for a record that is not there.
    pub(crate) version: Option<Version>,
    /// What has happened and is not written yet.
    pub(crate) events: Vec<Event>,
    /// What has been sent and is not answered yet.
    pub(crate) flight: Option<Box<Flight>>,
    /// When it wakes; an entry of the agenda with another time is an old one.
    pub(crate) armed: Ms,
    pub(crate) is_shared: bool,
    /// It waits for a place.
    pub(crate) is_in_line: bool,
    /// Something came while it was in flight.
    pub(crate) again: bool,
    /// The log has been told that the store refuses it, or keeps what cannot be read.
    pub(crate) is_told: bool,
}

/// A swap on its way.
pub(crate) struct Flight {
    pub(crate) next: JobState,
    pub(crate) plan: Plan,
    /// How many of the events it takes in.
    pub(crate) events: usize,
}

impl Entry {
    pub(crate) fn new(task: Task, is_shared: bool) -> Self {
        let (state, version, flight) = (None, None, None);
        let (armed, events) = (Ms::MAX, Vec::new());
        Self { task, state, version, events, flight, armed, is_shared, is_in_line: false, again: false, is_told: false }
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.task.policy)
    }

    /// When its next tick is due, as far as this node knows.
    pub(crate) fn wakes(&self, started: Ms) -> Option<Ms> {
        let Task { name, trigger, policy, .. } = &self.task;
        match &self.state {
            Some(state) => state.wakes(name, trigger, policy),
            None => JobState::new(policy, started, None).wakes(name, trigger, policy),
        }
    }
}
