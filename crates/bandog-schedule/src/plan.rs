//! The rules: how a job's state changes when ticks are due, runs end, nodes die and operators send commands.
//!
//! All rules are plain functions on a state, without I/O and without a clock. A node plans on its copy of the state.
//! Then the node replaces the job's record in the store by the new state (a swap). If another node has changed the
//! record in the meantime, the store refuses the swap, and the node plans again on the new record.

mod commands;
mod history;
mod redefine;
mod reset;
mod run_ends;
mod ticks;
mod types;

use std::sync::Arc;

use crate::{
    misfire,
    pauses::AllJobsPause,
    policy::Policy,
    recovery::restore,
    state::JobState,
    trigger::{Trigger, UnixMs},
};

pub(crate) use self::{
    history::add_history_line,
    redefine::redefine,
    reset::{is_over, rests_until},
    run_ends::{end_run, end_run_for_good},
    ticks::MAX_EARLY_MS,
    types::{Command, Event, KnownRecord, Plan, PlanContext, RunEnd},
};

/// Applies the events, claims the ticks that are due, and starts runs.
pub(crate) fn plan(state: &mut JobState, context: &PlanContext<'_>, events: &[Event]) -> Plan {
    let mut plan = Plan::default();
    commands::apply_all_jobs_pause(state, context, &mut plan, context.all);
    if context.session.is_some() && state.needs_heartbeat(context.now) {
        state.seen = context.now;
    }
    // Index of the last event that reports the end of an unclaimed run. If a tick ran unclaimed after this event, the
    // run of that tick might still be under way.
    let last_end = events.iter().rposition(|event| matches!(event, Event::UnclaimedRunEnded(_)));
    for (nth, event) in events.iter().enumerate() {
        match event {
            Event::RunEnded(ended) => end_run(state, context, &mut plan, ended),
            Event::NodeDied(holding) => run_ends::end_runs_of_dead_node(state, context, &mut plan, holding),
            Event::RanUnclaimed(tick) => {
                run_ends::ran_unclaimed(state, context, *tick, last_end.is_none_or(|end| end < nth))
            }
            Event::UnclaimedRunEnded(past) => run_ends::unclaimed_ended(state, context, &mut plan, past),
            Event::RecordLost(memory) => plan.is_restored |= restore(state, context, &mut plan, memory),
        }
    }
    state.drop_deaths();
    if plan.is_restored {
        // The recovered record is written without a new claim. The store accepts a claim only while this node's session
        // is held. But the store might have lost the session too, and a lost session must not delay the recovery.
        ticks::start_runs(state, &PlanContext { free_slots: 0, ..*context }, &mut plan);
        return plan;
    }
    ticks::claim_ticks(state, context, &mut plan);
    ticks::start_runs(state, context, &mut plan);
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
    commands::apply_command(state, &context, &mut plan, command);
    state.drop_deaths();
    plan
}

/// Time at which the next tick is due for a claim: the tick plus the jitter of the job. None if there is no such tick.
/// The first tick of a pause is due too, because the history gets a line about it.
pub(crate) fn next_claim(state: &JobState, name: &str, trigger: &Trigger, policy: &Policy) -> Option<UnixMs> {
    if !policy.enabled || (state.is_paused() && state.unrecorded_pause().is_none()) {
        return None;
    }
    let tick = trigger.next(state.tick_cursor())?;
    Some(misfire::due_time(name, policy, tick))
}

#[cfg(test)]
mod tests;
