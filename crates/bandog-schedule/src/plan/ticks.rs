//! Claims of ticks that are due, and starts of runs.

use std::{collections::VecDeque, sync::Arc};

use super::{
    history::{record_not_run, record_noted},
    types::{Plan, PlanContext},
};
use crate::{
    CatchUp, Kind, Overlap, Paused, State,
    misfire::{self, TickRange},
    policy::{Policy, to_usize},
    state::{JobState, LiveRun, QueuedRun, SessionClaim},
    trigger::{DurationMs, UnixMs},
};

/// Maximum time by which the claim of a tick can precede the time at which the tick is due. The store checks this limit
/// with its own clock.
pub(crate) const MAX_EARLY_MS: DurationMs = 500;

/// Claims the ticks that are due: adds their runs to the queue, and raises the watermark (the newest tick that was ever
/// claimed).
pub(super) fn claim_ticks(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan) {
    if !context.policy.enabled || !context.is_current {
        return;
    }
    if state.is_paused() {
        record_pause(state, context, plan);
        return;
    }
    let busy = state.busy.filter(|_| context.policy.overlap.max_runs() == 1);
    let due = misfire::due_ticks(context.name, context.trigger, context.policy, state.tick_cursor(), busy, context.now);
    let Some(last) = due.last else { return };
    state.watermark = last;
    state.next_due = None;
    plan.not_before = Some(last.saturating_sub(MAX_EARLY_MS));
    let mut skipped = TickRange::default();
    let had_queue = !state.queue.is_empty();
    // Whether a run under way prevents new runs. Only the policy `Overlap::Skip` uses this value.
    let is_blocked = !state.running.is_empty();
    let mut runs = due.run;
    match context.policy.overlap {
        Overlap::Skip => {
            due.overlapped.iter().for_each(|tick| skipped.add(*tick));
            // If several ticks have waited for a slot or a node, only the latest one runs. The run of an earlier tick
            // would overlap with the next tick. `caught`: number of ticks that are caught up. They are the first
            // elements of `runs`.
            let caught = runs.iter().filter(|(_, kind)| *kind == Kind::CatchUp).count();
            let latest = runs.len().saturating_sub(1).max(caught);
            runs.drain(caught..latest).for_each(|(tick, _)| skipped.add(tick));
            if !runs.is_empty() && !is_blocked {
                drop_waiting(state, context.policy, &mut skipped);
            }
        }
        Overlap::Queue(_) | Overlap::Allow(_) | Overlap::Replace => {
            runs.extend(due.overlapped.iter().map(|tick| (*tick, Kind::Scheduled)));
            runs.sort_unstable_by_key(|(tick, _)| *tick);
        }
    }
    if context.policy.overlap == Overlap::Replace {
        replace(state, context, plan, &mut runs, &mut skipped);
    }
    for (tick, kind) in runs {
        let waiting = state.queue.len();
        let has_room = match context.policy.overlap {
            Overlap::Skip => !is_blocked,
            Overlap::Queue(most) => waiting < to_usize(most),
            Overlap::Allow(most) => waiting + state.running.len() < to_usize(most),
            Overlap::Replace => true,
        };
        if has_room {
            enqueue(state, kind, tick);
        } else {
            skipped.add(tick);
        }
    }
    plan.begins_queue |= !had_queue && !state.queue.is_empty();
    record_not_run(state, context, plan, State::Skipped, skipped);
    record_not_run(state, context, plan, State::Missed, due.missed);
    if state.is_idle() {
        state.wait_from(context.now, context.trigger);
    }
}

/// Records the first tick that a pause skips, so that the history shows the pause. The further ticks are recorded at the
/// end of the pause, because a line for each of them would fill the history.
fn record_pause(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan) {
    let Some(Paused { by, reason, .. }) = state.unrecorded_pause() else { return };
    let note = format!("paused by {by}: {reason}; further ticks are recorded at the end of the pause");
    let skipped = TickRange::until(context.trigger, state.tick_cursor(), context.now);
    if skipped.ticks > 0 {
        state.watermark = skipped.last;
        // A fixed delay has no further tick until the end of the pause.
        state.next_due = state.next_due.filter(|_| context.trigger.delay() == 0);
        plan.not_before = Some(skipped.last.saturating_sub(MAX_EARLY_MS));
        record_noted(state, context, plan, State::Skipped, skipped, Some(note));
    }
}

/// Applies the policy `Overlap::Skip` to ticks that wait in the queue for a slot: a later tick replaces them.
fn drop_waiting(state: &mut JobState, policy: &Policy, skipped: &mut TickRange) {
    state.queue.retain(|queued| {
        let is_replaced = match queued.kind {
            Kind::Scheduled => true,
            Kind::CatchUp => policy.catch_up == CatchUp::Once,
            Kind::Manual | Kind::Backfill | Kind::Unclaimed => false,
        } && queued.attempt == 1;
        if is_replaced {
            skipped.add(queued.tick);
        }
        !is_replaced
    });
}

/// Applies the policy `Overlap::Replace`: the latest tick replaces the queued ticks and cancels the runs under way.
/// Runs that an operator has requested stay in the queue.
fn replace(
    state: &mut JobState,
    context: &PlanContext<'_>,
    plan: &mut Plan,
    runs: &mut Vec<(UnixMs, Kind)>,
    skipped: &mut TickRange,
) {
    let Some(last) = runs.pop() else { return };
    runs.drain(..).for_each(|(tick, _)| skipped.add(tick));
    runs.push(last);
    // Whether an operator has requested the run.
    let by_hand = |queued: &QueuedRun| matches!(queued.kind, Kind::Manual | Kind::Backfill);
    let (kept, gone) = state.queue.iter().partition::<Vec<QueuedRun>, _>(|queued| by_hand(queued));
    gone.iter().for_each(|queued| skipped.add(queued.tick));
    state.queue = kept.into();
    for live in &mut state.running {
        live.cancel = true;
        plan.is_news |= live.node != *context.node;
    }
}

/// The position of the next queued run, if the overlap policy allows one more run.
fn startable(state: &JobState, context: &PlanContext<'_>) -> Option<usize> {
    if state.running.len() >= context.policy.overlap.max_runs() {
        return None;
    }
    state.queue.iter().position(|queued| !state.awaits_copies(queued.tick, context.now))
}

/// Starts queued runs on this node, until the overlap policy or the number of free slots allows no further run.
pub(super) fn start_runs(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan) {
    while let Some(at) = startable(state, context) {
        if plan.starts >= context.free_slots {
            plan.is_starved = context.is_current;
            // The run may start on another node. Of a queue with earlier runs the other nodes know already.
            plan.is_news |= plan.begins_queue;
            return;
        }
        let Some(QueuedRun { id, kind, tick, attempt }) = state.queue.remove(at) else { return };
        if state.queue.is_empty() {
            // Frees the memory of the queue. There might be a million jobs, and few of them have queued runs.
            state.queue = VecDeque::new();
        }
        state.fence = (state.fence + 1).max(u64::try_from(context.now.saturating_mul(1000)).unwrap_or(0));
        let due = match kind {
            Kind::Scheduled | Kind::CatchUp => misfire::due_time(context.name, context.policy, tick),
            Kind::Manual | Kind::Backfill | Kind::Unclaimed => tick,
        };
        let session = context.session.map(|held| Box::new(SessionClaim::new(held)));
        let (fence, started, node) = (state.fence, context.now, Arc::clone(context.node));
        state.running.reserve_exact(1);
        state.running.push(LiveRun { id, kind, tick, due, attempt, fence, started, node, session, cancel: false });
        plan.starts += 1;
    }
}

/// Adds a run to the end of the queue, and returns its number.
pub(super) fn enqueue(state: &mut JobState, kind: Kind, tick: UnixMs) -> u64 {
    state.run += 1;
    if state.queue.is_empty() {
        state.queue.reserve_exact(1);
    }
    state.queue.push_back(QueuedRun { id: state.run, kind, tick, attempt: 1 });
    state.run
}
