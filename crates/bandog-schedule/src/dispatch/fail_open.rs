//! Jobs that run while the store does not answer: [`crate::StoreDown::FailOpen`].

use std::sync::Arc;

use super::entry::JobEntry;
use crate::{
    Kind, StoreDown,
    job::JobDefinition,
    misfire,
    plan::{Event, RunEnd},
    run::RunInfo,
    state::{HistoryEntry, JobState, LiveRun, QueuedRun},
    trigger::{DurationMs, Trigger, UnixMs},
};

/// Takes the latest tick that is due, without a claim, if the job's policy allows it. Returns the run to start.
///
/// The node writes the tick when the store answers again, so no node claims the tick afterwards. Other nodes that cannot
/// reach the store run the tick too.
pub(super) fn take_unclaimed(entry: &mut JobEntry, now: UnixMs, node: &Arc<str>) -> Option<LiveRun> {
    let policy = entry.policy();
    if policy.store_down != StoreDown::FailOpen || !policy.enabled || entry.pending.is_some() {
        return None;
    }
    let state = entry.state.as_mut().filter(|state| !state.is_paused())?;
    let JobDefinition { name, trigger, .. } = &entry.definition;
    let tick = match trigger {
        Trigger::FixedDelay(delay) => next_fixed_delay_tick(state, *delay, &entry.events),
        Trigger::Cron(_) | Trigger::FixedRate(_) | Trigger::At(_) | Trigger::Once | Trigger::Never => {
            let due = misfire::due_ticks(name, trigger, &policy, state.tick_cursor(), None, now);
            due.run.iter().rev().find(|(_, kind)| *kind == Kind::Scheduled).map(|(tick, _)| *tick)
        }
    };
    let due = |tick: UnixMs| misfire::due_time(name, &policy, tick);
    let tick = tick.filter(|tick| due(*tick) <= now)?;
    state.mark_ran(tick, trigger);
    state.next_due = None;
    state.fence = (state.fence + 1).max(u64::try_from(now.saturating_mul(1000)).unwrap_or(0));
    let live = LiveRun {
        id: 0,
        kind: Kind::Unclaimed,
        tick,
        due: due(tick),
        attempt: 1,
        fence: state.fence,
        started: now,
        node: Arc::clone(node),
        session: None,
        cancel: false,
    };
    entry.events.push(Event::RanUnclaimed(tick));
    Some(live)
}

/// Records the end of an unclaimed run. The node writes it when the store answers again.
pub(super) fn record_unclaimed_end(entry: &mut JobEntry, run: &RunInfo, ended: RunEnd, node: &Arc<str>) {
    let past = HistoryEntry {
        id: 0,
        kind: Kind::Unclaimed,
        tick: run.tick.millisecond(),
        from: None,
        ticks: 1,
        attempt: ended.attempt,
        node: Some(Arc::clone(node)),
        fence: Some(ended.fence),
        due: run.tick.millisecond(),
        started: Some(run.started),
        ended: ended.at,
        state: ended.state,
        error: ended.error,
        note: ended.note,
    };
    if let Some(state) = &mut entry.state {
        // A fixed delay counts from this end now, before it is written.
        state.wait_from_unclaimed(past.ended, &entry.definition.trigger);
    }
    entry.events.push(Event::UnclaimedRunEnded(Arc::new(past)));
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
