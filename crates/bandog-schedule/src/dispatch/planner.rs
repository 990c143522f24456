//! Plans this node's jobs, and applies the plans. A plan for a job of this process is applied immediately. A plan for a
//! job of the store is applied when the store has confirmed the swap of the job's record.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bandog_core::{Holding, Record, Result, Swap, Swapped, Version};
use futures_util::future::BoxFuture;

use super::{
    answers::{AfterAnswer, Answered, take_answer},
    backlog::Backlogs,
    entry::JobId,
    fail_open::{record_unclaimed_end, take_unclaimed},
    local_jobs::{LocalJobs, MAX_PER_ROUND},
    missed::MissedTicks,
    pauses::NodePauses,
    planning::{NodeContext, SharedPlan, plan_local, plan_shared},
    pool::SlotPriority,
    reading::{log_unreadable, read_record},
    rests::Rests,
    store::StoreIo,
};
use crate::{
    Kind, Overlap, RunRow, State, meters,
    pauses::KnownPauses,
    plan::{Event, Plan, RunEnd},
    recovery::{RecordRead, Recovered, recover},
    run::RunInfo,
    trigger::Trigger,
};

pub(super) struct Planner {
    local: LocalJobs,
    /// The name of this node.
    node: Arc<str>,
    pauses: NodePauses,
    /// Missed and lost ticks that are not logged yet.
    missed: MissedTicks,
    /// Jobs with queued ticks.
    backlogs: Backlogs,
    /// Jobs that do not fire, because the clock was set back.
    rests: Rests,
    /// Swaps that are sent at the end of the round.
    swaps: Vec<(JobId, Swap)>,
    /// Called for each run that has failed for good.
    on_failure: Option<OnFailure>,
}

/// The program's function for runs that have failed for good.
pub(crate) type OnFailure = Arc<dyn Fn(RunRow) -> BoxFuture<'static, ()> + Send + Sync>;

/// The next step of the caller after the planner has handled a record, or an answer to a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Nothing.
    Settled,
    /// The record is missing. The caller must read the record again, together with the board. The board is a record
    /// that contains the era: a random name of the store's data.
    MustRead,
    /// The store fell back to an earlier state. The caller must log this.
    FellBack,
}

impl Planner {
    pub(super) fn new(local: LocalJobs, node: Arc<str>) -> Self {
        Self {
            local,
            pauses: NodePauses::new(Arc::clone(&node)),
            node,
            missed: MissedTicks::default(),
            backlogs: Backlogs::default(),
            rests: Rests::default(),
            swaps: Vec::new(),
            on_failure: None,
        }
    }

    pub(super) fn set_on_failure(&mut self, on_failure: Option<OnFailure>) {
        self.on_failure = on_failure;
    }

    pub(super) fn local(&self) -> &LocalJobs {
        &self.local
    }

    pub(super) fn local_mut(&mut self) -> &mut LocalJobs {
        &mut self.local
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Whether jobs wait for a slot, or ticks wait to be logged.
    pub(super) fn has_waiting(&self) -> bool {
        self.local.pool().has_queue() || !self.missed.is_empty()
    }

    /// Plans the jobs that are ready. The swaps of their records are sent at the end of the round.
    pub(super) fn plan_ready(&mut self, store: &mut Option<StoreIo>, is_store_down: bool) {
        for _ in 0..MAX_PER_ROUND {
            let Some((job, priority)) = self.local.next_ready() else { return };
            self.plan_one(job, priority, store, is_store_down);
        }
    }

    /// Plans a job. If the job needs a slot and none is free, the job joins the queue for slots.
    fn plan_one(&mut self, job: JobId, priority: SlotPriority, store: &mut Option<StoreIo>, is_store_down: bool) {
        let slots = self.local.pool().slots_for(priority);
        let entry = self.local.entry_mut(job);
        if entry.pending.is_some() {
            entry.is_ready = true;
            return;
        }
        if entry.is_shared && is_store_down && !self.local.pool().is_closed() {
            self.run_unclaimed(job, slots);
        }
        let entry = &self.local.jobs()[job];
        let must_write = !entry.events.is_empty() || entry.needs_write(self.pauses.all_jobs(), self.local.now());
        let may_wait = || entry.claim_without_slot(self.local.since(job)).is_none_or(|time| time > self.local.now());
        if !must_write && slots == 0 && entry.running().is_empty() && (self.local.pool().is_closed() || may_wait()) {
            // Another node with a free slot can claim the tick now. This node plans the job when it has a free slot.
            if !self.local.pool().is_closed() {
                self.local.join_slot_queue(job);
                self.schedule_next(job);
            }
        } else if entry.is_shared {
            self.plan_shared(job, slots, store);
        } else {
            self.plan_local(job, slots, store);
        }
    }

    fn plan_local(&mut self, job: JobId, free_slots: usize, store: &mut Option<StoreIo>) {
        let may_claim = !self.local.pool().is_closed();
        let context = NodeContext { node: &self.node, now: self.local.now(), free_slots, may_claim };
        let since = self.local.since(job);
        let plan = plan_local(self.local.entry_mut(job), &context, since);
        self.apply(job, &plan, store);
    }

    fn plan_shared(&mut self, job: JobId, free_slots: usize, store: &mut Option<StoreIo>) {
        let may_claim = self.may_claim(job);
        let session = self.session_of(job, store);
        if session.is_none() && self.local.jobs()[job].events.is_empty() {
            // The session is being claimed. Afterwards, all jobs with the lease of this session are planned again.
            return;
        }
        let may_claim = may_claim && session.is_some();
        let free_slots = if may_claim { free_slots } else { 0 };
        let context = NodeContext { node: &self.node, now: self.local.now(), free_slots, may_claim };
        match plan_shared(self.local.entry_mut(job), &context, session, self.pauses.all_jobs()) {
            SharedPlan::Unchanged(plan) => self.apply(job, &plan, store),
            SharedPlan::Swap { swap, starts } => {
                self.local.pool_mut().reserve(starts);
                self.swaps.push((job, swap));
            }
            SharedPlan::Impossible => {}
        }
    }

    /// Removes the oldest swaps that wait to be sent, at most this number.
    pub(super) fn take_swaps(&mut self, count: usize) -> (Vec<JobId>, Vec<Swap>) {
        let rest = self.swaps.split_off(self.swaps.len().min(count));
        std::mem::replace(&mut self.swaps, rest).into_iter().unzip()
    }

    /// Called while the store does not answer. If a tick of the job is due and the job's policy allows runs without a
    /// claim, starts a run of that tick.
    fn run_unclaimed(&mut self, job: JobId, slots: usize) {
        if slots == 0 || self.local.pool().has_run(job) || self.pauses.is_node_paused() {
            return;
        }
        let now = self.local.now();
        let entry = self.local.entry_mut(job);
        let Some(live) = take_unclaimed(entry, now, &self.node) else { return };
        tracing::warn!(job = %entry.definition.name, "the store does not answer: the tick runs unclaimed on this node, and on others that cannot reach the store");
        self.local.start(job, &live);
    }

    /// Handles the end of a local run.
    pub(super) fn run_ended(&mut self, job: JobId, run: &RunInfo, ended: RunEnd) {
        let took = self.local.remove(job, ended.fence);
        let entry = self.local.entry_mut(job);
        meters::ended(&entry.definition.name, &ended, took);
        if ended.state != State::Ok {
            let error = ended.error.as_deref().unwrap_or_default();
            let state = ended.state.as_str();
            tracing::warn!(job = %entry.definition.name, run = ended.id, attempt = ended.attempt, error, "the run ended: {state}");
        }
        if run.kind == Kind::Unclaimed {
            record_unclaimed_end(entry, run, ended, &self.node);
        } else {
            // Reserves memory for one event only. Some services run a hundred thousand jobs at the same time, and most
            // jobs have one run at a time.
            entry.events.reserve_exact(1);
            // A run that was dropped because its session was about to expire gets this event too. Two cases follow. If
            // a late renewal saves the session, the record still has the run as under way, and the event ends the run.
            // If the session expires and another node takes the run over, that node gives the run a greater fence. Then
            // the event has no effect.
            entry.events.push(Event::RunEnded(ended));
        }
        self.local.serve_slot_queue();
        self.local.make_ready(job);
    }

    /// Applies a plan whose state is confirmed: starts and cancels runs, and schedules the job's next planning.
    fn apply(&mut self, job: JobId, plan: &Plan, store: &mut Option<StoreIo>) {
        self.reconcile(job, store);
        self.local.end_wait(job);
        meters::left_out(self.local.jobs().name(job), plan);
        if self.local.jobs()[job].state.as_ref().is_some_and(|state| state.is_paused()) {
            self.local.jobs()[job].show_state();
        }
        self.missed.add(job, plan, || self.local.moment());
        self.report_failures(job, plan);
        self.log_backlog(job);
        if plan.is_news
            && let Some(store) = store
        {
            store.add_news(self.local.jobs().name(job));
        }
        if plan.is_starved && !self.local.pool().is_closed() {
            self.local.join_slot_queue(job);
        }
        self.schedule_next(job);
    }

    /// Calls the program's function for the runs that this node has recorded as failed. Each call is a task of its own.
    fn report_failures(&self, job: JobId, plan: &Plan) {
        let Some(on_failure) = &self.on_failure else { return };
        for failed in &plan.failures {
            let row = failed.row(self.local.jobs().name(job));
            // A panic of the function must not end the scheduler. The hook of panics has printed it.
            if let Ok(report) = std::panic::catch_unwind(AssertUnwindSafe(|| on_failure(row))) {
                tokio::spawn(report);
            }
        }
    }

    /// Starts and cancels local runs until they match the job's state.
    fn reconcile(&mut self, job: JobId, store: &mut Option<StoreIo>) {
        let session = self.session_of(job, store);
        self.local.reconcile(job, session.as_ref());
    }

    /// The session under which this node runs the job. If this node has no such session, begins to claim a session and
    /// returns none.
    fn session_of(&self, job: JobId, store: &mut Option<StoreIo>) -> Option<Holding> {
        let entry = &self.local.jobs()[job];
        store.as_mut().filter(|_| entry.is_shared)?.session(entry.definition.policy.lease)
    }

    /// Schedules the next planning of the job.
    fn schedule_next(&mut self, job: JobId) {
        let entry = &self.local.jobs()[job];
        let (since, is_waiting) = (self.local.since(job), self.local.pool().is_waiting(job));
        let time = if is_waiting { entry.claim_without_slot(since) } else { entry.next_claim(since) };
        // Runs that wait for copies of other nodes start when this time is over.
        let queued = entry.state.as_ref().filter(|state| !state.queue.is_empty());
        let copies = queued.and_then(|state| state.copies_until(self.local.now()));
        let Some(time) = time.into_iter().chain(copies).min() else { return };
        if !self.may_claim(job) {
            // There are four cases: another node with a greater revision claims the ticks, this node stops, this node
            // is paused, or a run without a claim has to end first.
            return;
        }
        let delay = if entry.is_shared && !is_waiting { self.local.pool().claim_delay_ms() } else { 0 };
        self.local.schedule(job, time.saturating_add(delay));
    }

    /// Whether this node is allowed to claim ticks of the job.
    fn may_claim(&self, job: JobId) -> bool {
        let entry = &self.local.jobs()[job];
        // Whether a pause of this node or a run without a claim prevents claims.
        let is_held = entry.is_shared && (self.pauses.is_node_paused() || self.local.pool().has_unclaimed_run(job));
        !self.local.pool().is_closed() && !is_held && !entry.is_superseded()
    }

    /// Handles the answer to the swap of a job's record. `retry`: the delay after which a swap without an answer is
    /// repeated.
    pub(super) fn take_answer(
        &mut self,
        job: JobId,
        answer: Result<Swapped>,
        retry: Duration,
        store: &mut Option<StoreIo>,
    ) -> Taken {
        let Some(Answered { starts, next }) = take_answer(self.local.entry_mut(job), answer, retry) else {
            return Taken::Settled;
        };
        self.local.pool_mut().return_reserved(starts);
        match next {
            AfterAnswer::Apply { plan, has_more } => {
                self.apply(job, &plan, store);
                if has_more {
                    self.local.make_ready(job);
                }
            }
            // If this record cannot be parsed, the node reads it again together with all jobs.
            AfterAnswer::Take(record) => return self.take_record(job, Ok(Some(record)), None, store),
            AfterAnswer::Read => return Taken::MustRead,
            AfterAnswer::PlanAfter(delay) => self.local.schedule_after(job, delay),
        }
        Taken::Settled
    }

    /// Handles a job's record. `era`: the era (the random name of the store's data), if the same call has read the era
    /// and the record.
    pub(super) fn take_record(
        &mut self,
        job: JobId,
        record: Result<Option<Record>>,
        era: Option<&str>,
        store: &mut Option<StoreIo>,
    ) -> Taken {
        let now = self.local.now();
        let entry = self.local.entry_mut(job);
        let read = match record {
            Ok(None) => RecordRead::Missing,
            Ok(Some(record)) => read_record(entry, record),
            Err(error) => {
                log_unreadable(entry, &error);
                return Taken::Settled;
            }
        };
        match recover(entry, read, era, now) {
            Recovered::Nothing => {}
            Recovered::Current => {
                let entry = &self.local.jobs()[job];
                self.rests.check(std::iter::once((job, entry)), now);
                entry.show_state();
                self.reconcile(job, store);
                self.local.make_ready(job);
            }
            Recovered::Behind { is_rollback } => {
                self.local.make_ready(job);
                if is_rollback {
                    return Taken::FellBack;
                }
            }
            Recovered::Lost => self.local.make_ready(job),
            Recovered::Forgotten => {
                tracing::info!(job = %entry.definition.name, "an operator has forgotten the job: this node registers it again");
                self.reconcile(job, store);
                self.local.schedule(job, now);
            }
        }
        Taken::Settled
    }

    /// Logs the jobs that do not fire because the clock was set back. This is called at the start, and when the clock has
    /// jumped.
    pub(super) fn log_rests(&mut self) {
        self.rests.check(self.local.jobs().iter(), self.local.now());
    }

    pub(super) fn pauses(&self) -> &NodePauses {
        &self.pauses
    }

    /// Sets the pauses that were read from the store. If this node was resumed, plans all jobs of the store. A pause or
    /// resume of all jobs needs no plan here, because the operator's process also writes the pause or resume to each
    /// job's record.
    pub(super) fn set_pauses(&mut self, pauses: KnownPauses) {
        if self.pauses.set(pauses) {
            self.local.make_all_ready(self.local.jobs().shared_ids());
        }
    }

    /// Remembers the version of a record of pauses that cannot be read. So the error is logged only once per version.
    pub(super) fn skip_pauses(&mut self, version: Option<Version>) {
        self.pauses.skip_version(version);
    }

    /// Plans the jobs whose records need a write that no tick causes, for example a heartbeat.
    pub(super) fn plan_jobs_that_need_a_write(&mut self) {
        let (all, now) = (self.pauses.all_jobs(), self.local.now());
        let behind = self.local.jobs().iter().filter(|(_, entry)| entry.needs_write(all, now));
        self.local.make_all_ready(behind.map(|(job, _)| job).collect());
    }

    /// Logs missed ticks, if a report is due.
    pub(super) fn log_missed_when_due(&mut self) {
        if self.missed.is_due(self.local.moment()) {
            self.log_missed();
        }
    }

    pub(super) fn log_missed(&mut self) {
        let jobs = self.local.jobs();
        self.missed.log(self.local.moment(), |job| Arc::clone(jobs.name(job)));
    }

    /// Warns if this node runs the job and the number of the job's queued ticks has grown for a minute. Only a job with
    /// a fixed rate and a queue can have such a backlog.
    fn log_backlog(&mut self, job: JobId) {
        let entry = &self.local.jobs()[job];
        let (Trigger::FixedRate(period), Overlap::Queue(most)) =
            (&entry.definition.trigger, entry.definition.policy.overlap)
        else {
            return;
        };
        let waiting = entry.state.as_ref().map_or(0, |state| state.queue.len());
        let growth = self.backlogs.observe(job, waiting, || self.local.moment());
        if let Some(growth) = growth.filter(|_| self.local.pool().has_run(job)) {
            growth.log(&entry.definition.name, *period, most);
        }
    }
}
