//! Runs that end: well, badly, or with their node.

use bandog_core::Holding;

use super::{Ended, Plan, View};
use crate::{
    OnCrash, Paused, State,
    state::{JobState, Live, Past, Waiting, time},
    trigger::Ms,
};

impl JobState {
    pub(super) fn ended(&mut self, view: &View<'_>, plan: &mut Plan, ended: &Ended) {
        let is_it = |live: &Live| live.id == ended.id && live.fence == ended.fence;
        let Some(at) = self.running.iter().position(is_it) else {
            plan.is_fenced = true;
            return;
        };
        let live = self.running.remove(at);
        self.busy = Some((live.started, ended.at.max(live.started)));
        let is_cut_short = matches!(ended.state, State::Interrupted | State::Lost);
        let again = is_cut_short && view.policy.on_crash == OnCrash::Retry && !live.cancel;
        if again {
            self.queue.push_front(Waiting(live.id, live.kind, live.tick, ended.attempt + 1));
            plan.is_news = true;
        }
        self.wait_from(ended.at, view.trigger);
        match ended.state {
            State::Ok => {
                self.counts.ok += 1;
                self.streak = 0;
                self.last_success = self.last_success.max(Some(live.tick));
            }
            State::Failed | State::TimedOut => {
                self.counts.failed += 1;
                self.streak += 1;
                self.pause_after(view);
            }
            // Its tick is counted when it ends for good.
            State::Interrupted | State::Lost if again => {}
            State::Cancelled | State::Interrupted => self.counts.failed += 1,
            State::Lost => {
                self.counts.lost += 1;
                plan.lost.add(live.tick);
            }
            // No run ends so.
            State::Queued | State::Running | State::Skipped | State::Missed | State::Reset => {}
        }
        self.remember(view, plan, live, ended.clone());
    }

    pub(super) fn died(&mut self, view: &View<'_>, plan: &mut Plan, holding: &Holding) {
        while let Some(at) = self.running.iter().position(|live| live.holding().as_ref() == Some(holding)) {
            let live = self.running.remove(at);
            // Ticks since then did not come while it ran: nobody knows when it died.
            let (id, attempt, fence) = (live.id, live.attempt, live.fence);
            self.wait_from(view.now, view.trigger);
            if view.policy.on_crash == OnCrash::Retry && !live.cancel {
                self.queue.push_front(Waiting(id, live.kind, live.tick, attempt + 1));
                continue;
            }
            self.counts.lost += 1;
            plan.lost.add(live.tick);
            let error = Some("its node died or lost its session".to_owned());
            let ended = Ended { id, fence, attempt, state: State::Lost, at: view.now, error, note: None };
            self.remember(view, plan, live, ended);
        }
    }

    /// Nobody else knows of the run, and while it lives its node may die: so others wait for a fixed delay from now on.
    pub(super) fn ran_unclaimed(&mut self, view: &View<'_>, tick: Ms, lives: bool) {
        self.ran(tick, view.trigger);
        if lives {
            self.wait_from_unclaimed(view.now, view.trigger);
        }
    }

    pub(super) fn unclaimed_ended(&mut self, view: &View<'_>, plan: &mut Plan, past: &Past) {
        let is_it = |last: &Past| (last.fence, last.tick, &last.node) == (past.fence, past.tick, &past.node);
        if self.last.as_deref().is_some_and(is_it) {
            // The answer to the swap that took it in was lost.
            return;
        }
        self.wait_from_unclaimed(past.ended, view.trigger);
        if past.state == State::Ok {
            self.counts.ok += 1;
            self.last_success = self.last_success.max(Some(past.tick));
        } else {
            self.counts.failed += 1;
        }
        self.last = Some(Box::new(Past { note: None, ..past.clone() }));
        self.line(plan, past.clone());
    }

    fn pause_after(&mut self, view: &View<'_>) {
        if view.policy.pause_after.is_some_and(|most| self.streak >= most.get()) && self.paused.is_none() {
            let reason = format!("{} runs failed in a row", self.streak);
            self.paused = Some(Box::new(Paused { by: "bandog".into(), reason, at: time(view.now) }));
        }
    }
}
