//! Sets a watermark in the future back: the store's clock was ahead when its ticks were claimed.

use super::{Plan, PlanContext, delay};
use crate::{
    Kind, State,
    state::{HistoryEntry, JobState, format_time},
    trigger::{DurationMs, Trigger, UnixMs},
};

/// Minimum distance of a watermark in the future. A claim may precede its tick by this time.
const MAX_EARLY_MS: DurationMs = super::ticks::MAX_EARLY_MS;

impl JobState {
    /// End of the job's rest: the store's clock was ahead when the last tick was claimed or the last run ended. None if
    /// the job does not rest.
    pub(crate) fn rests_until(&self, now: UnixMs) -> Option<UnixMs> {
        let ended = self.busy.map(|(_, ended)| ended);
        ended.max(Some(self.watermark)).filter(|until| *until > now.saturating_add(MAX_EARLY_MS))
    }

    /// Whether the job's only tick was claimed. A lower watermark would let it run again.
    pub(crate) fn is_over(&self, trigger: &Trigger) -> bool {
        match trigger {
            Trigger::At(time) => *time <= self.watermark,
            Trigger::Once => self.anchor <= self.watermark,
            Trigger::Cron(_) | Trigger::FixedRate(_) | Trigger::FixedDelay(_) | Trigger::Never => false,
        }
    }

    /// Continues from now. The fence stays and rises further.
    pub(super) fn reset(&mut self, context: &PlanContext<'_>, plan: &mut Plan, by: &str, reason: &str) {
        let now = context.now;
        let Some(until) = self.rests_until(now) else { return };
        self.watermark = self.watermark.min(now);
        self.seen = self.seen.min(now);
        self.born.iter_mut().for_each(|born| born.resets += 1);
        self.next_due = self.next_due.map(|due| due.min(now.saturating_add(delay(context.trigger))));
        // Otherwise new ticks would count as overlapping.
        self.busy = self.busy.filter(|(_, ended)| *ended <= now);
        if self.anchor > now {
            self.anchor = match context.trigger {
                // The grid stays.
                Trigger::FixedRate(period) => now + (self.anchor - now) % period,
                Trigger::Cron(_) | Trigger::FixedDelay(_) | Trigger::At(_) | Trigger::Once | Trigger::Never => now + 1,
            };
        }
        let note = format!("{by} set it back from {} to {}: {reason}", format_time(until), format_time(now));
        let (attempt, node, fence, started, error) = (0, None, None, None, None);
        let (kind, state) = (Kind::Manual, State::Reset);
        let (from, tick, due, ended, note) = (Some(now), until, until, now, Some(note));
        self.add_history_line(
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
                state,
                error,
                note,
            },
        );
    }
}
