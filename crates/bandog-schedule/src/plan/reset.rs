//! Sets a job's watermark back, if it lies in the future. The watermark is the newest tick that was ever claimed. If
//! the store's clock is ahead when a tick is claimed, and is corrected later, the watermark lies in the future.

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

/// A watermark lies in the future if it is ahead of the store's clock by more than this time. A smaller distance is
/// normal, because a tick can be claimed this time before it is due.
const MAX_EARLY_MS: DurationMs = ticks::MAX_EARLY_MS;

/// The job rests until this time: it does not fire, because the store's clock was ahead. The time is either the
/// watermark or the end of the last run, whichever is later. None if this time does not lie in the future.
pub(crate) fn rests_until(state: &JobState, now: UnixMs) -> Option<UnixMs> {
    let ended = state.busy.map(|(_, ended)| ended);
    ended.max(Some(state.watermark)).filter(|until| *until > now.saturating_add(MAX_EARLY_MS))
}

/// Whether the job has only one tick, and this tick was claimed. If so, a lower watermark would make the tick run
/// again.
pub(crate) fn is_over(state: &JobState, trigger: &Trigger) -> bool {
    match trigger {
        Trigger::At(time) => *time <= state.watermark,
        Trigger::Once => state.anchor <= state.watermark,
        Trigger::Cron(_) | Trigger::FixedRate(_) | Trigger::FixedDelay(_) | Trigger::Never => false,
    }
}

/// Sets the watermark back to the present time, so ticks run again from now on. The fence does not change. It rises
/// with later claims.
pub(super) fn reset(state: &mut JobState, context: &PlanContext<'_>, plan: &mut Plan, by: &str, reason: &str) {
    let now = context.now;
    let Some(until) = rests_until(state, now) else { return };
    state.watermark = state.watermark.min(now);
    state.seen = state.seen.min(now);
    state.born.iter_mut().for_each(|born| born.resets += 1);
    state.next_due = state.next_due.map(|due| due.min(now.saturating_add(state.delay(context.trigger))));
    // If the last run has an end in the future, new ticks would count as overlapping with that run. So `busy` is
    // removed.
    state.busy = state.busy.filter(|(_, ended)| *ended <= now);
    if state.anchor > now {
        state.anchor = match context.trigger {
            // The periods of a fixed rate are counted from the anchor. The distance between the new and the old anchor
            // is a multiple of the period. So the ticks do not move.
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
            retried: false,
        },
    );
}
