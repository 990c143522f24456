//! The jobs of this node: plans them, and starts and cancels local runs until these match the jobs' states.

use std::{collections::HashSet, sync::Arc, time::Duration};

use bandog_core::{Holding, Key, Moment, Record, Result, Swap, Swapped};

use super::{
    agenda::Agenda,
    backlog::Backlogs,
    entry::{JobEntry, JobId, PendingSwap},
    executor::{RunHandle, RunStarter},
    fail_open::{record_unclaimed_end, take_unclaimed},
    job_table::JobTable,
    missed::MissedTicks,
    pauses::NodePauses,
    planning::{NodeContext, SharedPlan, plan_local, plan_shared},
    polls::{POLL_INTERVAL, RETRY},
    pool::{Pool, SlotPriority},
    prepare::prepare,
    store::StoreIo,
    store_event::ReadJob,
    time::Timekeeper,
    warnings::{warn_about_dispute, warn_about_future_watermark},
};
use crate::{
    Kind, Overlap, State,
    cancel::CancelReason,
    meters,
    news::ChangedJobs,
    pauses::KnownPauses,
    plan::{Event, Plan, RunEnd},
    records::job_key,
    recovery::{RecordRead, Recovered, recover},
    run::RunInfo,
    state::{JobState, LiveRun},
    trigger::{Trigger, duration_ms},
};

/// Maximum number of jobs planned in one round.
const MAX_PER_ROUND: usize = 1024;

pub(super) struct Planner {
    jobs: JobTable,
    agenda: Agenda,
    pool: Pool,
    time: Timekeeper,
    node: Arc<str>,
    pauses: NodePauses,
    /// Missed and lost ticks that are not logged yet.
    missed: MissedTicks,
    backlogs: Backlogs,
    /// Swaps that are sent at the end of the round.
    swaps: Vec<(JobId, Swap)>,
}

/// What follows from a record or an answer that the planner took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Settled,
    /// The record is missing, and has to be read together with the board.
    MustRead,
    /// The store fell back to an earlier state.
    FellBack,
}

impl Planner {
    pub(super) fn new(
        entries: Vec<JobEntry>,
        mut time: Timekeeper,
        node: Arc<str>,
        pool: usize,
        starts: RunStarter,
    ) -> Self {
        // Discards the steps of the clock so far.
        time.jumped();
        let started = time.now();
        let first = |entry: &JobEntry| if entry.is_shared { Some(started) } else { entry.next_claim(started) };
        let agenda = Agenda::new(started, entries.iter().map(first));
        Self {
            agenda,
            pool: Pool::new(pool, entries.len(), starts),
            jobs: JobTable::new(entries),
            time,
            pauses: NodePauses::new(Arc::clone(&node)),
            node,
            missed: MissedTicks::default(),
            backlogs: Backlogs::default(),
            swaps: Vec::new(),
        }
    }

    pub(super) fn time(&self) -> &Timekeeper {
        &self.time
    }

    /// The time of the monotonic clock.
    pub(super) fn moment(&self) -> Moment {
        self.time.moment()
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Time until a job is due.
    pub(super) fn until_due(&self) -> Option<Duration> {
        self.agenda.next_time().map(|due| self.time.until(due))
    }

    pub(super) fn has_ready(&self) -> bool {
        self.agenda.ready() > 0
    }

    /// Whether more jobs are ready than one round may plan.
    pub(super) fn is_busy(&self) -> bool {
        self.agenda.ready() > MAX_PER_ROUND
    }

    /// Whether jobs wait for a slot, or ticks wait to be logged.
    pub(super) fn has_waiting(&self) -> bool {
        self.pool.has_queue() || !self.missed.is_empty()
    }

    /// Whether no run is under way or claimed, no job is ready, and every event is written.
    pub(super) fn is_idle(&self) -> bool {
        self.pool.is_idle() && !self.has_ready() && self.jobs.iter().all(|(_, entry)| entry.is_settled())
    }

    /// Whether a job has events that are not written.
    pub(super) fn has_events(&self) -> bool {
        self.jobs.iter().any(|(_, entry)| !entry.events.is_empty())
    }

    /// The jobs whose records other nodes should read once this node is gone.
    pub(super) fn jobs_for_others(&self) -> ChangedJobs {
        let mut changed = ChangedJobs::none();
        let concerned = self.jobs.iter().filter(|(_, entry)| entry.concerns_others());
        concerned.for_each(|(_, entry)| changed.add(&entry.definition.name));
        changed
    }

    /// Takes the store's time from an answer to a call that was sent at `sent`.
    pub(super) fn observe_time(&mut self, sent: Moment, store: std::time::SystemTime) {
        self.time.observe(sent, store);
        meters::clock(self.time.check_offset());
    }

    /// Periods count on the monotonic clock: when the clock is set, the jobs of this process that have a period move
    /// with it. Jobs with a cron expression, and jobs in the store, follow the clock as it is set.
    pub(super) fn follow_clock(&mut self) {
        self.time.follow_wall();
        let Some(by) = self.time.jumped() else { return };
        self.jobs.iter_mut().filter(|(_, entry)| entry.moves_with_clock()).for_each(|(_, entry)| entry.move_by(by));
        let jobs = &self.jobs;
        self.agenda.move_by(by, |job| jobs[job].moves_with_clock());
    }

    /// Makes the jobs that are due ready.
    pub(super) fn wake(&mut self) {
        self.agenda.wake(self.time.now());
    }

    /// Gives the free slots to the jobs that have waited longest.
    pub(super) fn serve_slot_queue(&mut self) {
        self.pool.leave_queue().for_each(|job| self.agenda.make_ready(job, SlotPriority::NextInQueue));
    }

    /// Plans the jobs that are ready. The swaps of their records are sent at the end of the round.
    pub(super) fn plan_ready(&mut self, store: &mut Option<StoreIo>, is_store_down: bool) {
        for _ in 0..MAX_PER_ROUND {
            let Some((job, priority)) = self.agenda.next_ready() else { return };
            self.plan_one(job, priority, store, is_store_down);
        }
    }

    fn plan_one(&mut self, job: JobId, priority: SlotPriority, store: &mut Option<StoreIo>, is_store_down: bool) {
        let slots = self.pool.slots_for(priority);
        let entry = &mut self.jobs[job];
        if entry.pending.is_some() {
            entry.is_ready = true;
            return;
        }
        if entry.is_shared && is_store_down && !self.pool.is_closed() {
            self.run_unclaimed(job, slots);
        }
        let entry = &self.jobs[job];
        let must_write = !entry.events.is_empty() || entry.needs_write(self.pauses.all_jobs(), self.time.now());
        if !must_write && slots == 0 && entry.running().is_empty() {
            // Another node with a free slot may claim it now, this node later.
            if !self.pool.is_closed() {
                self.pool.join_queue(job, self.time.moment());
            }
        } else if entry.is_shared {
            self.plan_shared(job, slots, store);
        } else {
            self.plan_local(job, slots, store);
        }
    }

    fn plan_local(&mut self, job: JobId, free_slots: usize, store: &mut Option<StoreIo>) {
        let may_claim = !self.pool.is_closed();
        let context = NodeContext { node: &self.node, now: self.time.now(), free_slots, may_claim };
        let entry = &mut self.jobs[job];
        let since = self.agenda.since(entry.definition.trigger.is_counted());
        let plan = plan_local(entry, &context, since);
        self.apply(job, &plan, store);
    }

    fn plan_shared(&mut self, job: JobId, free_slots: usize, store: &mut Option<StoreIo>) {
        let may_claim = self.may_claim(job);
        let session = self.session_of(job, store);
        let entry = &mut self.jobs[job];
        if session.is_none() && entry.events.is_empty() {
            // All jobs of this lease are planned again when the session is claimed.
            return;
        }
        let may_claim = may_claim && session.is_some();
        let free_slots = if may_claim { free_slots } else { 0 };
        let context = NodeContext { node: &self.node, now: self.time.now(), free_slots, may_claim };
        match plan_shared(entry, &context, session, self.pauses.all_jobs()) {
            SharedPlan::Unchanged(plan) => self.apply(job, &plan, store),
            SharedPlan::Swap { swap, starts } => {
                self.pool.reserve(starts);
                self.swaps.push((job, swap));
            }
            SharedPlan::Impossible => {}
        }
    }

    /// Removes up to this number of swaps that wait to be sent, the oldest first.
    pub(super) fn take_swaps(&mut self, count: usize) -> (Vec<JobId>, Vec<Swap>) {
        let rest = self.swaps.split_off(self.swaps.len().min(count));
        std::mem::replace(&mut self.swaps, rest).into_iter().unzip()
    }

    /// Starts a run of a tick that is due although the store does not answer, if the job's policy allows it.
    fn run_unclaimed(&mut self, job: JobId, slots: usize) {
        if slots == 0 || self.pool.has_run(job) || self.pauses.is_node_paused() {
            return;
        }
        let entry = &mut self.jobs[job];
        let Some(live) = take_unclaimed(entry, self.time.now(), &self.node) else { return };
        tracing::warn!(job = %entry.definition.name, "the store does not answer: the tick runs unclaimed on this node, and on others that cannot reach the store");
        let run = prepare(job, entry, &live, &self.time, self.pool.messages());
        self.pool.start(run, self.time.moment(), live.cancel);
    }

    /// Takes the end of a local run.
    pub(super) fn run_ended(&mut self, job: JobId, run: &RunInfo, ended: RunEnd) {
        let handle = self.pool.remove(job, ended.fence);
        let entry = &mut self.jobs[job];
        let took = handle.map(|handle| self.time.moment().since(handle.started)).unwrap_or_default();
        meters::ended(&entry.definition.name, &ended, took);
        if ended.state != State::Ok {
            let error = ended.error.as_deref().unwrap_or_default();
            let state = ended.state.as_str();
            tracing::warn!(job = %entry.definition.name, run = ended.id, attempt = ended.attempt, error, "the run ended: {state}");
        }
        if run.kind == Kind::Unclaimed {
            record_unclaimed_end(entry, run, ended, &self.node);
        } else {
            // Reserves one element only: some services run a hundred thousand jobs at once, most of them one run at a
            // time.
            entry.events.reserve_exact(1);
            // A run that was dropped because its session was about to expire has an event too: a late renewal may have
            // saved the session. If another node has taken the run over by then, the greater fence of that claim makes
            // this event harmless.
            entry.events.push(Event::RunEnded(ended));
        }
        self.serve_slot_queue();
        self.make_ready(job);
    }

    /// Applies a confirmed state: its runs, its next tick, and the queue for slots.
    fn apply(&mut self, job: JobId, plan: &Plan, store: &mut Option<StoreIo>) {
        self.reconcile(job, store);
        let now = self.time.moment();
        meters::left_out(self.jobs.name(job), plan);
        self.missed.add(job, plan, now);
        self.log_backlog(job);
        if plan.is_news
            && let Some(store) = store
        {
            store.add_news(self.jobs.name(job));
        }
        if plan.is_starved && !self.pool.is_closed() {
            self.pool.join_queue(job, now);
        }
        self.schedule_next(job);
    }

    /// Starts and cancels local runs until they match the job's state.
    fn reconcile(&mut self, job: JobId, store: &mut Option<StoreIo>) {
        let session = self.session_of(job, store);
        let entry = &self.jobs[job];
        let Some(state) = &entry.state else { return };
        let is_shared = entry.is_shared;
        let over = entry.ended_fences();
        let is_ours = |live: &&LiveRun| {
            let is_here = !is_shared || (session.is_some() && live.holding() == session);
            is_here && !over.contains(&live.fence)
        };
        if is_shared {
            let ours: HashSet<u64> = state.running.iter().filter(is_ours).map(|live| live.fence).collect();
            let here = self.pool.runs_of(job);
            here.filter(|(fence, run)| !run.is_unclaimed() && !ours.contains(fence))
                .for_each(|(_, run)| run.drop_now(CancelReason::SessionLost));
        }
        for live in state.running.iter().filter(is_ours) {
            match self.pool.run(job, live.fence) {
                Some(run) if live.cancel => run.cancel(CancelReason::Requested),
                Some(_) => {}
                None => {
                    let run = prepare(job, entry, live, &self.time, self.pool.messages());
                    self.pool.start(run, self.time.moment(), live.cancel);
                }
            }
        }
    }

    /// The session under which this node runs the job. If there is none, claims one.
    fn session_of(&self, job: JobId, store: &mut Option<StoreIo>) -> Option<Holding> {
        let entry = &self.jobs[job];
        store.as_mut().filter(|_| entry.is_shared)?.session(entry.definition.policy.lease)
    }

    /// Schedules the next planning of the job.
    fn schedule_next(&mut self, job: JobId) {
        let entry = &self.jobs[job];
        if self.pool.is_waiting(job) {
            return;
        }
        let since = self.agenda.since(entry.definition.trigger.is_counted());
        let Some(time) = entry.next_claim(since) else { return };
        if !self.may_claim(job) {
            // Another node with a greater revision claims the ticks, or this node stops or is paused, or an unclaimed
            // run has to end first.
            return;
        }
        let delay = if entry.is_shared { self.pool.claim_delay_ms() } else { 0 };
        self.agenda.schedule(job, time.saturating_add(delay));
    }

    /// Plans the job after this delay.
    fn schedule_after(&mut self, job: JobId, delay: Duration) {
        self.agenda.schedule(job, self.time.now().saturating_add(duration_ms(delay)));
    }

    fn may_claim(&self, job: JobId) -> bool {
        let entry = &self.jobs[job];
        let is_held = entry.is_shared && (self.pauses.is_node_paused() || self.pool.has_unclaimed_run(job));
        !self.pool.is_closed() && !is_held && !entry.is_superseded()
    }

    fn make_ready(&mut self, job: JobId) {
        self.agenda.make_ready(job, SlotPriority::Normal);
    }

    fn make_all_ready(&mut self, jobs: Vec<JobId>) {
        jobs.into_iter().for_each(|job| self.make_ready(job));
    }

    /// Takes the answer to the swap of a job's record. `retry`: the delay before a swap without an answer is repeated.
    pub(super) fn take_answer(
        &mut self,
        job: JobId,
        answer: Result<Swapped>,
        retry: Duration,
        store: &mut Option<StoreIo>,
    ) -> Taken {
        let entry = &mut self.jobs[job];
        let Some(pending) = entry.pending.take() else { return Taken::Settled };
        let PendingSwap { next, plan, events } = *pending;
        self.pool.return_reserved(plan.starts);
        let is_claim = plan.not_before.is_some();
        let was_ready = std::mem::take(&mut entry.is_ready);
        match answer {
            Ok(Swapped::Done(version)) => {
                if is_claim {
                    meters::claimed("won");
                }
                entry.events.drain(..events);
                entry.is_fault_logged = false;
                entry.version = version;
                entry.state = Some(Box::new(next));
                let has_more_events = !entry.events.is_empty() || was_ready;
                self.apply(job, &plan, store);
                if has_more_events {
                    self.make_ready(job);
                }
            }
            Ok(Swapped::Differs(record)) => {
                if is_claim {
                    meters::claimed("lost");
                }
                return match record {
                    // A record that cannot be read is read again with all the others.
                    Some(record) => self.take_record(job, Ok(Some(record)), None, store),
                    // The job was forgotten, or the store has lost it. The board says which.
                    None => Taken::MustRead,
                };
            }
            Ok(Swapped::Early(missing)) => {
                meters::claimed("early");
                self.schedule_after(job, missing.saturating_add(Duration::from_millis(1)));
            }
            // The engine notices at its next renewal. Until then this node claims nothing.
            Ok(Swapped::NotHeld) => self.schedule_after(job, RETRY),
            Err(error) => {
                if is_claim {
                    meters::claimed("error");
                }
                if !error.is_retryable() && !std::mem::replace(&mut entry.is_fault_logged, true) {
                    tracing::error!(job = %entry.definition.name, %error, "the job cannot be claimed");
                }
                self.schedule_after(job, if error.is_retryable() { retry } else { POLL_INTERVAL });
            }
        }
        Taken::Settled
    }

    /// Takes a record that was read together with this era; the era is none if the record was read without it.
    pub(super) fn take_record(
        &mut self,
        job: JobId,
        record: Result<Option<Record>>,
        era: Option<&str>,
        store: &mut Option<StoreIo>,
    ) -> Taken {
        let now = self.time.now();
        let entry = &mut self.jobs[job];
        let read = match record {
            Ok(None) => RecordRead::Missing,
            Ok(Some(record)) => read_record(entry, record, now),
            Err(error) => {
                log_unreadable(entry, &error);
                return Taken::Settled;
            }
        };
        match recover(entry, read, era, now) {
            Recovered::Nothing => {}
            Recovered::Current => {
                self.reconcile(job, store);
                self.make_ready(job);
            }
            Recovered::Behind { is_rollback } => {
                self.make_ready(job);
                if is_rollback {
                    return Taken::FellBack;
                }
            }
            Recovered::Lost => self.make_ready(job),
            Recovered::Forgotten => {
                tracing::info!(job = %entry.definition.name, "an operator has forgotten the job: this node registers it again");
                self.reconcile(job, store);
                self.agenda.schedule(job, now);
            }
        }
        Taken::Settled
    }

    pub(super) fn name(&self, job: JobId) -> &str {
        self.jobs.name(job)
    }

    pub(super) fn shared_jobs(&self) -> Vec<JobId> {
        self.jobs.shared().map(|(job, _)| job).collect()
    }

    /// The shared job of this name.
    pub(super) fn shared_named(&self, name: &str) -> Option<JobId> {
        self.jobs.shared_named(name)
    }

    /// How to read the record of a job. None if the name gives no key.
    pub(super) fn read_job(&self, job: JobId) -> Option<(ReadJob, Key)> {
        let entry = &self.jobs[job];
        Some((ReadJob { job, known: entry.version }, job_key(&entry.definition.name).ok()?))
    }

    /// Whether a record was read before the answer to a swap arrived that has a later version.
    pub(super) fn is_outdated(&self, read: ReadJob, record: &Result<Option<Record>>) -> bool {
        let known = self.jobs[read.job].version;
        let version = record.as_ref().map(|record| record.as_ref().map(|record| record.version));
        known != read.known && version.is_ok_and(|version| version < known)
    }

    /// The sessions of the runs under way, on any node.
    pub(super) fn sessions_of_runs(&self) -> impl Iterator<Item = Holding> {
        self.jobs.iter().flat_map(|(_, entry)| entry.running()).filter_map(LiveRun::holding)
    }

    /// Plans the deaths of the nodes with these sessions.
    pub(super) fn nodes_died(&mut self, sessions: &[&Holding]) {
        for (job, entry) in self.jobs.iter_mut() {
            for session in sessions {
                if entry.node_died(session) {
                    self.agenda.make_ready(job, SlotPriority::Normal);
                }
            }
        }
    }

    /// The claimed runs under the session of this lease.
    fn runs_of_lease(&self, lease: Duration) -> impl Iterator<Item = &RunHandle> {
        self.pool.runs().filter(move |run| {
            let entry = &self.jobs[run.job];
            entry.is_shared && !run.is_unclaimed() && entry.definition.policy.lease == lease
        })
    }

    /// Cancels the runs of a session that expires soon.
    pub(super) fn session_expires(&self, lease: Duration) {
        self.runs_of_lease(lease).for_each(|run| run.cancel(CancelReason::SessionLost));
    }

    /// Drops the runs of a session that was lost.
    pub(super) fn session_lost(&self, lease: Duration) {
        if self.runs_of_lease(lease).next().is_some() {
            tracing::error!(?lease, "this node lost its session: its runs of that lease are dropped");
        } else {
            tracing::warn!(?lease, "this node lost its session: it had no run");
        }
        self.runs_of_lease(lease).for_each(|run| run.drop_now(CancelReason::SessionLost));
    }

    /// Plans the jobs of a session that was claimed.
    pub(super) fn session_claimed(&mut self, lease: Duration) {
        let jobs = self.jobs.shared().filter(|(_, entry)| entry.definition.policy.lease == lease);
        self.make_all_ready(jobs.map(|(job, _)| job).collect());
    }

    pub(super) fn pauses(&self) -> &NodePauses {
        &self.pauses
    }

    /// Takes new pauses. A pause of all jobs is in their records too.
    pub(super) fn set_pauses(&mut self, pauses: KnownPauses) {
        if self.pauses.set(pauses) {
            self.make_all_ready(self.shared_jobs());
        }
    }

    /// Takes the version of a record of pauses that cannot be read.
    pub(super) fn skip_pauses(&mut self, version: Option<bandog_core::Version>) {
        self.pauses.skip_version(version);
    }

    /// Plans the jobs whose records need a write that no tick causes.
    pub(super) fn plan_jobs_that_need_a_write(&mut self) {
        let (all, now) = (self.pauses.all_jobs(), self.time.now());
        let behind = self.jobs.iter().filter(|(_, entry)| entry.needs_write(all, now));
        self.make_all_ready(behind.map(|(job, _)| job).collect());
    }

    /// Logs missed ticks, if a report is due.
    pub(super) fn log_missed_when_due(&mut self) {
        if self.missed.is_due(self.time.moment()) {
            self.log_missed();
        }
    }

    pub(super) fn log_missed(&mut self) {
        let jobs = &self.jobs;
        self.missed.log(self.time.moment(), |job| Arc::clone(jobs.name(job)));
    }

    /// Logs the jobs that wait long for a slot.
    pub(super) fn log_long_waits(&mut self) {
        for job in self.pool.long_waits(self.time.moment()) {
            let running = self.pool.runs().map(|run| self.name(run.job)).take(3);
            let blockers = running.collect::<HashSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
            let (name, size) = (self.name(job), self.pool.size());
            tracing::warn!(job = %name, "the job waits for a slot: the pool of {size} runs {blockers}; a larger pool runs both");
        }
    }

    /// Warns if the number of queued ticks has grown for a minute and this node runs the job.
    fn log_backlog(&mut self, job: JobId) {
        let entry = &self.jobs[job];
        let (Trigger::FixedRate(period), Overlap::Queue(most)) =
            (&entry.definition.trigger, entry.definition.policy.overlap)
        else {
            return;
        };
        let waiting = entry.state.as_ref().map_or(0, |state| state.queue.len());
        let Some(growth) = self.backlogs.observe(job, waiting, self.time.moment()) else { return };
        if self.pool.has_run(job) {
            let (before, ago) = (growth.before, Duration::from_secs(growth.time.as_secs()));
            let period = humantime::format_duration(Duration::from_millis(period.unsigned_abs()));
            let ago = humantime::format_duration(ago);
            tracing::warn!(
                job = %entry.definition.name,
                waiting,
                before,
                "the job's runs take longer than its period of {period}: {waiting} ticks wait, {before} waited {ago} \
                 ago; when {most} wait, further ticks are skipped. With a longer period or overlap = \"allow(2)\" the \
                 job keeps up, with overlap = \"skip\" it skips ticks"
            );
        }
    }
}

/// Parses a record, and warns about contents that need an operator.
fn read_record(entry: &mut JobEntry, record: Record, now: crate::trigger::UnixMs) -> RecordRead {
    if entry.pending.is_some() || Some(record.version) == entry.version {
        return RecordRead::Unchanged;
    }
    let name = &entry.definition.name;
    match job_key(name).and_then(|key| JobState::read(&record.value, &key)) {
        Ok(state) => {
            warn_about_future_watermark(name, &state, now);
            warn_about_dispute(entry, &state);
            entry.is_fault_logged = false;
            RecordRead::Found(record.version, Box::new(state))
        }
        Err(error) => {
            log_unreadable(entry, &error);
            RecordRead::Unchanged
        }
    }
}

/// Logs once that this version of bandog cannot read the record.
fn log_unreadable(entry: &mut JobEntry, error: &bandog_core::Error) {
    if entry.pending.is_none() && !std::mem::replace(&mut entry.is_fault_logged, true) {
        tracing::error!(job = %entry.definition.name, %error, "the job's record cannot be read: this node does not run the job until it can");
    }
}
