//! A watermark of the future, set back: the store's clock had been ahead when its ticks were claimed.

use super::{Plan, View, delay};
use crate::{
    Kind, State,
    state::{JobState, Past, time},
    trigger::{Ms, Trigger},
};

/// A claim may come so much before its tick, and clocks are told apart by no less.
const EARLY: Ms = super::ticks::EARLY;

impl JobState {
    /// Until when the job rests because the store's clock was ahead when its last tick was claimed, or when its last run
    /// ended; none if it does not.
    pub(crate) fn rests_until(&self, now: Ms) -> Option<Ms> {
        let ended = self.busy.map(|(_, ended)| ended);
        ended.max(Some(self.watermark)).filter(|until| *until > now.saturating_add(EARLY))
    }

    /// Whether its only tick was claimed: whoever sets its watermark back lets it run again.
    pub(crate) fn is_over(&self, trigger: &Trigger) -> bool {
        match trigger {
            Trigger::At(time) => *time <= self.watermark,
            Trigger::Once => self.anchor <= self.watermark,
            Trigger::Cron(_) | Trigger::FixedRate(_) | Trigger::FixedDelay(_) | Trigger::Never => false,
        }
    }

    /// Goes on from now. The fence is left as it is, so it rises over those of the time that was none.
    pub(super) fn reset(&mut self, view: &View<'_>, plan: &mut Plan, by: &str, reason: &str) {
        let now = view.now;
        let Some(until) = self.rests_until(now) else { return };
        self.watermark = self.watermark.min(now);
        self.seen = self.seen.min(now);
        self.born.iter_mut().for_each(|born| born.resets += 1);
        self.next_due = self.next_due.map(|due| due.min(now.saturating_add(delay(view.trigger))));
        // Ticks would be taken for ones that came while the job ran.
        self.busy = self.busy.filter(|(_, ended)| *ended <= now);
        if self.anchor > now {
            self.anchor = match view.trigger {
                // The grid stays where it is.
                Trigger::FixedRate(period) => now + (self.anchor - now) % period,
                Trigger::Cron(_) | Trigger::FixedDelay(_) | Trigger::At(_) | Trigger::Once | Trigger::Never => now + 1,
            };
        }
        let note = format!("{by} set it back from {} to {}: {reason}", time(until), time(now));
        let (attempt, node, fence, started, error) = (0, None, None, None, None);
        let (kind, state) = (Kind::Manual, State::Reset);
        let (from, tick, due, ended, note) = (Some(now), until, until, now, Some(note));
        self.line(
            plan,
            Past { id: 0, kind, tick, from, ticks: 0, attempt, node, fence, due, started, ended, state, error, note },
        );
    }
}
