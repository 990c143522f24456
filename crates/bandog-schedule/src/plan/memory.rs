//! Recovery of a job's record: the store has lost it, or its latest changes, and a node remembers it.
//!
//! The node's copy may be old, since other nodes may have claimed ticks after it. So a tick that may have been claimed
//! before the loss never runs, but is recorded as missed. The watermark only rises.

use std::sync::Arc;

use bandog_core::Version;

use super::{Plan, PlanContext, RunEnd, delay};
use crate::{
    Kind, State,
    misfire::TickRange,
    state::{Creation, HistoryEntry, JobSpec, JobState, LiveRun},
    trigger::UnixMs,
};

/// Reasons in the history for ticks that may or may not have run.
const TICKS_UNKNOWN: &str = "the store lost the job's record: whether another node ran them before that is not known";
const QUEUED_UNKNOWN: &str = "the store lost the job's record while they waited: whether they ran is not known";
const END_UNKNOWN: &str = "the store lost how the run ended";

/// A record as this node knew it, which the store has lost or partly lost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownRecord {
    /// The last confirmed state.
    pub(crate) state: Arc<JobState>,
    /// The version of that state.
    pub(crate) version: Version,
    /// The store's present record has a smaller version.
    pub(crate) is_later: bool,
}

/// How the store's record relates to the one that a node remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lineage {
    /// The same record, or a later version of it.
    Same,
    /// An operator has forgotten the job and a node created it again, or an operator has set its watermark back.
    Recreated,
    /// The store lost its data, and a node created the record again.
    StoreLost,
}

impl JobState {
    /// Whether the record lacks a change that this node has seen confirmed.
    pub(crate) fn lacks(&self, known: &Self, is_later: bool) -> bool {
        let is_behind = || self.watermark < known.watermark || self.fence < known.fence;
        let is_undone = || self.running.iter().any(|live| known.has_ended(live));
        match self.lineage(known) {
            Lineage::Same => is_later || is_behind() || is_undone(),
            Lineage::Recreated => false,
            Lineage::StoreLost => self.is_fresh() || is_behind() || is_undone(),
        }
    }

    /// Whether the run has started and ended. Such a run never comes back.
    fn has_ended(&self, live: &LiveRun) -> bool {
        live.fence <= self.fence && !self.has(live)
    }

    fn has(&self, live: &LiveRun) -> bool {
        self.running.iter().any(|other| other.fence == live.fence)
    }

    fn lineage(&self, known: &Self) -> Lineage {
        match (&self.born, &known.born) {
            // When the store has lost the board alone, the era changes, but the jobs are still the same.
            (Some(born), Some(was)) if born.at == was.at && born.resets == was.resets => Lineage::Same,
            (Some(born), Some(was)) if born.at == was.at || born.era == was.era => Lineage::Recreated,
            (Some(_), Some(_)) => Lineage::StoreLost,
            // Nodes of older versions do not write it.
            (_, _) => Lineage::Same,
        }
    }

    /// Whether the store has lost at most its latest changes.
    pub(crate) fn is_known_era(&self, known: &Self) -> bool {
        self.lineage(known) == Lineage::Same
    }

    fn is_fresh(&self) -> bool {
        self.born.as_ref().is_some_and(|born| born.fresh)
    }

    /// Adds what a node remembers. False: there was nothing to add.
    pub(super) fn restore(&mut self, context: &PlanContext<'_>, plan: &mut Plan, memory: &KnownRecord) -> bool {
        let known = &*memory.state;
        if !self.lacks(known, memory.is_later) {
            return false;
        }
        // Other nodes may know newer values.
        plan.is_news = true;
        match self.lineage(known) {
            Lineage::Same if memory.is_later && !self.is_beyond(known) => *self = known.clone(),
            Lineage::StoreLost if self.is_fresh() => self.inherit(context, plan, known),
            Lineage::Same => {
                self.settle_ended_runs(context, plan, known);
                self.keep_local_runs(context, known);
                self.raise_numbers(known);
            }
            Lineage::StoreLost | Lineage::Recreated => {
                self.settle_ended_runs(context, plan, known);
                self.raise_numbers(known);
            }
        }
        true
    }

    /// Whether another node has continued from the state that the store fell back to.
    fn is_beyond(&self, known: &Self) -> bool {
        self.watermark > known.watermark || self.fence > known.fence || self.run > known.run
    }

    fn raise_numbers(&mut self, known: &Self) {
        self.watermark = self.watermark.max(known.watermark);
        self.fence = self.fence.max(known.fence);
        self.run = self.run.max(known.run);
        for (run, count) in known.deaths.iter().flat_map(|deaths| deaths.iter()) {
            let deaths = self.deaths.get_or_insert_default().entry(*run).or_default();
            *deaths = (*deaths).max(*count);
        }
        self.last_success = self.last_success.max(known.last_success);
        if known.all.as_ref().is_some_and(|all_pause| self.has_not_applied(all_pause)) {
            self.all.clone_from(&known.all);
        }
    }

    /// Runs that have ended do not start again, and are recorded as they ended.
    fn settle_ended_runs(&mut self, context: &PlanContext<'_>, plan: &mut Plan, known: &Self) {
        let over: Vec<LiveRun> = self.running.iter().filter(|live| known.has_ended(live)).cloned().collect();
        for live in over {
            let end = known.last.as_ref().filter(|last| last.fence == Some(live.fence));
            if end.is_none() && !is_ours(context, &live) {
                // Its own node reports the end, or its session expires.
                continue;
            }
            let state = end.map_or(State::Lost, |last| last.state);
            let error = end.map_or_else(|| Some(END_UNKNOWN.to_owned()), |last| last.error.clone());
            let (id, fence, attempt, at) = (live.id, live.fence, live.attempt, context.now);
            self.end_run(context, plan, &RunEnd { id, fence, attempt, state, at, error, note: None });
        }
    }

    /// Keeps local runs when other nodes have continued from the state that the store fell back to.
    fn keep_local_runs(&mut self, context: &PlanContext<'_>, known: &Self) {
        for live in known.running.iter().filter(|live| is_ours(context, live)) {
            let is_claimed_again = match live.kind {
                Kind::Manual | Kind::Backfill => live.id <= self.run,
                Kind::Scheduled | Kind::CatchUp | Kind::Unclaimed => live.tick <= self.watermark,
            };
            if !is_claimed_again && !self.has(live) {
                self.running.push(live.clone());
            }
        }
    }

    /// Adds the known values to a record that a node created without them.
    fn inherit(&mut self, context: &PlanContext<'_>, plan: &mut Plan, known: &Self) {
        let Some(Creation { at, fresh, .. }) = self.born.as_deref_mut() else { return };
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
            // The grid of a fixed rate stays, and a job that ran once does not run again.
            self.anchor = known.anchor;
        }
        self.record_unknown_ticks(context, plan, known, until);
        let has_runs = self.take_over(context, plan, known);
        if is_untouched {
            self.next_due = match known.next_due {
                Some(due) if due > until => Some(due),
                None if has_runs => None,
                Some(_) | None => Some(context.now.saturating_add(delay(context.trigger))),
            };
        }
        self.raise_numbers(known);
    }

    /// Records the ticks between this node's last read and the creation of the record.
    fn record_unknown_ticks(&mut self, context: &PlanContext<'_>, plan: &mut Plan, known: &Self, until: UnixMs) {
        let spec = known.spec.as_deref();
        if spec.is_some_and(|spec| !spec.enabled) {
            return;
        }
        let trigger = spec.and_then(JobSpec::trigger);
        let range = TickRange::until(trigger.as_ref().unwrap_or(context.trigger), known.tick_cursor(), until);
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
        self.add_history_line(plan, history_range((first, range.last, range.ticks), state, context.now, TICKS_UNKNOWN));
    }

    /// Takes the runs whose nodes' sessions are lost too, and the queued runs. True: some of them will end later.
    fn take_over(&mut self, context: &PlanContext<'_>, plan: &mut Plan, known: &Self) -> bool {
        self.running.extend(known.running.iter().cloned());
        let mut lost = TickRange::default();
        if context.policy.on_crash.retries() {
            self.queue.extend(known.queue.iter().copied());
        } else {
            known.queue.iter().for_each(|queued| lost.add(queued.tick));
        }
        if let Some(first) = lost.first {
            self.counts.lost += lost.ticks;
            plan.lost.join(lost);
            self.add_history_line(
                plan,
                history_range((first, lost.last, lost.ticks), State::Lost, context.now, QUEUED_UNKNOWN),
            );
        }
        !self.running.is_empty() || !self.queue.is_empty()
    }
}

fn is_ours(context: &PlanContext<'_>, live: &LiveRun) -> bool {
    context.session.is_some() && live.holding().as_ref() == context.session
}

fn history_range((first, last, ticks): (UnixMs, UnixMs, u64), state: State, now: UnixMs, why: &str) -> HistoryEntry {
    HistoryEntry {
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
