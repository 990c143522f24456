//! The input of a plan (context, events, commands) and its output.

use std::sync::Arc;

use bandog_core::{Holding, Line, Version};

use crate::{
    Paused, State,
    misfire::TickRange,
    pauses::AllJobsPause,
    policy::Policy,
    state::{HistoryEntry, JobState},
    trigger::{Trigger, UnixMs},
};

/// The values that a plan depends on in addition to the state and the events.
pub(crate) struct PlanContext<'a> {
    pub(crate) name: &'a str,
    pub(crate) trigger: &'a Trigger,
    pub(crate) policy: &'a Policy,
    /// The store's time, as far as this node knows it.
    pub(crate) now: UnixMs,
    /// The name of this node, for the history.
    pub(crate) node: &'a Arc<str>,
    /// This node's session. None for a job of this process only.
    pub(crate) session: Option<&'a Holding>,
    /// Maximum number of runs that this node can start now.
    pub(crate) free_slots: usize,
    /// Whether this node is allowed to claim ticks of the job. False, for example, if the store has a greater revision
    /// of the job.
    pub(crate) is_current: bool,
    /// The last known pause or resume of all jobs.
    pub(crate) all: &'a AllJobsPause,
}

/// An event that a plan applies to the state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// A run of this node has ended.
    RunEnded(RunEnd),
    /// The session of a node has expired.
    NodeDied(Holding),
    /// This tick ran without a claim while the store was down.
    RanUnclaimed(UnixMs),
    /// The end of a run without a claim.
    UnclaimedRunEnded(Arc<HistoryEntry>),
    /// The store has lost the record or a part of it, but this node has a copy.
    RecordLost(KnownRecord),
}

/// This node's copy of a record that the store has lost completely or in part. [`crate::recovery`] handles it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownRecord {
    /// The last confirmed state.
    pub(crate) state: Arc<JobState>,
    /// The version of the record with this state.
    pub(crate) version: Version,
    /// Whether this version is greater than the version of the store's present record.
    pub(crate) is_later: bool,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunEnd {
    /// The number of the run.
    pub(crate) id: u64,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    pub(crate) state: State,
    /// Time of the end.
    pub(crate) at: UnixMs,
    pub(crate) error: Option<String>,
    /// The text that the job's body has set for the history.
    pub(crate) note: Option<String>,
}

/// A command of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Run,
    Pause(Paused),
    Resume,
    /// Pauses or resumes all jobs.
    SetAllJobsPause(AllJobsPause),
    /// Cancels one run, or all runs of the job.
    Cancel(Option<u64>),
    Backfill(Vec<UnixMs>),
    /// Sets the watermark back, if it lies in the future.
    Reset {
        by: String,
        reason: String,
    },
}

/// The effects of a plan in addition to the new state. The node acts on these values only after the state is written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Number of runs that this node claims.
    pub(crate) starts: usize,
    /// Lines that the swap adds to the history.
    pub(crate) lines: Vec<Line>,
    /// The store refuses the swap before this time. None if the swap claims no tick.
    pub(crate) not_before: Option<UnixMs>,
    /// Whether this plan adds the first run of an empty queue.
    pub(crate) begins_queue: bool,
    /// Whether a queued run could start if this node had another free slot.
    pub(crate) is_starved: bool,
    /// Whether other nodes should be notified to read the record now.
    pub(crate) is_news: bool,
    /// Runs that a command created or cancelled.
    pub(crate) runs: Vec<u64>,
    /// Whether the end of a run of this node was refused, because another node had taken the run over or the record no
    /// longer contains the run.
    pub(crate) is_fenced: bool,
    /// Number of ticks that were skipped.
    pub(crate) skipped: u64,
    /// Ticks that no node claimed in time, and that do not run.
    pub(crate) missed: TickRange,
    /// Ticks whose node died during the run, and that do not run again.
    pub(crate) lost: TickRange,
    /// Ticks whose node died during the run, and that run again.
    pub(crate) died: TickRange,
    /// The runs that have failed for good: no further attempt follows.
    pub(crate) failures: Vec<HistoryEntry>,
    /// Whether the plan restored a record that the store had lost. If so, `missed` and `lost` contain ticks that might
    /// have run before the loss.
    pub(crate) is_restored: bool,
}
