//! The rules: how a job's state changes when ticks are due, runs end, nodes die and operators send commands.
//!
//! All rules are plain functions on a state, without I/O and without a clock. A node plans on its copy and swaps the
//! record. If the record has changed meanwhile, the node plans again on the new one.

mod commands;
mod history;
mod memory;
mod reset;
mod run_ends;
mod ticks;

use std::{num::NonZeroU32, sync::Arc};

use bandog_core::{Holding, Line};

use crate::{
    Overlap, Paused, State,
    misfire::{self, TickRange},
    pauses::AllJobsPause,
    policy::Policy,
    state::{HistoryEntry, JobState},
    trigger::{DurationMs, Trigger, UnixMs},
};

pub(crate) use self::{memory::KnownRecord, ticks::MAX_EARLY_MS};

/// The job, the time, the node, and its free slots.
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
    /// A run could start, but this node has no free slot.
    pub(crate) is_starved: bool,
    /// Other nodes should read the record now.
    pub(crate) is_news: bool,
    /// Runs that a command created or cancelled.
    pub(crate) runs: Vec<u64>,
    /// A run of this node ended after its claim was gone.
    pub(crate) is_fenced: bool,
    /// Ticks that will not run, by reason.
    pub(crate) skipped: u64,
    pub(crate) missed: TickRange,
    pub(crate) lost: TickRange,
    /// Ticks whose node died and that run again.
    pub(crate) died: TickRange,
    /// The missed and lost ticks are those of a record that the store has lost.
    pub(crate) is_restored: bool,
}

/// Applies the events, claims the ticks that are due, and starts runs.
pub(crate) fn plan(state: &mut JobState, context: &PlanContext<'_>, events: &[Event]) -> Plan {
    let mut plan = Plan::default();
    state.apply_all_jobs_pause(context, &mut plan, context.all);
    if context.session.is_some() && state.needs_heartbeat(context.now) {
        state.seen = context.now;
    }
    let last_end = events.iter().rposition(|event| matches!(event, Event::UnclaimedRunEnded(_)));
    for (nth, event) in events.iter().enumerate() {
        match event {
            Event::RunEnded(ended) => state.end_run(context, &mut plan, ended),
            Event::NodeDied(holding) => state.end_runs_of_dead_node(context, &mut plan, holding),
            Event::RanUnclaimed(tick) => state.ran_unclaimed(context, *tick, last_end.is_none_or(|end| end < nth)),
            Event::UnclaimedRunEnded(past) => state.unclaimed_ended(context, &mut plan, past),
            Event::RecordLost(memory) => plan.is_restored |= state.restore(context, &mut plan, memory),
        }
    }
    state.drop_deaths();
    if plan.is_restored {
        // The recovered record is written before any new claim. The session may be lost as well and must not delay it.
        state.start_runs(&PlanContext { free_slots: 0, ..*context }, &mut plan);
        return plan;
    }
    state.claim_ticks(context, &mut plan);
    state.start_runs(context, &mut plan);
    plan
}

/// Applies a command of an operator.
pub(crate) fn apply_command(
    state: &mut JobState,
    name: &str,
    trigger: &Trigger,
    policy: &Policy,
    now: UnixMs,
    command: &Command,
) -> Plan {
    let (node, all) = (&Arc::from(""), &AllJobsPause::default());
    let context =
        PlanContext { name, trigger, policy, now, node, session: None, free_slots: 0, is_current: false, all };
    let mut plan = Plan { is_news: true, ..Plan::default() };
    state.apply_command(&context, &mut plan, command);
    state.drop_deaths();
    plan
}

impl JobState {
    /// Time of the next tick that this node may claim.
    pub(crate) fn wakes(&self, name: &str, trigger: &Trigger, policy: &Policy) -> Option<UnixMs> {
        if !policy.enabled || self.is_paused() {
            return None;
        }
        let tick = trigger.next(self.tick_cursor())?;
        Some(misfire::due_time(name, policy, tick))
    }

    /// Whether a queued run could start.
    pub(crate) fn can_start(&self, policy: &Policy) -> bool {
        !self.queue.is_empty() && self.running.len() < max_concurrent_runs(policy.overlap)
    }
}

/// Maximum number of concurrent runs.
fn max_concurrent_runs(overlap: Overlap) -> usize {
    match overlap {
        Overlap::Skip | Overlap::Queue(_) | Overlap::Replace => 1,
        Overlap::Allow(most) => to_usize(most),
    }
}

fn to_usize(most: NonZeroU32) -> usize {
    usize::try_from(most.get()).unwrap_or(usize::MAX)
}

/// The delay of a fixed delay. Other triggers do not use `next_due`.
pub(crate) fn delay(trigger: &Trigger) -> DurationMs {
    match trigger {
        Trigger::FixedDelay(delay) => *delay,
        Trigger::Cron(_) | Trigger::FixedRate(_) | Trigger::At(_) | Trigger::Once | Trigger::Never => 0,
    }
}

#[cfg(test)]
mod tests;
