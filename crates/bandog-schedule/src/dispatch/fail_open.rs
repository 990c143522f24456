//! Runs without a claim: jobs with [`crate::StoreDown::FailOpen`] run while the store does not answer.

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

/// If the job's policy allows runs without a claim, chooses the latest tick that is due. Returns the run that the
/// caller has to start.
///
/// When the store answers again, this node writes the tick to the record. So no node claims the tick afterwards. But
/// other nodes that cannot reach the store also run the tick.
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
    // The time at which this tick is due, with the jitter of the job.
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

/// Records the end of an unclaimed run. The node writes the end to the record when the store answers again.
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
        retried: false,
    };
    if let Some(state) = &mut entry.state {
        // The next delay of a job with a fixed delay begins at this end, even while the end is not written yet.
        state.wait_from_unclaimed(past.ended, &entry.definition.trigger);
    }
    entry.events.push(Event::UnclaimedRunEnded(Arc::new(past)));
}

/// The next tick of a job with a fixed delay. The delay begins at the latest known end of a run. Known ends are the end
/// in the state, the ends of this node's runs that are not written yet, and the ends of unclaimed runs. If another node
/// runs the job, the end of that run is unknown. In that case, there is no tick until the store answers. If no end is
/// known, the tick that waits in the queue runs. It does not need a claim, because the run is unclaimed. The tick never
/// counts as too late, because a job with a fixed delay has only one tick at a time.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Job, Run};

    /// Start of each test.
    const T0: UnixMs = 1_800_000_000_000;

    fn entry(job: Job) -> JobEntry {
        let mut entry = JobEntry::new(job.run(async |_: Run| ()).prepare(None).unwrap());
        entry.state = Some(Box::new(JobState::new(&entry.definition.policy, T0, None)));
        entry
    }

    /// The tick that runs unclaimed at the time `after`, if there is one. The tick and `after` are in milliseconds
    /// after the start of the test.
    fn take(entry: &mut JobEntry, after: UnixMs) -> Option<UnixMs> {
        take_unclaimed(entry, T0 + after, &"here".into()).map(|live| live.tick - T0)
    }

    fn every_second() -> Job {
        Job::fixed_rate("job", Duration::from_secs(1)).store_down(StoreDown::FailOpen)
    }

    #[test]
    fn the_latest_due_tick_runs_once() {
        let mut entry = entry(every_second());
        assert_eq!(take(&mut entry, 2500), Some(2000));
        assert_eq!(entry.events, [Event::RanUnclaimed(T0 + 2000)]);
        assert_eq!(take(&mut entry, 2999), None, "no tick is due");
        assert_eq!(take(&mut entry, 3000), Some(3000));
        let state = entry.state.unwrap();
        assert_eq!((state.watermark, state.run), (T0 + 3000, 0), "it has no number in the record");
        assert!(state.fence >= u64::try_from((T0 + 3000) * 1000).unwrap());
    }

    #[test]
    fn nothing_runs_if_the_policy_or_the_state_forbids_it() {
        let mut closed = entry(Job::fixed_rate("job", Duration::from_secs(1)));
        let mut disabled = entry(every_second().disabled());
        let mut paused = entry(every_second());
        let pause = crate::Paused { by: "me".into(), reason: "why".into(), at: String::new() };
        paused.state.iter_mut().for_each(|state| state.paused = Some(Box::new(pause.clone())));
        let mut unknown = entry(every_second());
        unknown.state = None;
        for entry in [&mut closed, &mut disabled, &mut paused, &mut unknown] {
            assert_eq!((take(entry, 2500), entry.events.len()), (None, 0));
        }
    }

    #[test]
    fn a_fixed_delay_counts_from_the_end_of_the_unclaimed_run() {
        let job = Job::fixed_delay("job", Duration::from_secs(1)).store_down(StoreDown::FailOpen);
        let mut entry = entry(job);
        assert_eq!(take(&mut entry, 0), Some(0));
        let run = RunInfo {
            oldest_open: None,
            lease: entry.definition.policy.lease,
            name: "job".into(),
            id: 0,
            tick: bandog_cron::Time::from_millisecond(T0),
            due: bandog_cron::Time::from_millisecond(T0),
            started: T0,
            kind: Kind::Unclaimed,
            fence: bandog_core::Fence::new(1),
            last_success: None,
            note: std::sync::Mutex::default(),
            cancel: crate::cancel::CancelToken::default(),
        };
        let (state, error, note) = (crate::State::Ok, None, None);
        let ended = RunEnd { id: 0, fence: 1, attempt: 1, state, at: T0 + 400, error, note };
        record_unclaimed_end(&mut entry, &run, ended, &"here".into());
        assert!(matches!(&entry.events[..], [Event::RanUnclaimed(_), Event::UnclaimedRunEnded(_)]));
        assert_eq!((take(&mut entry, 1399), take(&mut entry, 1400)), (None, Some(1400)));
    }
}
