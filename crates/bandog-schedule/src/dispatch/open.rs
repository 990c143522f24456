//! Jobs that run although the store does not answer: [`crate::StoreDown::FailOpen`].

use std::sync::Arc;

use super::{Dispatch, JobId, Turn, at};
use crate::{
    Kind, StoreDown,
    job::Task,
    misfire,
    plan::{Ended, Event},
    run::Facts,
    state::{JobState, Live, Past, Waiting},
    trigger::{Ms, Trigger},
};

impl Dispatch {
    /// Starts the latest tick that is due, without a claim, if the job wants that and the store is away. The store is
    /// told as soon as it answers, so nobody claims the tick afterwards; other nodes that cannot reach it run it too.
    pub(super) fn open(&mut self, job: JobId, turn: Turn) {
        let now = self.time.now();
        let has_place = self.free() > 0 && (self.line.is_empty() || turn == Turn::Served);
        let entry = &mut self.entries[at(job)];
        let policy = entry.policy();
        if policy.store_down != StoreDown::FailOpen || !policy.enabled || !has_place || entry.flight.is_some() {
            return;
        }
        let Some(state) = &mut entry.state else { return };
        let is_busy = self.runs.range((job, 0)..=(job, u64::MAX)).next().is_some();
        if is_busy || state.is_paused() || self.is_held {
            return;
        }
        let Task { name, trigger, .. } = &entry.task;
        let tick = match trigger {
            Trigger::FixedDelay(delay) => delayed(state, *delay, &entry.events),
            _ => {
                let since = misfire::since(name, trigger, &policy, state.place(), None, now);
                since.run.iter().rev().find(|(_, kind)| *kind == Kind::Scheduled).map(|(tick, _)| *tick)
            }
        };
        let Some(tick) = tick.filter(|tick| misfire::due(name, &policy, *tick) <= now) else { return };
        state.ran(tick, trigger);
        state.next_due = None;
        state.fence = (state.fence + 1).max(u64::try_from(now.saturating_mul(1000)).unwrap_or(0));
        let live = Live {
            id: 0,
            kind: Kind::Unclaimed,
            tick,
            due: misfire::due(name, &policy, tick),
            attempt: 1,
            fence: state.fence,
            started: now,
            node: Arc::clone(&self.node),
            session: None,
            cancel: false,
        };
        entry.events.push(Event::Unclaimed(tick));
        tracing::warn!(job = %entry.task.name, "the store does not answer: the tick runs unclaimed, here and wherever else it is so");
        let new = self.prepare(job, &live);
        self.begin(new);
    }

    /// A run that nobody had claimed has ended.
    pub(super) fn open_ended(&mut self, job: JobId, run: &Facts, ended: Ended) {
        let past = Past {
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
            // The record learns of it later, and a fixed delay waits for it now.
            state.wait_from_unclaimed(past.ended, &entry.task.trigger);
        }
        entry.events.push(Event::UnclaimedEnded(Arc::new(past)));
    }
}

/// The tick of a fixed delay, which is never too late, for there is one only. The store need not know yet that this node's
/// runs have ended; of a claimed run of another node nobody knows when it ends. What waits in the record waits for a place
/// or for a claim, and has neither to wait for here.
fn delayed(state: &JobState, delay: Ms, events: &[Event]) -> Option<Ms> {
    let mut due = state.next_due;
    for live in &state.running {
        let end = events.iter().find_map(|event| match event {
            Event::Ended(ended) if ended.fence == live.fence => Some(ended.at),
            _ => None,
        });
        due = due.max(Some(end?.saturating_add(delay)));
    }
    let unclaimed = events.iter().rev().find_map(|event| match event {
        Event::UnclaimedEnded(past) => Some(past.ended.saturating_add(delay)),
        _ => None,
    });
    let is_tick = |waiting: &&Waiting| matches!(waiting.1, Kind::Scheduled | Kind::CatchUp);
    match (due.max(unclaimed), state.queue.iter().find(is_tick)) {
        (Some(due), _) => Some(due.max(state.watermark.saturating_add(1))),
        (None, Some(waiting)) => Some(waiting.2),
        (None, None) => None,
    }
}
