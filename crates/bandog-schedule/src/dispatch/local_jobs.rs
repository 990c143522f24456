//! The jobs of this node, the agenda (when each job is planned next), and the local runs. The planner changes all of
//! these.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use bandog_core::{Holding, Moment};

use super::{
    agenda::Agenda,
    entry::{JobEntry, JobId},
    executor::{RunHandle, RunStarter},
    job_table::JobTable,
    pool::{Pool, SlotPriority},
    prepare::prepare,
    reconcile::reconcile,
    time::Timekeeper,
};
use crate::{
    cancel::CancelReason,
    meters,
    state::LiveRun,
    trigger::{UnixMs, duration_ms},
};

/// Maximum number of jobs planned in one round.
pub(super) const MAX_PER_ROUND: usize = 1024;
/// Maximum number of runs that a warning about a full pool lists.
const MAX_NAMED_RUNS: usize = 3;

/// The jobs of this node, their agenda, their local runs, and the node's clock.
pub(super) struct LocalJobs {
    jobs: JobTable,
    agenda: Agenda,
    pool: Pool,
    time: Timekeeper,
}

impl LocalJobs {
    pub(super) fn new(entries: Vec<JobEntry>, mut time: Timekeeper, pool: usize, starts: RunStarter) -> Self {
        // Steps of the clock before the start have no effect on the jobs.
        time.jumped();
        let started = time.now();
        // Time of the first planning of a job. A job of the store is planned immediately.
        let first = |entry: &JobEntry| if entry.is_shared { Some(started) } else { entry.next_claim(started) };
        let agenda = Agenda::new(started, entries.iter().map(first));
        Self { agenda, pool: Pool::new(pool, entries.len(), starts), jobs: JobTable::new(entries), time }
    }

    pub(super) fn jobs(&self) -> &JobTable {
        &self.jobs
    }

    pub(super) fn entry_mut(&mut self, job: JobId) -> &mut JobEntry {
        &mut self.jobs[job]
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// The store's time, as far as this node knows it.
    pub(super) fn now(&self) -> UnixMs {
        self.time.now()
    }

    /// The time of the monotonic clock.
    pub(super) fn moment(&self) -> Moment {
        self.time.moment()
    }

    /// Time until the next job is due.
    pub(super) fn until_due(&self) -> Option<Duration> {
        self.agenda.next_time().map(|due| self.time.until(due))
    }

    pub(super) fn has_ready(&self) -> bool {
        self.agenda.ready() > 0
    }

    /// Whether more jobs are ready than one round can plan.
    pub(super) fn is_busy(&self) -> bool {
        self.agenda.ready() > MAX_PER_ROUND
    }

    /// Whether the node is idle: no run is under way or being claimed, no job is ready, and every event is written.
    pub(super) fn is_idle(&self) -> bool {
        self.pool.is_idle() && !self.has_ready() && self.jobs.are_settled()
    }

    /// While the job has no state, all ticks of the job before this time are ignored.
    pub(super) fn since(&self, job: JobId) -> UnixMs {
        self.agenda.since(self.jobs[job].definition.trigger.is_counted())
    }

    /// Corrects this node's copy of the store's time. `store`: the time in an answer of the store. `sent`: when the
    /// call was sent.
    pub(super) fn observe_time(&mut self, sent: Moment, store: SystemTime) {
        self.time.observe(sent, store);
        meters::clock(self.time.check_offset());
    }

    /// If the wall clock was set, moves the ticks of the jobs of this process that have a period. Their ticks move by
    /// the step of the clock, because periods are measured on the monotonic clock. The ticks of cron expressions and of
    /// jobs in the store are not moved. Returns whether the node's time has jumped, which is also true if the store's
    /// clock was set.
    pub(super) fn follow_clock(&mut self) -> bool {
        self.time.follow_wall();
        let Some(by) = self.time.jumped() else { return false };
        self.jobs.iter_mut().filter(|(_, entry)| entry.moves_with_clock()).for_each(|(_, entry)| entry.move_by(by));
        let jobs = &self.jobs;
        self.agenda.move_by(by, |job| jobs[job].moves_with_clock());
        true
    }

    /// Makes the jobs that are due ready. Ready jobs are planned in this round.
    pub(super) fn wake(&mut self) {
        self.agenda.wake(self.time.now());
    }

    /// Plans the job in this round.
    pub(super) fn make_ready(&mut self, job: JobId) {
        self.agenda.make_ready(job, SlotPriority::Normal);
    }

    pub(super) fn make_all_ready(&mut self, jobs: Vec<JobId>) {
        jobs.into_iter().for_each(|job| self.make_ready(job));
    }

    pub(super) fn next_ready(&mut self) -> Option<(JobId, SlotPriority)> {
        self.agenda.next_ready()
    }

    /// Plans the job at this time. This replaces the time that was set before.
    pub(super) fn schedule(&mut self, job: JobId, time: UnixMs) {
        self.agenda.schedule(job, time);
    }

    /// Plans the job after this delay.
    pub(super) fn schedule_after(&mut self, job: JobId, delay: Duration) {
        self.agenda.schedule(job, self.time.now().saturating_add(duration_ms(delay)));
    }

    /// Gives the free slots to the jobs that have waited longest: makes these jobs ready.
    pub(super) fn serve_slot_queue(&mut self) {
        for job in self.pool.leave_queue() {
            self.agenda.make_ready(job, SlotPriority::NextInQueue);
        }
    }

    /// Adds the job to the queue for slots.
    pub(super) fn join_slot_queue(&mut self, job: JobId) {
        self.pool.join_queue(job, self.time.moment());
    }

    /// Starts a run of this job.
    pub(super) fn start(&mut self, job: JobId, live: &LiveRun) {
        let run = prepare(job, &self.jobs[job], live, &self.time, self.pool.messages());
        self.pool.start(run, self.time.moment(), live.cancel);
        self.log_end_of_wait(job, live.due);
    }

    /// Removes a run that has ended, and returns its duration.
    pub(super) fn remove(&mut self, job: JobId, fence: u64) -> Duration {
        let handle = self.pool.remove(job, fence);
        handle.map(|handle| self.time.moment().since(handle.started)).unwrap_or_default()
    }

    /// Starts and cancels local runs until they match the job's state. `session`: the session under which this node
    /// runs the job.
    pub(super) fn reconcile(&mut self, job: JobId, session: Option<&Holding>) {
        let first = reconcile(job, &self.jobs[job], session, &mut self.pool, &self.time);
        if let Some(due) = first {
            self.log_end_of_wait(job, due);
        }
    }

    /// Forgets the logged wait of a job, because its plan is applied. If no run has started, no tick waits any more:
    /// another node has run it.
    pub(super) fn end_wait(&mut self, job: JobId) {
        self.pool.end_logged_wait(job);
    }

    /// Handles the deaths of the nodes with these sessions: plans the jobs that these nodes ran.
    pub(super) fn nodes_died(&mut self, sessions: &[&Holding]) {
        let now = self.time.now();
        for (job, entry) in self.jobs.iter_mut() {
            let deaths = sessions.iter().filter(|session| entry.node_died(session, now)).count();
            (0..deaths).for_each(|_| self.agenda.make_ready(job, SlotPriority::Normal));
        }
    }

    /// The runs that were claimed under the session of this lease.
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

    /// Plans the jobs that use the session of this lease, because this session was claimed.
    pub(super) fn session_claimed(&mut self, lease: Duration) {
        let jobs = self.jobs.shared().filter(|(_, entry)| entry.definition.policy.lease == lease);
        self.make_all_ready(jobs.map(|(job, _)| job).collect());
    }

    /// Logs that a run has got a slot, if the wait of the job was logged. `due`: the time at which the
    /// run was due.
    fn log_end_of_wait(&mut self, job: JobId, due: UnixMs) {
        let Some(since) = self.pool.end_logged_wait(job) else { return };
        // An earlier tick of the same wait might have run on another node.
        let late = Duration::from_millis(u64::try_from(self.time.now().saturating_sub(due)).unwrap_or_default());
        let waited = self.time.moment().since(since).min(late);
        let waited = humantime::format_duration(Duration::from_secs(waited.as_secs()));
        tracing::warn!(job = %self.jobs.name(job), %waited, "the job gets a slot of the pool");
    }

    /// Logs the jobs that wait long for a slot.
    pub(super) fn log_long_waits(&mut self) {
        for job in self.pool.long_waits(self.time.moment()) {
            let running = self.pool.runs().map(|run| &**self.jobs.name(run.job)).take(MAX_NAMED_RUNS);
            let blockers = running.collect::<HashSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
            let (name, size) = (self.jobs.name(job), self.pool.size());
            tracing::warn!(
                job = %name,
                "the job waits for a slot: the pool of {size} runs {blockers}; a larger pool can run them at the same time"
            );
        }
    }
}
