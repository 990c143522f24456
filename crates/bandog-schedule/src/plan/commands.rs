//! Commands of operators.

use super::{
    history::{add_history_line, record_not_run},
    reset::reset,
    ticks::enqueue,
    types::{Command, Plan, PlanContext},
};
use crate::{
    Kind, State,
    misfire::TickRange,
    pauses::AllJobsPause,
    state::{HistoryEntry, JobState, QueuedRun},
};

/// Applies a command of an operator to the state.
pub(super) fn apply_command(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, command: &Command) {
    match command {
        Command::Run => plan.runs.push(enqueue(state, Kind::Manual, context.now)),
        Command::Backfill(ticks) => {
            for tick in ticks {
                let id = enqueue(state, Kind::Backfill, *tick);
                plan.runs.push(id);
            }
        }
        Command::Pause(paused) => state.paused = Some(Box::new(paused.clone())),
        Command::Resume => resume(state, context, plan),
        Command::SetAllJobsPause(command) => apply_all_jobs_pause(state, context, plan, command),
        Command::Cancel(run) => cancel(state, context, plan, *run),
        Command::Reset { by, reason } => reset(state, context, plan, by, reason),
    }
}

/// Ends the pause of this job, if the job is paused.
fn resume(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan) {
    if state.paused.take().is_some() {
        state.streak = 0;
        continue_after_pause(state, context, plan);
    }
}

/// Applies a pause or resume of all jobs, unless the job has applied it already.
pub(super) fn apply_all_jobs_pause(
    state: &mut JobState,
    context: &PlanContext<'_>,
    plan: &mut Plan,
    command: &AllJobsPause,
) {
    if !state.has_not_applied(command) {
        return;
    }
    let was_paused = state.all_paused().is_some();
    state.all = Some(Box::new(command.clone()));
    if was_paused && command.paused.is_none() {
        continue_after_pause(state, context, plan);
    }
}

/// Called at the end of a pause: skips the ticks that were due during the pause. There are two pauses, which can be in
/// effect at the same time: the pause of this job, and the pause of all jobs. If one of them is still in effect, this
/// function skips nothing.
fn continue_after_pause(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan) {
    if state.is_paused() {
        return;
    }
    if state.is_idle() && state.next_due.is_none() {
        // The tick of a fixed delay was recorded when the pause skipped it.
        state.next_due = Some(context.now);
        return;
    }
    let skipped = TickRange::until(context.trigger, state.tick_cursor(), context.now);
    if skipped.ticks > 0 {
        state.watermark = skipped.last;
        if state.spec.as_ref().is_some_and(|spec| !spec.enabled) {
            // The ticks of a disabled job never run, even without a pause. So they do not count as skipped.
            return;
        }
        state.next_due = state.next_due.map(|due| due.max(context.now));
        record_not_run(state, context, plan, State::Skipped, skipped);
    }
}

/// Cancels the run with this number, or all runs if there is no number.
fn cancel(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, run: Option<u64>) {
    // Whether the command cancels the run with this number.
    let is_meant = |id: u64| run.is_none_or(|run| run == id);
    for live in state.running.iter_mut().filter(|live| is_meant(live.id)) {
        live.cancel = true;
        plan.runs.push(live.id);
    }
    // `gone`: the queued runs that are cancelled. `left`: the other queued runs.
    let (gone, left) = state.queue.iter().partition::<Vec<QueuedRun>, _>(|queued| is_meant(queued.id));
    state.queue = left.into();
    for QueuedRun { id, kind, tick, attempt } in gone {
        state.counts.cancelled += 1;
        plan.runs.push(id);
        let (due, ended) = (tick, context.now);
        let (from, node, fence, started, error, note) = (None, None, None, None, None, None);
        add_history_line(
            state,
            plan,
            HistoryEntry {
                id,
                kind,
                tick,
                from,
                ticks: 1,
                attempt,
                node,
                fence,
                due,
                started,
                ended,
                state: State::Cancelled,
                error,
                note,
                retried: false,
            },
        );
    }
    // If no run is left and a job with a fixed delay has no next tick, a new delay begins now.
    if state.is_idle() {
        state.next_due = state.next_due.or(Some(context.now.saturating_add(state.delay(context.trigger))));
    }
}
