//! Sets a watermark in the future back. The watermark is the newest tick that was ever claimed. It lies in the future
//! if the store's clock was ahead when ticks were claimed.

use super::{
    history::add_history_line,
    ticks,
    types::{Plan, PlanContext},
};
use crate::{
    Kind, State,
    state::{HistoryEntry, JobState, format_time},
    trigger::{DurationMs, Trigger, UnixMs},
};

/// A watermark counts as in the future if it is ahead by more than this time. A claim may precede its tick by this
/// time, so a smaller distance is normal.
const MAX_EARLY_MS: DurationMs = ticks::MAX_EARLY_MS;

/// The later of the last claimed tick and the last end of a run, if it lies in the future because the store's clock was
/// ahead. Until this time the job does not fire (it rests). None if the job does not rest.
pub(crate) fn rests_until(state: &JobState, now: UnixMs) -> Option<UnixMs> {
    let ended = state.busy.map(|(_, ended)| ended);
    ended.max(Some(state.watermark)).filter(|until| *until > now.saturating_add(MAX_EARLY_MS))
}

/// Whether the job's only tick was claimed. A lower watermark would let it run again.
pub(crate) fn is_over(state: &JobState, trigger: &Trigger) -> bool {
    match trigger {
        Trigger::At(time) => *time <= state.watermark,
        Trigger::Once => state.anchor <= state.watermark,
        Trigger::Cron(_) | Trigger::FixedRate(_) | Trigger::FixedDelay(_) | Trigger::Never => false,
    }
}

/// Sets the watermark back, so that ticks run again from now on. The fence keeps its value, and rises with later
/// claims.
pub(super) fn reset(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, by: &str, reason: &str) {
    let now = context.now;
    let Some(until) = rests_until(state, now) else { return };
    state.watermark = state.watermark.min(now);
    state.seen = state.seen.min(now);
    state.born.iter_mut().for_each(|born| born.resets += 1);
    state.next_due = state.next_due.map(|due| due.min(now.saturating_add(context.trigger.delay())));
    // If the last run ended in the future, new ticks would count as overlapping with it. So this run is removed.
    state.busy = state.busy.filter(|(_, ended)| *ended <= now);
    if state.anchor > now {
        state.anchor = match context.trigger {
            // The ticks keep their distance from the old anchor: a multiple of the period.
            Trigger::FixedRate(period) => now + (state.anchor - now) % period,
            Trigger::Cron(_) | Trigger::FixedDelay(_) | Trigger::At(_) | Trigger::Once | Trigger::Never => now + 1,
        };
    }
    let note = format!("{by} set it back from {} to {}: {reason}", format_time(until), format_time(now));
    let (attempt, node, fence, started, error) = (0, None, None, None, None);
    let kind = Kind::Manual;
    let (from, tick, due, ended, note) = (Some(now), until, until, now, Some(note));
    add_history_line(
        state,
        plan,
        HistoryEntry {
            id: 0,
            kind,
            tick,
            from,
            ticks: 0,
            attempt,
            node,
            fence,
            due,
            started,
            ended,
            state: State::Reset,
            error,
            note,
        },
    );
}
