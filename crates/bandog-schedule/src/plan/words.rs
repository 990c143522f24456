//! Words of operators.

use super::{Plan, View, Word, delay};
use crate::{
    Kind, State,
    misfire::Range,
    pauses::All,
    state::{JobState, Past, Waiting},
};

impl JobState {
    pub(super) fn said(&mut self, view: &View<'_>, plan: &mut Plan, word: &Word) {
        match word {
            Word::Run => plan.reached.push(self.enqueue(Kind::Manual, view.now)),
            Word::Backfill(ticks) => {
                for tick in ticks {
                    let id = self.enqueue(Kind::Backfill, *tick);
                    plan.reached.push(id);
                }
            }
            Word::Pause(paused) => self.paused = Some(Box::new(paused.clone())),
            Word::Resume => self.resume(view, plan),
            Word::All(word) => self.obey(view, plan, word),
            Word::Cancel(run) => self.cancel(view, plan, *run),
            Word::Reset { by, reason } => self.reset(view, plan, by, reason),
        }
    }

    fn resume(&mut self, view: &View<'_>, plan: &mut Plan) {
        if self.paused.take().is_some() {
            self.streak = 0;
            self.go_on(view, plan);
        }
    }

    /// Takes in a word to all jobs, if it is a later one than the last.
    pub(super) fn obey(&mut self, view: &View<'_>, plan: &mut Plan, word: &All) {
        if !self.lags(word) {
            return;
        }
        let was_paused = self.all_paused().is_some();
        self.all = Some(Box::new(word.clone()));
        if was_paused && word.paused.is_none() {
            self.go_on(view, plan);
        }
    }

    /// Ticks that came meanwhile are skipped, unless it is paused still: then they are when that ends.
    fn go_on(&mut self, view: &View<'_>, plan: &mut Plan) {
        if self.is_paused() {
            return;
        }
        let skipped = Range::until(view.trigger, self.place(), view.now);
        if skipped.ticks > 0 {
            self.watermark = skipped.last;
            if self.spec.as_ref().is_some_and(|spec| !spec.enabled) {
                // They would not have run anyway.
                return;
            }
            self.next_due = self.next_due.map(|due| due.max(view.now));
            self.leave_out(view, plan, State::Skipped, skipped);
        }
    }

    fn cancel(&mut self, view: &View<'_>, plan: &mut Plan, run: Option<u64>) {
        let is_meant = |id: u64| run.is_none_or(|run| run == id);
        for live in self.running.iter_mut().filter(|live| is_meant(live.id)) {
            live.cancel = true;
            plan.reached.push(live.id);
        }
        let (gone, left) = self.queue.iter().partition::<Vec<Waiting>, _>(|waiting| is_meant(waiting.0));
        self.queue = left.into();
        for Waiting(id, kind, tick, attempt) in gone {
            self.counts.failed += 1;
            plan.reached.push(id);
            let (due, ended) = (tick, view.now);
            let (from, node, fence, started, error, note) = (None, None, None, None, None, None);
            let state = State::Cancelled;
            self.line(
                plan,
                Past { id, kind, tick, from, ticks: 1, attempt, node, fence, due, started, ended, state, error, note },
            );
        }
        if self.running.is_empty() && self.queue.is_empty() {
            self.next_due = self.next_due.or(Some(view.now.saturating_add(delay(view.trigger))));
        }
    }
}
