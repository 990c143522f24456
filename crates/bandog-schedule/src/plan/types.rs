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
    /// The node's name, for histories.
    pub(crate) node: &'a Arc<str>,
    /// This node's session. None for a job of this process only.
    pub(crate) session: Option<&'a Holding>,
    /// Number of runs that this node may start.
    pub(crate) free_slots: usize,
    /// Whether this node may claim ticks of the job. False if the store has a greater revision of it.
    pub(crate) is_current: bool,
    /// The last known pause of all jobs.
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
    /// The store has lost a part of the record that this node remembers.
    RecordLost(KnownRecord),
}

/// A record as this node knew it, which the store has lost completely or in part. [`crate::recovery`] handles it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownRecord {
    /// The last confirmed state.
    pub(crate) state: Arc<JobState>,
    /// The version of that state.
    pub(crate) version: Version,
    /// Whether the version of that state is greater than the version of the store's present record.
    pub(crate) is_later: bool,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunEnd {
    pub(crate) id: u64,
    pub(crate) fence: u64,
    pub(crate) attempt: u32,
    pub(crate) state: State,
    pub(crate) at: UnixMs,
    pub(crate) error: Option<String>,
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
    /// Sets a watermark in the future back.
    Reset {
        by: String,
        reason: String,
    },
}

/// The effects of a plan, once the state is written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Number of runs that this node claims.
    pub(crate) starts: usize,
    /// Lines for the history.
    pub(crate) lines: Vec<Line>,
    /// The store must refuse the swap before this time.
    pub(crate) not_before: Option<UnixMs>,
    /// Whether a run could start if this node had a free slot.
    pub(crate) is_starved: bool,
    /// Whether other nodes should be notified to read the record now.
    pub(crate) is_news: bool,
    /// Runs that a command created or cancelled.
    pub(crate) runs: Vec<u64>,
    /// Whether the end of a run of this node was refused, because another node had taken the run over or the record no
    /// longer contains the run.
    pub(crate) is_fenced: bool,
    /// Ticks that will not run, by reason.
    pub(crate) skipped: u64,
    pub(crate) missed: TickRange,
    pub(crate) lost: TickRange,
    /// Ticks that run again because their node died.
    pub(crate) died: TickRange,
    /// Whether the plan restored a record that the store had lost. Then the missed and lost ticks are those of the lost
    /// record.
    pub(crate) is_restored: bool,
}
