//! Jobs that run while the store does not answer: [`crate::StoreDown::FailOpen`].

use std::sync::Arc;

use super::{Dispatcher, JobId, SlotPriority, at};
use crate::{
    Kind, StoreDown,
    job::JobDefinition,
    misfire,
    plan::{Event, RunEnd},
    run::RunInfo,
    state::{HistoryEntry, JobState, LiveRun, QueuedRun},
    trigger::{DurationMs, Trigger, UnixMs},
};

impl Dispatcher {
    /// Starts the latest tick that is due, without a claim, if the job's policy allows it. The node writes it
    /// when the store answers again, so no node claims the tick afterwards. Other nodes that cannot reach the store run
    /// the tick too.
    pub(super) fn run_unclaimed(&mut self, job: JobId, priority: SlotPriority) {
        let now = self.time.now();
        let has_slot = self.free_slots() > 0 && (self.slot_queue.is_empty() || priority == SlotPriority::NextInQueue);
        let entry = &mut self.entries[at(job)];
        let policy = entry.policy();
        if policy.store_down != StoreDown::FailOpen || !policy.enabled || !has_slot || entry.pending.is_some() {
            return;
        }
        let Some(state) = &mut entry.state else { return };
        let is_busy = self.runs.range((job, 0)..=(job, u64::MAX)).next().is_some();
        if is_busy || state.is_paused() || self.is_node_paused {
            return;
        }
        let JobDefinition { name, trigger, .. } = &entry.definition;
        let tick = match trigger {
            Trigger::FixedDelay(delay) => next_fixed_delay_tick(state, *delay, &entry.events),
            _ => {
                let due = misfire::due_ticks(name, trigger, &policy, state.tick_cursor(), None, now);
                due.run.iter().rev().find(|(_, kind)| *kind == Kind::Scheduled).map(|(tick, _)| *tick)
            }
        };
        let Some(tick) = tick.filter(|tick| misfire::due_time(name, &policy, *tick) <= now) else { return };
        state.mark_ran(tick, trigger);
        state.next_due = None;
        state.fence = (state.fence + 1).max(u64::try_from(now.saturating_mul(1000)).unwrap_or(0));
        let live = LiveRun {
            id: 0,
            kind: Kind::Unclaimed,
            tick,
            due: misfire::due_time(name, &policy, tick),
            attempt: 1,
            fence: state.fence,
            started: now,
            node: Arc::clone(&self.node),
            session: None,
            cancel: false,
        };
        entry.events.push(Event::RanUnclaimed(tick));
        tracing::warn!(job = %entry.definition.name, "the store does not answer: the tick runs unclaimed on this node, and on others that cannot reach the store");
        let new = self.prepare(job, &live);
        self.begin(new);
    }

    /// Records the end of an unclaimed run.
    pub(super) fn unclaimed_run_ended(&mut self, job: JobId, run: &RunInfo, ended: RunEnd) {
        let past = HistoryEntry {
            id: 0,
            kind: Kind::Unclaimed,
            tick: run.tick.millisecond(),
            from: None,
            ticks: 1,
            attempt: ended.attempt,
            node: Some(Arc::clone(&self.node)),
            fence: Some(ended.fence),
            due: run.tick.millisecond(),
            started: Some(run.started),
            ended: ended.at,
            state: ended.state,
            error: ended.error,
            note: ended.note,
        };
        let entry = &mut self.entries[at(job)];
        if let Some(state) = &mut entry.state {
            // The store learns of the end later; a fixed delay counts from it now.
            state.wait_from_unclaimed(past.ended, &entry.definition.trigger);
        }
        entry.events.push(Event::UnclaimedRunEnded(Arc::new(past)));
    }
}

/// The next tick of a fixed delay. It is never missed, since there is only one. The record may not contain yet that
/// this node's runs have ended. The end of another node's run is unknown, so the job waits for the store. A queued run
/// waits for a slot or a claim, and here it needs neither.
fn next_fixed_delay_tick(state: &JobState, delay: DurationMs, events: &[Event]) -> Option<UnixMs> {
    let mut due = state.next_due;
    for live in &state.running {
        let end = events.iter().find_map(|event| match event {
            Event::RunEnded(ended) if ended.fence == live.fence => Some(ended.at),
            _ => None,
        });
        due = due.max(Some(end?.saturating_add(delay)));
    }
    let unclaimed = events.iter().rev().find_map(|event| match event {
        Event::UnclaimedRunEnded(past) => Some(past.ended.saturating_add(delay)),
        _ => None,
    });
    let is_tick = |queued: &&QueuedRun| matches!(queued.kind, Kind::Scheduled | Kind::CatchUp);
    match (due.max(unclaimed), state.queue.iter().find(is_tick)) {
        (Some(due), _) => Some(due.max(state.watermark.saturating_add(1))),
        (None, Some(queued)) => Some(queued.tick),
        (None, None) => None,
    }
}
