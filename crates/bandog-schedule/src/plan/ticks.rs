//! Ticks that are due, and runs that can start.

use std::{collections::VecDeque, sync::Arc};

use super::{Plan, View, at_a_time, delay, most_of};
use crate::{
    Kind, Overlap, State,
    misfire::{self, Range},
    state::{JobState, Live, Waiting},
    trigger::Ms,
};

/// How much earlier than its tick a run may be claimed, by the store's clock.
pub(crate) const EARLY: Ms = 500;

impl JobState {
    pub(super) fn ticks(&mut self, view: &View<'_>, plan: &mut Plan) {
        if !view.policy.enabled || !view.is_current || self.is_paused() {
            return;
        }
        let busy = self.busy.filter(|_| at_a_time(view.policy.overlap) == 1);
        let since = misfire::since(view.name, view.trigger, view.policy, self.place(), busy, view.now);
        let Some(last) = since.last else { return };
        self.watermark = last;
        self.next_due = None;
        plan.not_before = Some(last.saturating_sub(EARLY));
        let mut skipped = Range::default();
        let is_blocked = !self.running.is_empty();
        let mut runs = since.run;
        match view.policy.overlap {
            Overlap::Skip => {
                since.overlapped.iter().for_each(|tick| skipped.add(*tick));
                // Ticks that waited together for a place or a node would come while the one before them runs.
                let caught = runs.iter().filter(|(_, kind)| *kind == Kind::CatchUp).count();
                let latest = runs.len().saturating_sub(1).max(caught);
                runs.drain(caught..latest).for_each(|(tick, _)| skipped.add(tick));
            }
            Overlap::Queue(_) | Overlap::Allow(_) | Overlap::Replace => {
                runs.extend(since.overlapped.iter().map(|tick| (*tick, Kind::Scheduled)));
                runs.sort_unstable_by_key(|(tick, _)| *tick);
            }
        }
        if view.policy.overlap == Overlap::Replace {
            self.replace(view, plan, &mut runs, &mut skipped);
        }
        for (tick, kind) in runs {
            let waiting = self.queue.len();
            let has_room = match view.policy.overlap {
                Overlap::Skip => !is_blocked,
                Overlap::Queue(most) => waiting < most_of(most),
                Overlap::Allow(most) => waiting + self.running.len() < most_of(most),
                Overlap::Replace => true,
            };
            if has_room {
                self.enqueue(kind, tick);
            } else {
                skipped.add(tick);
            }
        }
        self.leave_out(view, plan, State::Skipped, skipped);
        self.leave_out(view, plan, State::Missed, since.missed);
        if self.running.is_empty() && self.queue.is_empty() {
            self.next_due = Some(view.now.saturating_add(delay(view.trigger)));
        }
    }

    /// The last tick takes the place of everything before it.
    fn replace(&mut self, view: &View<'_>, plan: &mut Plan, runs: &mut Vec<(Ms, Kind)>, skipped: &mut Range) {
        let Some(last) = runs.pop() else { return };
        runs.drain(..).for_each(|(tick, _)| skipped.add(tick));
        runs.push(last);
        let by_hand = |waiting: &Waiting| matches!(waiting.1, Kind::Manual | Kind::Backfill);
        let (kept, gone) = self.queue.iter().partition::<Vec<Waiting>, _>(|waiting| by_hand(waiting));
        gone.iter().for_each(|waiting| skipped.add(waiting.2));
        self.queue = kept.into();
        for live in &mut self.running {
            live.cancel = true;
            plan.is_news |= live.node != *view.node;
        }
    }

    pub(super) fn start(&mut self, view: &View<'_>, plan: &mut Plan) {
        while self.can_start(view.policy) {
            if plan.starts >= view.places {
                plan.is_starved = view.is_current;
                return;
            }
            let Some(Waiting(id, kind, tick, attempt)) = self.queue.pop_front() else { return };
            if self.queue.is_empty() {
                // Hardly any job has a queue, and there may be a million of them.
                self.queue = VecDeque::new();
            }
            self.fence = (self.fence + 1).max(u64::try_from(view.now.saturating_mul(1000)).unwrap_or(0));
            let due = match kind {
                Kind::Scheduled | Kind::CatchUp => misfire::due(view.name, view.policy, tick),
                Kind::Manual | Kind::Backfill | Kind::Unclaimed => tick,
            };
            let session = view.session.map(|held| Box::new((held.key.to_string(), held.id.to_string())));
            let (fence, started, node) = (self.fence, view.now, Arc::clone(view.node));
            self.running.reserve_exact(1);
            self.running.push(Live { id, kind, tick, due, attempt, fence, started, node, session, cancel: false });
            plan.starts += 1;
        }
    }

    pub(super) fn enqueue(&mut self, kind: Kind, tick: Ms) -> u64 {
        self.run += 1;
        if self.queue.is_empty() {
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(Waiting(self.run, kind, tick, 1));
        self.run
    }
}
