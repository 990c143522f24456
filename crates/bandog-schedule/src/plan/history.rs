//! Lines of the history: runs that ended, and ticks that did not run.

use bandog_core::{Line, Result};

use super::types::{Plan, PlanContext, RunEnd};
use crate::{
    Kind, State,
    misfire::TickRange,
    state::{HistoryEntry, JobState, LiveRun},
};

/// Number of lines in each ring of a job's history. When a ring is full, a new line replaces the oldest line. A history
/// has three rings: for successful runs, for other runs, and for ticks that did not run.
const RING: u64 = 50;

/// Records the end of a run, or of an attempt that another node repeats (`will_retry`).
pub(super) fn record_end(
    state: &mut JobState,
    context: &PlanContext<'_>,
    plan: &mut Plan,
    live: LiveRun,
    ended: RunEnd,
    will_retry: bool,
) {
    let past = HistoryEntry {
        id: live.id,
        kind: live.kind,
        tick: live.tick,
        from: None,
        ticks: 1,
        attempt: ended.attempt,
        node: Some(live.node),
        fence: Some(live.fence),
        due: live.due,
        started: Some(live.started),
        ended: ended.at,
        state: ended.state,
        error: ended.error,
        note: ended.note,
        retried: will_retry,
    };
    if matches!(past.state, State::Failed | State::TimedOut | State::Lost) && !will_retry {
        plan.failures.push(past.clone());
    }
    if context.session.is_some() || state.spec.is_some() {
        state.last = Some(Box::new(HistoryEntry { note: None, ..past.clone() }));
    }
    add_history_line(state, plan, past);
}

/// Records a range of ticks that do not run. `reason`: `Skipped` or `Missed`.
pub(super) fn record_not_run(
    state: &mut JobState,
    context: &PlanContext<'_>,
    plan: &mut Plan,
    reason: State,
    range: TickRange,
) {
    record_noted(state, context, plan, reason, range, None);
}

/// As [`record_not_run`], with a note for operators.
pub(super) fn record_noted(
    state: &mut JobState,
    context: &PlanContext<'_>,
    plan: &mut Plan,
    reason: State,
    range: TickRange,
    note: Option<String>,
) {
    let Some(first) = range.first else { return };
    if reason == State::Missed {
        state.counts.missed += range.ticks;
        plan.missed.join(range);
    } else {
        state.counts.skipped += range.ticks;
        plan.skipped += range.ticks;
    }
    let past = HistoryEntry {
        id: 0,
        kind: Kind::Scheduled,
        tick: range.last,
        from: Some(first),
        ticks: range.ticks,
        attempt: 0,
        node: None,
        fence: None,
        due: range.last,
        started: None,
        ended: context.now,
        state: reason,
        error: None,
        note,
        retried: false,
    };
    add_history_line(state, plan, past);
}

/// Adds a line to the ring for the line's state. Jobs of this process have no history.
pub(crate) fn add_history_line(state: &mut JobState, plan: &mut Plan, past: HistoryEntry) {
    if state.spec.is_none() {
        return;
    }
    let (ring, name) = match past.state {
        State::Ok => (0, "ok"),
        State::Skipped | State::Missed | State::Reset => (2, "left"),
        State::Queued | State::Running => return,
        State::Failed | State::TimedOut | State::Cancelled | State::Interrupted | State::Lost => (1, "failed"),
    };
    let slot = format!("{name}:{}", state.rings[ring] % RING);
    state.rings[ring] += 1;
    if let Ok(value) = to_line(&past) {
        plan.lines.push(Line { slot, value });
    }
}

fn to_line(past: &HistoryEntry) -> Result<String> {
    serde_json::to_string(past).map_err(|source| bandog_core::Error::misused("a line of history").caused_by(source))
}
