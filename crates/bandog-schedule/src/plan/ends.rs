//! Runs that end: well, badly, or with their node.

use bandog_core::Holding;

use super::{Ended, Plan, View};
use crate::{
    Paused, State,
    state::{JobState, Live, Past, Waiting, time},
    trigger::Ms,
};

/// The death of a node that ran a run.
struct Death {
    /// Number of nodes that have died so.
    count: u32,
    most: u32,
    /// The run is given up.
    is_last: bool,
    is_cancelled: bool,
}

impl Death {
    /// What the history says of it.
    fn told(&self, why: &str) -> String {
        let Self { count, most, is_last, is_cancelled } = *self;
        match (is_cancelled, is_last, most) {
            (true, ..) | (_, true, 1) => why.to_owned(),
            (_, true, _) => format!("{why}: death {count} of {most}, the run is given up"),
            (_, false, _) => format!("{why}: death {count} of {most}, the run is tried again"),
        }
    }
}

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
        let may_again = is_cut_short && view.policy.on_crash.retries() && !live.cancel;
        let death = if ended.state == State::Lost { Some(self.death(view, &live)) } else { None };
        let again = may_again && death.as_ref().is_none_or(|death| !death.is_last);
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
            State::Interrupted if again => {}
            State::Lost if again => plan.died.add(live.tick),
            State::Cancelled | State::Interrupted => self.counts.failed += 1,
            State::Lost => {
                self.counts.lost += 1;
                plan.lost.add(live.tick);
            }
            // No run ends so.
            State::Queued | State::Running | State::Skipped | State::Missed | State::Reset => {}
        }
        let mut ended = ended.clone();
        if let Some(death) = death {
            let why = ended.error.as_deref().unwrap_or("its node lost its session");
            ended.error = Some(death.told(why));
        }
        self.remember(view, plan, live, ended);
    }

    pub(super) fn died(&mut self, view: &View<'_>, plan: &mut Plan, holding: &Holding) {
        while let Some(at) = self.running.iter().position(|live| live.holding().as_ref() == Some(holding)) {
            let live = self.running.remove(at);
            // Ticks since then did not come while it ran: nobody knows when it died.
            let (id, attempt, fence) = (live.id, live.attempt, live.fence);
            self.wait_from(view.now, view.trigger);
            let death = self.death(view, &live);
            if death.is_last || live.cancel {
                self.counts.lost += 1;
                plan.lost.add(live.tick);
            } else {
                self.queue.push_front(Waiting(id, live.kind, live.tick, attempt + 1));
                plan.died.add(live.tick);
            }
            let error = Some(death.told("its node died or lost its session"));
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

    /// Counts the death of the node that ran this run: also as a failure, so a job that kills its nodes is paused.
    fn death(&mut self, view: &View<'_>, live: &Live) -> Death {
        let (count, most) = (self.count_death(live.id), view.policy.on_crash.max_deaths());
        self.streak = self.streak.saturating_add(1);
        self.pause_after(view);
        Death { count, most, is_last: count >= most, is_cancelled: live.cancel }
    }

    fn pause_after(&mut self, view: &View<'_>) {
        if view.policy.pause_after.is_some_and(|most| self.streak >= most.get()) && self.paused.is_none() {
            let reason = format!("{} runs failed in a row", self.streak);
            self.paused = Some(Box::new(Paused { by: "bandog".into(), reason, at: time(view.now) }));
        }
    }
}
