//! Commands of operators.

use super::{Command, Plan, PlanContext, delay};
use crate::{
    Kind, State,
    misfire::TickRange,
    pauses::AllJobsPause,
    state::{HistoryEntry, JobState, QueuedRun},
};

impl JobState {
    pub(super) fn apply_command(&mut self, context: &PlanContext<'_>, plan: &mut Plan, command: &Command) {
        match command {
            Command::Run => plan.runs.push(self.enqueue(Kind::Manual, context.now)),
            Command::Backfill(ticks) => {
                for tick in ticks {
                    let id = self.enqueue(Kind::Backfill, *tick);
                    plan.runs.push(id);
                }
            }
            Command::Pause(paused) => self.paused = Some(Box::new(paused.clone())),
            Command::Resume => self.resume(context, plan),
            Command::SetAllJobsPause(command) => self.apply_all_jobs_pause(context, plan, command),
            Command::Cancel(run) => self.cancel(context, plan, *run),
            Command::Reset { by, reason } => self.reset(context, plan, by, reason),
        }
    }

    fn resume(&mut self, context: &PlanContext<'_>, plan: &mut Plan) {
        if self.paused.take().is_some() {
            self.streak = 0;
            self.go_on(context, plan);
        }
    }

    /// Applies a pause or resume of all jobs, unless the job has applied it already.
    pub(super) fn apply_all_jobs_pause(&mut self, context: &PlanContext<'_>, plan: &mut Plan, command: &AllJobsPause) {
        if !self.has_not_applied(command) {
            return;
        }
        let was_paused = self.all_paused().is_some();
        self.all = Some(Box::new(command.clone()));
        if was_paused && command.paused.is_none() {
            self.go_on(context, plan);
        }
    }

    /// Skips the ticks that came during the pause. If another pause is still in effect, they are skipped when that
    /// ends.
    fn go_on(&mut self, context: &PlanContext<'_>, plan: &mut Plan) {
        if self.is_paused() {
            return;
        }
        let skipped = TickRange::until(context.trigger, self.tick_cursor(), context.now);
        if skipped.ticks > 0 {
            self.watermark = skipped.last;
            if self.spec.as_ref().is_some_and(|spec| !spec.enabled) {
                // They would not have run anyway.
                return;
            }
            self.next_due = self.next_due.map(|due| due.max(context.now));
            self.record_not_run(context, plan, State::Skipped, skipped);
        }
    }

    fn cancel(&mut self, context: &PlanContext<'_>, plan: &mut Plan, run: Option<u64>) {
        let is_meant = |id: u64| run.is_none_or(|run| run == id);
        for live in self.running.iter_mut().filter(|live| is_meant(live.id)) {
            live.cancel = true;
            plan.runs.push(live.id);
        }
        let (gone, left) = self.queue.iter().partition::<Vec<QueuedRun>, _>(|queued| is_meant(queued.id));
        self.queue = left.into();
        for QueuedRun { id, kind, tick, attempt } in gone {
            self.counts.failed += 1;
            plan.runs.push(id);
            let (due, ended) = (tick, context.now);
            let (from, node, fence, started, error, note) = (None, None, None, None, None, None);
            let state = State::Cancelled;
            self.add_history_line(
                plan,
                HistoryEntry {
                    id,
                    kind,
                    tick,
                    from,
                    ticks: 1,
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
        if self.running.is_empty() && self.queue.is_empty() {
            self.next_due = self.next_due.or(Some(context.now.saturating_add(delay(context.trigger))));
        }
    }
}
