//! Ends of runs: either the run itself has ended, or the node that ran it has died.

use std::sync::Arc;

use bandog_core::Holding;

use super::{
    history::{add_history_line, record_end},
    types::{Plan, PlanContext, RunEnd},
};
use crate::{
    Paused, State,
    state::{HistoryEntry, JobState, LiveRun, QueuedRun, format_time},
    trigger::UnixMs,
};

/// The death of a node during a run.
struct Death {
    /// Number of nodes that have died during this run so far.
    count: u32,
    /// Number of deaths after which the run is not retried.
    max: u32,
    /// Whether this is the last allowed death. If so, the run is not retried.
    is_last: bool,
    /// Whether the run was cancelled before the death.
    is_cancelled: bool,
}

impl Death {
    /// The text for the history. `why`: the cause of the death.
    fn text(&self, why: &str) -> String {
        let Self { count, max, is_last, is_cancelled } = *self;
        match (is_cancelled, is_last, max) {
            (true, ..) | (_, true, 1) => why.to_owned(),
            (_, true, _) => format!("{why}: death {count} of {max}, the run is given up"),
            (_, false, _) => format!("{why}: death {count} of {max}, the run is tried again"),
        }
    }
}

/// Applies the end of a run: counts the run, records its end, and retries the run if the job's policy allows a retry.
pub(crate) fn end_run(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, ended: &RunEnd) {
    end(state, context, plan, ended, false);
}

/// As [`end_run`], for a run that ended some time ago. No node repeats it, and its end is no death of a node.
pub(crate) fn end_run_for_good(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, ended: &RunEnd) {
    end(state, context, plan, ended, true);
}

fn end(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, ended: &RunEnd, for_good: bool) {
    let Some(live) = take(state, context, ended) else {
        plan.is_fenced = true;
        return;
    };
    state.busy = Some((live.started, ended.at.max(live.started)));
    let is_cut_short = matches!(ended.state, State::Interrupted | State::Lost);
    let may_retry = is_cut_short && context.policy.on_crash.retries() && !live.cancel && !for_good;
    let death = if ended.state == State::Lost && !for_good { Some(count_death(state, context, &live)) } else { None };
    let will_retry = may_retry && death.as_ref().is_none_or(|death| !death.is_last);
    if will_retry {
        let (id, kind, tick) = (live.id, live.kind, live.tick);
        state.queue.push_front(QueuedRun { id, kind, tick, attempt: ended.attempt + 1 });
        plan.is_news = true;
    }
    state.wait_from(ended.at, context.trigger);
    match ended.state {
        State::Ok => {
            state.counts.ok += 1;
            state.streak = 0;
            state.last_success = state.last_success.max(Some(live.tick));
        }
        State::Failed | State::TimedOut => {
            state.counts.failed += 1;
            state.streak += 1;
            pause_after(state, context);
        }
        // A run with retries is counted only once, at the end of its last attempt.
        State::Interrupted if will_retry => {}
        State::Lost if will_retry => plan.died.add(live.tick),
        State::Cancelled | State::Interrupted => state.counts.cancelled += 1,
        State::Lost => {
            state.counts.lost += 1;
            plan.lost.add(live.tick);
        }
        // No run ends with these states.
        State::Queued | State::Running | State::Skipped | State::Missed | State::Reset => {}
    }
    let mut ended = ended.clone();
    if let Some(death) = death {
        let why = ended.error.as_deref().unwrap_or("its node lost its session");
        ended.error = Some(death.text(why));
    }
    record_end(state, context, plan, live, ended, will_retry);
}

/// Removes the run that has ended from the runs under way. After the store has lost its data, the record can have the run
/// as it was earlier: with an earlier attempt, or in the queue.
fn take(state: &mut JobState, context: &PlanContext<'_>, ended: &RunEnd) -> Option<LiveRun> {
    let is_it = |live: &LiveRun| {
        live.id == ended.id && (live.fence == ended.fence || state.awaits_copies(live.started, context.now))
    };
    if let Some(at) = state.running.iter().position(is_it) {
        return Some(LiveRun { fence: ended.fence, ..state.running.remove(at) });
    }
    let is_queued = |queued: &QueuedRun| queued.id == ended.id && state.awaits_copies(queued.tick, context.now);
    let at = state.queue.iter().position(is_queued)?;
    let QueuedRun { id, kind, tick, .. } = state.queue.remove(at)?;
    let (fence, attempt, node) = (ended.fence, ended.attempt, Arc::clone(context.node));
    Some(LiveRun { id, kind, tick, due: tick, attempt, fence, started: ended.at, node, session: None, cancel: false })
}

/// Retries or records the runs of a node whose session has expired. After the store has lost its data, the runs from
/// before wait a little: copies of other nodes can show that they are over.
pub(super) fn end_runs_of_dead_node(
    state: &mut JobState,
    context: &PlanContext<'_>,
    plan: &mut Plan,
    holding: &Holding,
) {
    let is_dead = |state: &JobState, live: &LiveRun| {
        live.holding().as_ref() == Some(holding) && !state.awaits_copies(live.started, context.now)
    };
    while let Some(at) = state.running.iter().position(|live| is_dead(state, live)) {
        let live = state.running.remove(at);
        // `busy` is not set, because the time of the death is unknown. So ticks after the start of this run do not
        // count as overlapping with the run.
        let (id, attempt, fence) = (live.id, live.attempt, live.fence);
        state.wait_from(context.now, context.trigger);
        let death = count_death(state, context, &live);
        let will_retry = !death.is_last && !live.cancel;
        if !will_retry {
            state.counts.lost += 1;
            plan.lost.add(live.tick);
        } else {
            let (kind, tick) = (live.kind, live.tick);
            state.queue.push_front(QueuedRun { id, kind, tick, attempt: attempt + 1 });
            plan.died.add(live.tick);
        }
        let error = Some(death.text("its node died or lost its session"));
        let ended = RunEnd { id, fence, attempt, state: State::Lost, at: context.now, error, note: None };
        record_end(state, context, plan, live, ended, will_retry);
    }
}

/// Applies a tick that ran without a claim while the store did not answer. `may_still_run`: whether the end of that run
/// is unknown. If so, a fixed delay begins now, because the node of the run might die before it reports the end.
pub(super) fn ran_unclaimed(state: &mut JobState, context: &PlanContext<'_>, tick: UnixMs, may_still_run: bool) {
    state.mark_ran(tick, context.trigger);
    if may_still_run {
        state.wait_from_unclaimed(context.now, context.trigger);
    }
}

/// Applies the end of a run without a claim.
pub(super) fn unclaimed_ended(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, past: &HistoryEntry) {
    // Whether this end is in the record already.
    let is_it = |last: &HistoryEntry| (last.fence, last.tick, &last.node) == (past.fence, past.tick, &past.node);
    if state.last.as_deref().is_some_and(is_it) {
        // An earlier swap has written this end, but the answer to that swap was lost.
        return;
    }
    state.wait_from_unclaimed(past.ended, context.trigger);
    match past.state {
        State::Ok => {
            state.counts.ok += 1;
            state.last_success = state.last_success.max(Some(past.tick));
        }
        State::Cancelled | State::Interrupted => state.counts.cancelled += 1,
        _ => {
            state.counts.failed += 1;
            plan.failures.push(past.clone());
        }
    }
    state.last = Some(Box::new(HistoryEntry { note: None, ..past.clone() }));
    add_history_line(state, plan, past.clone());
}

/// Counts the death of the node that ran this run. The death also counts as a failure. So [`crate::Job::pause_after`]
/// pauses a job that kills its nodes.
fn count_death(state: &mut JobState, context: &PlanContext<'_>, live: &LiveRun) -> Death {
    let (count, max) = (state.count_death(live.id), context.policy.on_crash.max_deaths());
    state.streak = state.streak.saturating_add(1);
    pause_after(state, context);
    Death { count, max, is_last: count >= max, is_cancelled: live.cancel }
}

/// Pauses the job if the job has failed too often in a row.
fn pause_after(state: &mut JobState, context: &PlanContext<'_>) {
    if context.policy.pause_after.is_some_and(|max| state.streak >= max.get()) && state.paused.is_none() {
        let reason = format!("{} runs failed in a row", state.streak);
        state.paused = Some(Box::new(Paused { by: "bandog".into(), reason, at: format_time(context.now) }));
    }
}
