//! Lines of the history: runs that ended, and ticks that did not run.

use bandog_core::{Line, Result};

use super::{Ended, Plan, View};
use crate::{
    Kind, State,
    misfire::Range,
    state::{JobState, Live, Past},
};

/// How many lines each ring of a job's history has.
const RING: u64 = 50;

impl JobState {
    /// Writes down a run that has ended.
    pub(super) fn remember(&mut self, view: &View<'_>, plan: &mut Plan, live: Live, ended: Ended) {
        let past = Past {
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
        };
        if view.session.is_some() || self.spec.is_some() {
            self.last = Some(Box::new(Past { note: None, ..past.clone() }));
        }
        self.line(plan, past);
    }

    /// Writes down ticks that do not run, as one.
    pub(super) fn leave_out(&mut self, view: &View<'_>, plan: &mut Plan, state: State, range: Range) {
        let Some(first) = range.first else { return };
        if state == State::Missed {
            self.counts.missed += range.ticks;
            plan.missed.join(range);
        } else {
            self.counts.skipped += range.ticks;
            plan.skipped += range.ticks;
        }
        let past = Past {
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
            ended: view.now,
            state,
            error: None,
            note: None,
        };
        self.line(plan, past);
    }

    /// A line in the ring that its state belongs to. Jobs of this process have no history to write.
    pub(super) fn line(&mut self, plan: &mut Plan, past: Past) {
        if self.spec.is_none() {
            return;
        }
        let (ring, name) = match past.state {
            State::Ok => (0, "ok"),
            State::Skipped | State::Missed | State::Reset => (2, "left"),
            State::Queued | State::Running => return,
            State::Failed | State::TimedOut | State::Cancelled | State::Interrupted | State::Lost => (1, "failed"),
        };
        let slot = format!("{name}:{}", self.rings[ring] % RING);
        self.rings[ring] += 1;
        if let Ok(value) = to_line(&past) {
            plan.lines.push(Line { slot, value });
        }
    }
}

fn to_line(past: &Past) -> Result<String> {
    serde_json::to_string(past).map_err(|source| bandog_core::Error::misused("a line of history").caused_by(source))
}
