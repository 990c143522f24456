//! Merges a node's copy of a record into the record in the store, which has lost some or all of its values.
//!
//! These are rules of a plan: they do no I/O and read no clock. The node's copy might be old, because other nodes might
//! have claimed ticks that the copy does not have. So if a tick might have been claimed before the loss, the tick is
//! recorded as missed and never runs. The watermark (the newest tick that was ever claimed) never falls.

use super::lineage::{Lineage, OpenRuns, has, is_beyond, is_fresh, lacks};
use crate::{
    Kind, State,
    misfire::TickRange,
    plan::{KnownRecord, Plan, PlanContext, RunEnd, add_history_line, end_run_for_good},
    state::{Creation, HistoryEntry, JobSpec, JobState, LiveRun, QueuedRun},
    trigger::UnixMs,
};

// Texts in the history for ticks that might have run or not, and for runs whose ends are unknown.
const TICKS_UNKNOWN: &str = "the store lost the job's record: whether another node ran them before that is not known";
const QUEUED_UNKNOWN: &str = "the store lost the job's record while they waited: whether they ran is not known";
const END_UNKNOWN: &str = "the store lost how the run ended";

/// Adds the values of a node's copy (`memory`) to the record. Returns false if the record lacks none of these values.
pub(crate) fn restore(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, memory: &KnownRecord) -> bool {
    let known = &*memory.state;
    if !lacks(state, known, memory.is_later) {
        return false;
    }
    // The other nodes are notified, because their copies might have newer values.
    plan.is_news = true;
    match Lineage::of(state, known) {
        Lineage::Same if memory.is_later && !is_beyond(state, known) => *state = known.clone(),
        Lineage::StoreLost if is_fresh(state) => inherit(state, context, plan, known),
        Lineage::Same => {
            settle_ended_runs(state, context, plan, known);
            keep_local_runs(state, context, known);
            raise_numbers(state, known);
        }
        Lineage::StoreLost | Lineage::Recreated => {
            settle_ended_runs(state, context, plan, known);
            raise_numbers(state, known);
        }
    }
    true
}

/// Raises the numbers that never fall, such as the watermark. If a number is greater in the node's copy, the record
/// gets the number of the copy.
fn raise_numbers(state: &mut JobState, known: &JobState) {
    state.watermark = state.watermark.max(known.watermark);
    state.fence = state.fence.max(known.fence);
    state.run = state.run.max(known.run);
    for (run, count) in known.deaths.iter().flat_map(|deaths| deaths.iter()) {
        let deaths = state.deaths.get_or_insert_default().entry(*run).or_default();
        *deaths = (*deaths).max(*count);
    }
    state.last_success = state.last_success.max(known.last_success);
    if known.all.as_ref().is_some_and(|all_pause| state.has_not_applied(all_pause)) {
        state.all.clone_from(&known.all);
    }
}

/// Ends the runs that are under way or queued in the record, but are over according to the node's copy. They do not run
/// again, also if it is not known how they ended.
fn settle_ended_runs(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, known: &JobState) {
    let open = OpenRuns::of(state, known);
    let over: Vec<LiveRun> = state.running.iter().filter(|live| open.is_over(live)).cloned().collect();
    for live in over {
        let is_its_end = |last: &HistoryEntry| (last.id, last.tick) == (live.id, live.tick);
        let end = known.last.as_deref().filter(|last| is_its_end(last));
        let end_state = end.map_or(State::Lost, |last| last.state);
        let error = end.map_or_else(|| Some(END_UNKNOWN.to_owned()), |last| last.error.clone());
        let (id, fence, attempt, at) = (live.id, live.fence, live.attempt, context.now);
        end_run_for_good(state, context, plan, &RunEnd { id, fence, attempt, state: end_state, at, error, note: None });
    }
    let over: Vec<QueuedRun> = state.queue.iter().filter(|queued| open.is_queue_over(queued)).copied().collect();
    state.queue.retain(|queued| !over.contains(queued));
    for QueuedRun { tick, .. } in over {
        state.counts.lost += 1;
        plan.lost.add(tick);
        add_history_line(state, plan, history_range((tick, tick, 1), State::Lost, context.now, END_UNKNOWN));
    }
}

/// Adds the local runs that the record has lost. Other nodes might have used the record since the loss, and might have
/// claimed some of these runs again. Such runs are not added.
fn keep_local_runs(state: &mut JobState, context: &PlanContext<'_>, known: &JobState) {
    for live in known.running.iter().filter(|live| is_ours(context, live)) {
        let is_claimed_again = match live.kind {
            Kind::Manual | Kind::Backfill => live.id <= state.run,
            Kind::Scheduled | Kind::CatchUp | Kind::Unclaimed => live.tick <= state.watermark,
        };
        if !is_claimed_again && !has(state, live) {
            state.running.push(live.clone());
        }
    }
}

/// Adds the values of the node's copy to a record that a node has created without these values.
fn inherit(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, known: &JobState) {
    let Some(Creation { at, fresh, .. }) = state.born.as_deref_mut() else { return };
    // Whether nothing was claimed in the new record yet. `at`: the time of its creation.
    let is_untouched = state.watermark == *at - 1 && state.run == 0;
    let until = *at - 1;
    *fresh = false;
    let counts = known.counts;
    state.counts.ok += counts.ok;
    state.counts.failed += counts.failed;
    state.counts.cancelled += counts.cancelled;
    state.counts.skipped += counts.skipped;
    state.counts.missed += counts.missed;
    state.counts.lost += counts.lost;
    if state.last.is_none() {
        (state.streak, state.busy, state.last) = (known.streak, known.busy, known.last.clone());
    }
    if state.paused.is_none() {
        state.paused.clone_from(&known.paused);
    }
    if state.spec.as_ref().map(|spec| &spec.trigger) == known.spec.as_ref().map(|spec| &spec.trigger) {
        // With the known anchor, the ticks of a fixed rate do not move, and a job that fires once does not fire again.
        state.anchor = known.anchor;
    }
    record_unknown_ticks(state, context, plan, known, until);
    let has_runs = take_over(state, context, plan, known);
    if is_untouched {
        state.next_due = match known.next_due {
            Some(due) if due > until => Some(due),
            None if has_runs => None,
            Some(_) | None => Some(context.now.saturating_add(state.delay(context.trigger))),
        };
    }
    raise_numbers(state, known);
}

/// Records the ticks between the watermark of the node's copy and the time `until`. It is not known whether these ticks
/// ran.
fn record_unknown_ticks(
    state: &mut JobState,
    context: &PlanContext<'_>,
    plan: &mut Plan,
    known: &JobState,
    until: UnixMs,
) {
    let spec = known.spec.as_deref();
    if spec.is_some_and(|spec| !spec.enabled) {
        return;
    }
    let trigger = spec.and_then(JobSpec::trigger);
    let range = TickRange::until(trigger.as_ref().unwrap_or(context.trigger), known.tick_cursor(), until);
    let Some(first) = range.first else { return };
    let tick_state = if known.is_paused() {
        state.counts.skipped += range.ticks;
        plan.skipped += range.ticks;
        State::Skipped
    } else {
        state.counts.missed += range.ticks;
        plan.missed.join(range);
        State::Missed
    };
    let line = history_range((first, range.last, range.ticks), tick_state, context.now, TICKS_UNKNOWN);
    add_history_line(state, plan, line);
}

/// Adds the runs under way and the queued runs of the node's copy to the record. The store has lost the sessions of the
/// nodes too. So the runs under way are treated as runs of dead nodes later. Returns true if a run is under way or
/// queued.
fn take_over(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, known: &JobState) -> bool {
    state.running.extend(known.running.iter().cloned());
    let mut lost = TickRange::default();
    if context.policy.on_crash.retries() {
        // They might have started after this node had read the record.
        state.queue.extend(known.queue.iter().map(|queued| QueuedRun { attempt: queued.attempt + 1, ..*queued }));
    } else {
        known.queue.iter().for_each(|queued| lost.add(queued.tick));
    }
    if let Some(first) = lost.first {
        state.counts.lost += lost.ticks;
        plan.lost.join(lost);
        add_history_line(
            state,
            plan,
            history_range((first, lost.last, lost.ticks), State::Lost, context.now, QUEUED_UNKNOWN),
        );
    }
    !state.running.is_empty() || !state.queue.is_empty()
}

/// Whether this node has claimed the run under its present session.
fn is_ours(context: &PlanContext<'_>, live: &LiveRun) -> bool {
    context.session.is_some() && live.holding().as_ref() == context.session
}

/// A line of the history for a range of ticks. `why`: the explanation for operators.
fn history_range((first, last, ticks): (UnixMs, UnixMs, u64), state: State, now: UnixMs, why: &str) -> HistoryEntry {
    HistoryEntry {
        id: 0,
        kind: Kind::Scheduled,
        tick: last,
        from: Some(first),
        ticks,
        attempt: 0,
        node: None,
        fence: None,
        due: last,
        started: None,
        ended: now,
        state,
        error: Some(why.to_owned()),
        note: None,
        retried: false,
    }
}

#[cfg(test)]
mod tests;
