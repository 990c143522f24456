//! Applies a confirmed state: starts and cancels runs, and schedules the next tick.

use std::{cmp::Reverse, collections::HashSet, sync::Arc, time::Duration};

use bandog_core::Fence;
use bandog_cron::Time;

use super::{
    Dispatcher, JobEntry, JobId, at,
    executor::{PreparedRun, RetryDeadline, RunHandle},
};
use crate::{
    cancel::{CancelReason, CancelToken},
    plan::{Event, Plan},
    run::RunInfo,
    state::LiveRun,
    trigger::{DurationMs, TickCursor, UnixMs},
};

/// Maximum delay of a claim. A node with a full pool claims later than an idle node by this time.
const MAX_CLAIM_DELAY_MS: DurationMs = 20;

impl Dispatcher {
    /// Applies a confirmed state: its runs, its next tick, and the queue for slots.
    pub(super) fn apply(&mut self, job: JobId, plan: &Plan) {
        self.reconcile(job);
        self.note_missed(job, plan);
        self.note_backlog(job);
        if plan.is_news
            && let Some(store) = &mut self.store
        {
            store.add_news(&self.entries[at(job)].definition.name);
        }
        if plan.is_starved && self.stopping.is_none() {
            self.join_slot_queue(job);
        }
        self.schedule_next(job);
    }

    /// Starts and cancels local runs until they match the job's state.
    pub(super) fn reconcile(&mut self, job: JobId) {
        let entry = &self.entries[at(job)];
        let Some(state) = &entry.state else { return };
        let session = match &mut self.store {
            Some(store) if entry.is_shared => {
                let lease = entry.definition.policy.lease.unwrap_or_else(|| store.client().ttl());
                store.session(lease)
            }
            Some(_) | None => None,
        };
        let is_shared = entry.is_shared;
        let ended = |event: &Event| if let Event::RunEnded(ended) = event { Some(ended.fence) } else { None };
        let over: Vec<u64> = entry.events.iter().filter_map(ended).collect();
        let is_ours = |live: &&LiveRun| {
            let is_here = !is_shared || (session.is_some() && live.holding() == session);
            is_here && !over.contains(&live.fence)
        };
        if is_shared {
            let ours: HashSet<u64> = state.running.iter().filter(is_ours).map(|live| live.fence).collect();
            let here = self.runs.range((job, 0)..=(job, u64::MAX));
            here.filter(|((_, fence), run)| !run.is_unclaimed() && !ours.contains(fence))
                .for_each(|(_, run)| run.drop_now(CancelReason::SessionLost));
        }
        let mut nth = 0;
        while let Some(live) = self.running(job).get(nth) {
            nth += 1;
            match self.runs.get(&(job, live.fence)) {
                _ if !is_ours(&live) => {}
                Some(run) if live.cancel => run.cancel(CancelReason::Requested),
                Some(_) => {}
                None => {
                    let new = self.prepare(job, live);
                    self.begin(new);
                }
            }
        }
    }

    fn running(&self, job: JobId) -> &[LiveRun] {
        self.entries[at(job)].state.as_ref().map_or(&[], |state| &state.running)
    }

    /// Makes a run that is ready to start, and its handle.
    pub(super) fn prepare(&self, job: JobId, live: &LiveRun) -> (PreparedRun, RunHandle) {
        let entry = &self.entries[at(job)];
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
            cancel: CancelToken::default(),
        };
        let run = PreparedRun {
            job,
            attempt: live.attempt,
            info: Arc::new(info),
            body: Arc::clone(&entry.definition.body),
            policy: entry.policy(),
            limit: self.retry_deadline(entry),
            messages: self.starts.messages(),
        };
        let handle = run.handle(self.time.moment());
        if live.cancel {
            handle.cancel(CancelReason::Requested);
        }
        if self.stopping.is_some() {
            handle.stop();
        }
        if self.stopping.as_ref().is_some_and(|stopping| stopping.is_cancelled) {
            handle.cancel(CancelReason::NodeStops);
        }
        (run, handle)
    }

    pub(super) fn begin(&mut self, (run, handle): (PreparedRun, RunHandle)) {
        self.runs.insert((run.job, run.info.fence.get()), handle);
        self.starts.push(run);
    }

    /// Time after which a run that starts now has no further retry.
    fn retry_deadline(&self, entry: &JobEntry) -> Option<Box<RetryDeadline>> {
        let limit = entry.definition.policy.retry.limit(|| self.next_tick(entry))?;
        let clock = self.time.clock();
        Some(Box::new(RetryDeadline { clock, until: clock.now() + limit }))
    }

    /// Time until the job's next tick.
    fn next_tick(&self, entry: &JobEntry) -> Option<Duration> {
        let cursor = entry.state.as_ref().filter(|_| entry.definition.policy.enabled)?.tick_cursor();
        let next = entry.definition.trigger.next(TickCursor { watermark: self.time.now(), ..cursor })?;
        Some(self.time.until(next))
    }

    /// Schedules the next planning of the job.
    pub(super) fn schedule_next(&mut self, job: JobId) {
        let busy = DurationMs::try_from(self.runs.len()).unwrap_or(DurationMs::MAX);
        let size = DurationMs::try_from(self.pool).unwrap_or(DurationMs::MAX);
        let entry = &self.entries[at(job)];
        if entry.is_in_slot_queue {
            return;
        }
        let Some(wakes) = entry.wakes(self.since(entry)) else { return };
        if !self.may_claim(job) {
            // Another node with a greater revision claims the ticks, or this node stops or is paused, or an unclaimed
            // run has to end first.
            return;
        }
        let back = if entry.is_shared { MAX_CLAIM_DELAY_MS.saturating_mul(busy) / size } else { 0 };
        self.schedule_at(job, wakes.saturating_add(back.min(MAX_CLAIM_DELAY_MS)));
    }

    pub(super) fn may_claim(&self, job: JobId) -> bool {
        let entry = &self.entries[at(job)];
        let spec = entry.state.as_ref().and_then(|state| state.spec.as_ref());
        let is_held = entry.is_shared && (self.is_node_paused || self.runs_unclaimed(job));
        self.stopping.is_none() && !is_held && spec.is_none_or(|spec| spec.revision <= entry.definition.policy.revision)
    }

    /// Whether this node runs the job without a claim. The job's next claim waits for the end of that run.
    fn runs_unclaimed(&self, job: JobId) -> bool {
        self.runs.range((job, 0)..=(job, u64::MAX)).any(|(_, run)| run.is_unclaimed())
    }

    pub(super) fn schedule_at(&mut self, job: JobId, time: UnixMs) {
        let entry = &mut self.entries[at(job)];
        if entry.wakes_at != time {
            entry.wakes_at = time;
            self.agenda.push(Reverse((time, job)));
        }
    }
}
