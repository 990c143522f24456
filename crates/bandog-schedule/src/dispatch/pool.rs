//! The pool: the runs of this node, and the jobs that wait for a slot. Each run needs one of the node's slots, whose
//! number is limited.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bandog_core::Moment;

use super::{
    entry::JobId,
    executor::{MessageSender, PreparedRun, RunHandle, RunStarter},
    job_table::index,
};
use crate::{cancel::CancelReason, meters, trigger::DurationMs};

/// A job is logged if it has waited for a slot for at least this time.
const MIN_LOGGED_WAIT: Duration = Duration::from_secs(1);
/// Maximum delay of a claim. A node whose pool is full delays its claims by this time. So a node with free slots claims
/// the tick first.
const MAX_CLAIM_DELAY_MS: DurationMs = 20;

/// Which jobs can take a free slot first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotPriority {
    /// The job can take a slot only if no job waits in the queue.
    Normal,
    /// The job has waited in the queue, and a slot is free for it now.
    NextInQueue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// The phase of the pool.
enum Phase {
    /// Runs are claimed and started.
    Open,
    /// The node stops. No run is claimed any more. The present runs can continue until the drain (the time that a stop
    /// leaves to runs) is over.
    Closed,
    /// The drain is over, so the runs are cancelled.
    Cancelled,
}

pub(super) struct Pool {
    /// Number of slots.
    size: usize,
    phase: Phase,
    /// Number of slots that are reserved for the runs of the swaps in flight.
    reserved: usize,
    /// Runs by job and fence.
    runs: BTreeMap<(JobId, u64), RunHandle>,
    /// Runs that start in this round.
    starts: RunStarter,
    /// Jobs that wait for a free slot. The job that has waited longest is the first one.
    queue: VecDeque<WaitingJob>,
    /// Whether each job is in `queue`.
    is_waiting: Vec<bool>,
    /// Jobs that have left the queue after a logged wait, and the start of the wait. No run of these jobs has started yet:
    /// another node might run the tick.
    logged_waits: BTreeMap<JobId, Moment>,
    /// The number of runs that the metric shows.
    reported: usize,
}

struct WaitingJob {
    job: JobId,
    since: Moment,
    /// Whether this wait is logged already.
    is_logged: bool,
}

impl Pool {
    /// An empty pool for this number of jobs.
    pub(super) fn new(size: usize, jobs: usize, starts: RunStarter) -> Self {
        Self {
            size,
            phase: Phase::Open,
            reserved: 0,
            runs: BTreeMap::new(),
            starts,
            queue: VecDeque::new(),
            is_waiting: vec![false; jobs],
            logged_waits: BTreeMap::new(),
            reported: 0,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Number of runs under way.
    pub(super) fn running(&self) -> usize {
        self.runs.len()
    }

    /// Whether no run is under way or being claimed.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.is_empty() && self.reserved == 0
    }

    pub(super) fn free_slots(&self) -> usize {
        match self.phase {
            Phase::Open => self.size.saturating_sub(self.runs.len() + self.reserved),
            Phase::Closed | Phase::Cancelled => 0,
        }
    }

    /// Number of slots that a job of this priority can take.
    pub(super) fn slots_for(&self, priority: SlotPriority) -> usize {
        match priority {
            SlotPriority::Normal if !self.queue.is_empty() => 0,
            SlotPriority::Normal | SlotPriority::NextInQueue => self.free_slots(),
        }
    }

    /// Reserves slots for the runs that a swap claims.
    pub(super) fn reserve(&mut self, slots: usize) {
        self.reserved += slots;
    }

    /// Frees the slots that were reserved for a swap. This is called after the answer to the swap.
    pub(super) fn return_reserved(&mut self, slots: usize) {
        self.reserved -= slots;
    }

    /// Delay of this node's next claim. The delay grows with the number of runs under way.
    pub(super) fn claim_delay_ms(&self) -> DurationMs {
        let ms = |count: usize| DurationMs::try_from(count).unwrap_or(DurationMs::MAX);
        (MAX_CLAIM_DELAY_MS.saturating_mul(ms(self.runs.len())) / ms(self.size)).min(MAX_CLAIM_DELAY_MS)
    }

    /// The sender for the end of the next run.
    pub(super) fn messages(&self) -> MessageSender {
        self.starts.messages()
    }

    /// Adds a run, which starts in this round. `is_cancelled`: whether the record shows that the run was cancelled
    /// already.
    pub(super) fn start(&mut self, run: PreparedRun, now: Moment, is_cancelled: bool) {
        let handle = run.handle(now);
        if is_cancelled {
            handle.cancel(CancelReason::Requested);
        }
        match self.phase {
            Phase::Open => {}
            Phase::Closed => handle.stop(),
            Phase::Cancelled => {
                handle.stop();
                handle.cancel(CancelReason::NodeStops);
            }
        }
        self.runs.insert((run.job, run.info.fence.get()), handle);
        self.starts.push(run);
    }

    /// Starts the runs that were added in this round.
    pub(super) fn begin_starts(&mut self) {
        self.starts.begin();
    }

    /// Removes a run that has ended.
    pub(super) fn remove(&mut self, job: JobId, fence: u64) -> Option<RunHandle> {
        self.runs.remove(&(job, fence))
    }

    pub(super) fn run(&self, job: JobId, fence: u64) -> Option<&RunHandle> {
        self.runs.get(&(job, fence))
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &RunHandle> {
        self.runs.values()
    }

    /// The runs of one job with their fences.
    pub(super) fn runs_of(&self, job: JobId) -> impl Iterator<Item = (u64, &RunHandle)> {
        self.runs.range((job, 0)..=(job, u64::MAX)).map(|((_, fence), run)| (*fence, run))
    }

    pub(super) fn has_run(&self, job: JobId) -> bool {
        self.runs_of(job).next().is_some()
    }

    /// Whether this node runs the job without a claim.
    pub(super) fn has_unclaimed_run(&self, job: JobId) -> bool {
        self.runs_of(job).any(|(_, run)| run.is_unclaimed())
    }

    /// Closes the pool. From now on, the pool has no free slot. Notifies the runs that the node stops.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
        self.runs().for_each(RunHandle::stop);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase != Phase::Open
    }

    /// Cancels all runs, because the drain is over.
    pub(super) fn cancel_all(&mut self) {
        self.phase = Phase::Cancelled;
        self.runs().for_each(|run| run.cancel(CancelReason::NodeStops));
    }

    /// Adds the job to the queue for slots, unless the job is in the queue already.
    pub(super) fn join_queue(&mut self, job: JobId, now: Moment) {
        if !std::mem::replace(&mut self.is_waiting[index(job)], true) {
            self.queue.push_back(WaitingJob { job, since: now, is_logged: false });
        }
    }

    pub(super) fn is_waiting(&self, job: JobId) -> bool {
        self.is_waiting[index(job)]
    }

    pub(super) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a job waits and a slot is free.
    pub(super) fn can_serve_queue(&self) -> bool {
        self.has_queue() && self.free_slots() > 0
    }

    /// Removes jobs from the queue and returns them: one job for each free slot, beginning with the job that has waited
    /// longest.
    pub(super) fn leave_queue(&mut self) -> impl Iterator<Item = JobId> {
        let count = self.free_slots().min(self.queue.len());
        let (is_waiting, logged_waits) = (&mut self.is_waiting, &mut self.logged_waits);
        self.queue.drain(..count).map(|waiting| {
            is_waiting[index(waiting.job)] = false;
            if waiting.is_logged {
                logged_waits.insert(waiting.job, waiting.since);
            }
            waiting.job
        })
    }

    /// The start of the logged wait after which this job has left the queue. A wait is returned only once.
    pub(super) fn end_logged_wait(&mut self, job: JobId) -> Option<Moment> {
        self.logged_waits.remove(&job)
    }

    /// The jobs that have waited long for a slot and are not logged yet.
    pub(super) fn long_waits(&mut self, now: Moment) -> Vec<JobId> {
        let is_long = |waiting: &&mut WaitingJob| !waiting.is_logged && now.since(waiting.since) >= MIN_LOGGED_WAIT;
        let long = self.queue.iter_mut().filter(is_long);
        long.map(|waiting| {
            waiting.is_logged = true;
            waiting.job
        })
        .collect()
    }

    /// Updates the metric for the number of runs under way.
    pub(super) fn report(&mut self) {
        let running = self.runs.len();
        if std::mem::replace(&mut self.reported, running) != running {
            meters::running(running);
        }
    }
}

#[cfg(test)]
mod tests;
