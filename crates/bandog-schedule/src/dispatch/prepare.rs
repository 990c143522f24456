//! Prepares a local run for its start.

use std::{sync::Arc, time::Duration};

use bandog_core::Fence;
use bandog_cron::Time;

use super::{
    entry::{JobEntry, JobId},
    executor::{MessageSender, PreparedRun, RetryDeadline},
    time::Timekeeper,
};
use crate::{cancel::CancelToken, run::RunInfo, state::LiveRun, trigger::TickCursor};

/// Creates a run that is ready to start. `live`: the claimed run in the job's state.
pub(super) fn prepare(
    job: JobId,
    entry: &JobEntry,
    live: &LiveRun,
    time: &Timekeeper,
    messages: MessageSender,
) -> PreparedRun {
    let last_success = entry.state.as_ref().and_then(|state| state.last_success);
    let info = RunInfo {
        name: Arc::clone(&entry.definition.name),
        id: live.id,
        tick: Time::from_millisecond(live.tick),
        due: Time::from_millisecond(live.due),
        started: live.started,
        kind: live.kind,
        fence: Fence::new(live.fence),
        last_success: last_success.map(Time::from_millisecond),
        note: std::sync::Mutex::default(),
        oldest_open: live.session.as_ref().map(|_| oldest_open(entry, live)),
        lease: entry.definition.policy.lease,
        cancel: CancelToken::default(),
    };
    PreparedRun {
        job,
        attempt: live.attempt,
        info: Arc::new(info),
        body: Arc::clone(&entry.definition.body),
        policy: entry.policy(),
        limit: retry_deadline(entry, time),
        messages,
    }
}

/// The smallest number of a run that runs or waits.
fn oldest_open(entry: &JobEntry, live: &LiveRun) -> u64 {
    let Some(state) = &entry.state else { return live.id };
    let open = state.running.iter().map(|live| live.id).chain(state.queue.iter().map(|queued| queued.id));
    open.fold(live.id, u64::min)
}

/// The deadline for the retries of a run that starts now. None if the policy does not limit the time of retries.
fn retry_deadline(entry: &JobEntry, time: &Timekeeper) -> Option<Box<RetryDeadline>> {
    let limit = entry.definition.policy.retry.limit(|| until_next_tick(entry, time))?;
    let clock = time.clock();
    Some(Box::new(RetryDeadline { clock, until: clock.now() + limit }))
}

/// Time until the next tick of the job. None if there is no next tick.
fn until_next_tick(entry: &JobEntry, time: &Timekeeper) -> Option<Duration> {
    let cursor = entry.state.as_ref().filter(|_| entry.definition.policy.enabled)?.tick_cursor();
    let next = entry.definition.trigger.next(TickCursor { watermark: time.now(), ..cursor })?;
    Some(time.until(next))
}
