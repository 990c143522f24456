//! What becomes of a job whose record the store has lost, wholly or in its latest part, while a node remembers it.
//!
//! A node's copy may be old: others have claimed ticks since. So a tick that somebody may have claimed before the loss is
//! never run, but recorded as missed; and the watermark only rises.

use std::sync::Arc;

use bandog_core::Version;

use super::{Ended, Plan, View, delay};
use crate::{
    Kind, State,
    misfire::Range,
    state::{Born, JobState, Live, Past, Spec},
    trigger::Ms,
};

/// What is written beside ticks of which nobody can say whether they ran.
const UNKNOWN: &str = "the store lost the job's record: whether another node ran them before that is not known";
const WAITED: &str = "the store lost the job's record while they waited: whether they ran is not known";
const ENDED: &str = "the store lost how the run ended";

/// What a node knows that the store does not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Memory {
    /// The record as it was confirmed last.
    pub(crate) state: Arc<JobState>,
    /// Its version.
    pub(crate) version: Version,
    /// What the store has now was written before that.
    pub(crate) is_later: bool,
}

/// What the store's record is to the one that a node remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kin {
    /// The same record, or a later one of it.
    Same,
    /// It was forgotten on purpose and made anew, or its watermark was set back on purpose.
    Anew,
    /// The store lost its data, and it was made anew.
    Lost,
}

impl JobState {
    /// Whether the record lacks what this node has known to be there.
    pub(crate) fn lacks(&self, known: &Self, is_later: bool) -> bool {
        let is_behind = || self.watermark < known.watermark || self.fence < known.fence;
        let is_undone = || self.running.iter().any(|live| known.has_ended(live));
        match self.kin(known) {
            Kin::Same => is_later || is_behind() || is_undone(),
            Kin::Anew => false,
            Kin::Lost => self.is_fresh() || is_behind() || is_undone(),
        }
    }

    /// Whether this run had begun and is over: none comes back.
    fn has_ended(&self, live: &Live) -> bool {
        live.fence <= self.fence && !self.has(live)
    }

    fn has(&self, live: &Live) -> bool {
        self.running.iter().any(|other| other.fence == live.fence)
    }

    fn kin(&self, known: &Self) -> Kin {
        match (&self.born, &known.born) {
            // A board that alone was lost begins another era, and its jobs are still the same.
            (Some(born), Some(was)) if born.at == was.at && born.resets == was.resets => Kin::Same,
            (Some(born), Some(was)) if born.at == was.at || born.era == was.era => Kin::Anew,
            (Some(_), Some(_)) => Kin::Lost,
            // Nodes of a version before do not write it.
            (_, _) => Kin::Same,
        }
    }

    /// Whether the store has lost only the latest of what it knew, if it lost anything.
    pub(crate) fn is_known_era(&self, known: &Self) -> bool {
        self.kin(known) == Kin::Same
    }

    fn is_fresh(&self) -> bool {
        self.born.as_ref().is_some_and(|born| born.fresh)
    }

    /// Adds what a node remembers. False: there was nothing to add.
    pub(super) fn recall(&mut self, view: &View<'_>, plan: &mut Plan, memory: &Memory) -> bool {
        let known = &*memory.state;
        if !self.lacks(known, memory.is_later) {
            return false;
        }
        // Others may know more than this node.
        plan.is_news = true;
        match self.kin(known) {
            Kin::Same if memory.is_later && !self.is_beyond(known) => *self = known.clone(),
            Kin::Lost if self.is_fresh() => self.inherit(view, plan, known),
            Kin::Same => {
                self.settle(view, plan, known);
                self.rejoin(view, known);
                self.raise(known);
            }
            Kin::Lost | Kin::Anew => {
                self.settle(view, plan, known);
                self.raise(known);
            }
        }
        true
    }

    /// Whether somebody went on from a state that the store fell back to.
    fn is_beyond(&self, known: &Self) -> bool {
        self.watermark > known.watermark || self.fence > known.fence || self.run > known.run
    }

    fn raise(&mut self, known: &Self) {
        self.watermark = self.watermark.max(known.watermark);
        self.fence = self.fence.max(known.fence);
        self.run = self.run.max(known.run);
        for (run, count) in known.deaths.iter().flat_map(|deaths| deaths.iter()) {
            let deaths = self.deaths.get_or_insert_default().entry(*run).or_default();
            *deaths = (*deaths).max(*count);
        }
        self.last_success = self.last_success.max(known.last_success);
        if known.all.as_ref().is_some_and(|word| self.lags(word)) {
            self.all.clone_from(&known.all);
        }
    }

    /// What this node knows to have ended does not begin again, and is recorded as it ended.
    fn settle(&mut self, view: &View<'_>, plan: &mut Plan, known: &Self) {
        let over: Vec<Live> = self.running.iter().filter(|live| known.has_ended(live)).cloned().collect();
        for live in over {
            let told = known.last.as_ref().filter(|last| last.fence == Some(live.fence));
            if told.is_none() && !is_ours(view, &live) {
                // Its node will tell, or its session.
                continue;
            }
            let state = told.map_or(State::Lost, |last| last.state);
            let error = told.map_or_else(|| Some(ENDED.to_owned()), |last| last.error.clone());
            let (id, fence, attempt, at) = (live.id, live.fence, live.attempt, view.now);
            self.ended(view, plan, &Ended { id, fence, attempt, state, at, error, note: None });
        }
    }

    /// The record fell back to an earlier state, and others went on from there: what runs here goes on.
    fn rejoin(&mut self, view: &View<'_>, known: &Self) {
        for live in known.running.iter().filter(|live| is_ours(view, live)) {
            let is_claimed_again = match live.kind {
                Kind::Manual | Kind::Backfill => live.id <= self.run,
                Kind::Scheduled | Kind::CatchUp | Kind::Unclaimed => live.tick <= self.watermark,
            };
            if !is_claimed_again && !self.has(live) {
                self.running.push(live.clone());
            }
        }
    }

    /// The record was made by somebody who knew nothing of the job.
    fn inherit(&mut self, view: &View<'_>, plan: &mut Plan, known: &Self) {
        let Some(Born { at, fresh, .. }) = self.born.as_deref_mut() else { return };
        let is_untouched = self.watermark == *at - 1 && self.run == 0;
        let until = *at - 1;
        *fresh = false;
        let counts = known.counts;
        self.counts.ok += counts.ok;
        self.counts.failed += counts.failed;
        self.counts.skipped += counts.skipped;
        self.counts.missed += counts.missed;
        self.counts.lost += counts.lost;
        if self.last.is_none() {
            (self.streak, self.busy, self.last) = (known.streak, known.busy, known.last.clone());
        }
        if self.paused.is_none() {
            self.paused.clone_from(&known.paused);
        }
        if self.spec.as_ref().map(|spec| &spec.trigger) == known.spec.as_ref().map(|spec| &spec.trigger) {
            // The grid does not move, and what was to run once does not run again.
            self.anchor = known.anchor;
        }
        self.lose_ticks(view, plan, known, until);
        let will_end = self.take_over(view, plan, known);
        if is_untouched {
            self.next_due = match known.next_due {
                Some(due) if due > until => Some(due),
                None if will_end => None,
                Some(_) | None => Some(view.now.saturating_add(delay(view.trigger))),
            };
        }
        self.raise(known);
    }

    /// Ticks that came before the record was made, and after this node last read the one before.
    fn lose_ticks(&mut self, view: &View<'_>, plan: &mut Plan, known: &Self, until: Ms) {
        let spec = known.spec.as_deref();
        if spec.is_some_and(|spec| !spec.enabled) {
            return;
        }
        let trigger = spec.and_then(Spec::trigger);
        let range = Range::until(trigger.as_ref().unwrap_or(view.trigger), known.place(), until);
        let Some(first) = range.first else { return };
        let state = if known.is_paused() {
            self.counts.skipped += range.ticks;
            plan.skipped += range.ticks;
            State::Skipped
        } else {
            self.counts.missed += range.ticks;
            plan.missed.join(range);
            State::Missed
        };
        self.line(plan, range_of((first, range.last, range.ticks), state, view.now, UNKNOWN));
    }

    /// Runs that were under way, whose nodes' sessions are lost too, and those that waited. True: some will end yet.
    fn take_over(&mut self, view: &View<'_>, plan: &mut Plan, known: &Self) -> bool {
        self.running.extend(known.running.iter().cloned());
        let mut lost = Range::default();
        if view.policy.on_crash.retries() {
            self.queue.extend(known.queue.iter().copied());
        } else {
            known.queue.iter().for_each(|waiting| lost.add(waiting.2));
        }
        if let Some(first) = lost.first {
            self.counts.lost += lost.ticks;
            plan.lost.join(lost);
            self.line(plan, range_of((first, lost.last, lost.ticks), State::Lost, view.now, WAITED));
        }
        !self.running.is_empty() || !self.queue.is_empty()
    }
}

fn is_ours(view: &View<'_>, live: &Live) -> bool {
    view.session.is_some() && live.holding().as_ref() == view.session
}

fn range_of((first, last, ticks): (Ms, Ms, u64), state: State, now: Ms, why: &str) -> Past {
    Past {
        id: 0,
        kind: Kind::Scheduled,
        tick: last,
        from: Some(first),
        ticks,
        attempt: 0,
        node: None,
        fence: None,
        due: last,
        started: None,
        ended: now,
        state,
        error: Some(why.to_owned()),
        note: None,
    }
}

#[cfg(test)]
mod tests;
