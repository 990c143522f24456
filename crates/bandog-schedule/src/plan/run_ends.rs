//! Ends of runs, by themselves or with their node.

use bandog_core::Holding;

use super::{Plan, PlanContext, RunEnd};
use crate::{
    Paused, State,
    state::{HistoryEntry, JobState, LiveRun, QueuedRun, format_time},
    trigger::UnixMs,
};

/// The death of a node during a run.
struct Death {
    /// Number of nodes that died during this run.
    count: u32,
    max: u32,
    /// The run is not tried again.
    is_last: bool,
    is_cancelled: bool,
}

impl Death {
    /// The text for the history.
    fn text(&self, why: &str) -> String {
        let Self { count, max, is_last, is_cancelled } = *self;
        match (is_cancelled, is_last, max) {
            (true, ..) | (_, true, 1) => why.to_owned(),
            (_, true, _) => format!("{why}: death {count} of {max}, the run is given up"),
            (_, false, _) => format!("{why}: death {count} of {max}, the run is tried again"),
        }
    }
}

impl JobState {
    pub(super) fn end_run(&mut self, context: &PlanContext<'_>, plan: &mut Plan, ended: &RunEnd) {
        let is_it = |live: &LiveRun| live.id == ended.id && live.fence == ended.fence;
        let Some(at) = self.running.iter().position(is_it) else {
            plan.is_fenced = true;
            return;
        };
        let live = self.running.remove(at);
        self.busy = Some((live.started, ended.at.max(live.started)));
        let is_cut_short = matches!(ended.state, State::Interrupted | State::Lost);
        let may_retry = is_cut_short && context.policy.on_crash.retries() && !live.cancel;
        let death = if ended.state == State::Lost { Some(self.death(context, &live)) } else { None };
        let will_retry = may_retry && death.as_ref().is_none_or(|death| !death.is_last);
        if will_retry {
            let (id, kind, tick) = (live.id, live.kind, live.tick);
            self.queue.push_front(QueuedRun { id, kind, tick, attempt: ended.attempt + 1 });
            plan.is_news = true;
        }
        self.wait_from(ended.at, context.trigger);
        match ended.state {
            State::Ok => {
                self.counts.ok += 1;
                self.streak = 0;
                self.last_success = self.last_success.max(Some(live.tick));
            }
            State::Failed | State::TimedOut => {
                self.counts.failed += 1;
                self.streak += 1;
                self.pause_after(context);
            }
            // The run counts once, at its last attempt.
            State::Interrupted if will_retry => {}
            State::Lost if will_retry => plan.died.add(live.tick),
            State::Cancelled | State::Interrupted => self.counts.failed += 1,
            State::Lost => {
                self.counts.lost += 1;
                plan.lost.add(live.tick);
            }
            // These are no ends of runs.
            State::Queued | State::Running | State::Skipped | State::Missed | State::Reset => {}
        }
        let mut ended = ended.clone();
        if let Some(death) = death {
            let why = ended.error.as_deref().unwrap_or("its node lost its session");
            ended.error = Some(death.text(why));
        }
        self.record_end(context, plan, live, ended);
    }

    pub(super) fn end_runs_of_dead_node(&mut self, context: &PlanContext<'_>, plan: &mut Plan, holding: &Holding) {
        while let Some(at) = self.running.iter().position(|live| live.holding().as_ref() == Some(holding)) {
            let live = self.running.remove(at);
            // Does not set `busy`: the time of the death is unknown, so later ticks do not count as overlapping.
            let (id, attempt, fence) = (live.id, live.attempt, live.fence);
            self.wait_from(context.now, context.trigger);
            let death = self.death(context, &live);
            if death.is_last || live.cancel {
                self.counts.lost += 1;
                plan.lost.add(live.tick);
            } else {
                let (kind, tick) = (live.kind, live.tick);
                self.queue.push_front(QueuedRun { id, kind, tick, attempt: attempt + 1 });
                plan.died.add(live.tick);
            }
            let error = Some(death.text("its node died or lost its session"));
            let ended = RunEnd { id, fence, attempt, state: State::Lost, at: context.now, error, note: None };
            self.record_end(context, plan, live, ended);
        }
    }

    /// The run may never report its end, since only its node knows of it. So a fixed delay counts from now.
    pub(super) fn ran_unclaimed(&mut self, context: &PlanContext<'_>, tick: UnixMs, may_still_run: bool) {
        self.mark_ran(tick, context.trigger);
        if may_still_run {
            self.wait_from_unclaimed(context.now, context.trigger);
        }
    }

    pub(super) fn unclaimed_ended(&mut self, context: &PlanContext<'_>, plan: &mut Plan, past: &HistoryEntry) {
        let is_it = |last: &HistoryEntry| (last.fence, last.tick, &last.node) == (past.fence, past.tick, &past.node);
        if self.last.as_deref().is_some_and(is_it) {
            // An earlier swap has written this end, but its answer was lost.
            return;
        }
        self.wait_from_unclaimed(past.ended, context.trigger);
        if past.state == State::Ok {
            self.counts.ok += 1;
            self.last_success = self.last_success.max(Some(past.tick));
        } else {
            self.counts.failed += 1;
        }
        self.last = Some(Box::new(HistoryEntry { note: None, ..past.clone() }));
        self.add_history_line(plan, past.clone());
    }

    /// Counts the death of the node of this run, also as a failure: [`crate::Job::pause_after`] pauses a job that kills
    /// its nodes.
    fn death(&mut self, context: &PlanContext<'_>, live: &LiveRun) -> Death {
        let (count, max) = (self.count_death(live.id), context.policy.on_crash.max_deaths());
        self.streak = self.streak.saturating_add(1);
        self.pause_after(context);
        Death { count, max, is_last: count >= max, is_cancelled: live.cancel }
    }

    fn pause_after(&mut self, context: &PlanContext<'_>) {
        if context.policy.pause_after.is_some_and(|max| self.streak >= max.get()) && self.paused.is_none() {
            let reason = format!("{} runs failed in a row", self.streak);
            self.paused = Some(Box::new(Paused { by: "bandog".into(), reason, at: format_time(context.now) }));
        }
    }
}
