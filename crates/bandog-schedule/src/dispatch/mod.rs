//! The dispatcher: one tokio task per scheduler. It keeps the agenda of ticks, claims them, and starts and cancels
//! runs.
//!
//! Each round handles the messages that have arrived (ends of runs, answers of the store, calls of [`crate::Running`]),
//! takes the jobs that are due, plans each of them, and sends all swaps of the round together. The rules are in
//! [`crate::plan`]. A job has at most one swap in flight. Events that arrive meanwhile are planned after its answer.
//!
//! The record decides which runs exist. After each answer the dispatcher starts a run for each claim of this node that
//! has none, and drops each run whose claim is gone. So a lost reply does no harm.

mod answers;
mod apply;
mod backlog;
mod entry;
mod executor;
mod fail_open;
mod missed;
mod pauses;
mod planning;
mod polls;
mod pool;
mod recovery;
mod stop;
mod store;
mod time;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    future::poll_fn,
    panic::AssertUnwindSafe,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bandog_core::{Moment, Result, Swap};
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};

use self::{
    backlog::Backlogs,
    executor::{RunHandle, RunStarter},
    missed::MissedTicks,
    pool::WaitingJob,
    stop::Stopping,
    store::StoreIo,
};
use crate::{
    Kind, State,
    cancel::CancelReason,
    meters,
    pauses::KnownPauses,
    plan::{Event, RunEnd},
    run::RunInfo,
    trigger::UnixMs,
};

pub(crate) use self::{
    entry::JobEntry,
    polls::warn_about_future_watermark,
    store::{JOB_PREFIX, SESSION_PREFIX, board_key, job_key, publish_change, read_or_create_era, single_answer},
    time::Timekeeper,
};

/// Lets the other tasks of this worker run once. Tokio's `yield_now` would first run all tasks that are ready.
async fn yield_once() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Index of a job in [`Dispatcher::entries`].
pub(crate) type JobId = u32;

/// A message to the dispatcher.
#[derive(Debug)]
pub(crate) enum Message {
    RunEnded {
        job: JobId,
        attempt: u32,
        state: State,
        info: Arc<RunInfo>,
        error: Option<String>,
        note: Option<String>,
    },
    Stop {
        drain: Duration,
        done: oneshot::Sender<Result<()>>,
    },
    /// Ends the drain.
    EndDrain,
    /// The sender is answered when no run is under way and no event waits to be written.
    NotifyWhenIdle(oneshot::Sender<()>),
    /// Polls the store in the next round.
    Poll,
}

/// Interval between two polls of the board and of the other nodes' sessions.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of jobs planned, and of messages handled, in one round.
const MAX_PER_ROUND: usize = 1024;
/// Maximum time between two reads of the mailbox.
const MAX_MAILBOX_DELAY: Duration = Duration::from_millis(250);
/// Maximum time without a read of the wall clock, which may jump.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// Delay before a claim without an answer is sent again. It doubles with each attempt, up to [`POLL_INTERVAL`].
const RETRY: Duration = Duration::from_millis(100);

pub(crate) struct Dispatcher {
    pub(crate) entries: Vec<JobEntry>,
    /// Jobs sorted by name.
    by_name: Vec<JobId>,
    pub(crate) time: Timekeeper,
    pub(crate) started: UnixMs,
    /// `started`, moved with each step of the clock. Periods count from here.
    counted: UnixMs,
    pub(crate) node: Arc<str>,
    pub(crate) pool: usize,
    pub(crate) store: Option<StoreIo>,
    /// Unbounded, so that the end of a run never waits. Each message stands for a run or for a call of
    /// [`crate::Running`].
    mailbox: mpsc::UnboundedReceiver<Message>,
    agenda: BinaryHeap<Reverse<(UnixMs, JobId)>>,
    /// Runs by job and fence.
    runs: BTreeMap<(JobId, u64), RunHandle>,
    /// Runs that start in this round.
    starts: RunStarter,
    /// Number of slots that the swaps in flight may need.
    reserved: usize,
    /// Jobs that wait for a free slot of the pool, the oldest first.
    slot_queue: VecDeque<WaitingJob>,
    /// Jobs to plan in this round.
    ready: VecDeque<(JobId, SlotPriority)>,
    swaps: Vec<(JobId, Swap)>,
    /// Interval between two polls.
    poll_interval: Duration,
    next_poll: Moment,
    /// Time at which the node reads all jobs again, whether they have changed or not.
    read_all_at: Moment,
    is_polling: bool,
    /// Number of reads of records in flight.
    reads_in_flight: usize,
    /// Time of the poll that a notification asked for.
    notified_poll: Option<Moment>,
    /// Time of the last such poll.
    last_notified_poll: Option<Moment>,
    /// Delay before the next attempt when the store does not answer.
    retry_delay: Duration,
    is_store_down: bool,
    /// Time of the last outage that was logged.
    outage_logged_at: Option<Moment>,
    is_outage_logged: bool,
    is_clock_logged: bool,
    /// Number of runs that the gauge shows.
    reported_runs: usize,
    /// The mailbox may have more messages than the last round handled.
    has_messages: bool,
    /// Time of the last read of the mailbox.
    mailbox_read_at: Moment,
    stopping: Option<Stopping>,
    /// Pauses of all jobs and of nodes, as of the last poll.
    pauses: KnownPauses,
    /// An operator has paused this node.
    is_node_paused: bool,
    idle_waiters: Vec<oneshot::Sender<()>>,
    /// Missed and lost ticks that are not logged yet.
    missed: MissedTicks,
    backlogs: Backlogs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotPriority {
    /// Jobs that wait for a slot come first.
    Normal,
    /// The job has waited for a slot and now has one.
    NextInQueue,
}

impl Dispatcher {
    pub(crate) fn new(
        entries: Vec<JobEntry>,
        mut time: Timekeeper,
        node: Arc<str>,
        pool: usize,
        client: Option<bandog_sync::Client>,
        poll_interval: Duration,
        (mail, mailbox): (mpsc::UnboundedSender<Message>, mpsc::UnboundedReceiver<Message>),
    ) -> Self {
        // Discards the steps of the clock so far.
        time.jumped();
        let (started, next_poll) = (time.now(), time.moment());
        let mut by_name: Vec<JobId> = (0..).zip(&entries).map(|(job, _)| job).collect();
        by_name
            .sort_unstable_by(|one, other| entries[at(*one)].definition.name.cmp(&entries[at(*other)].definition.name));
        Self {
            entries,
            by_name,
            time,
            started,
            counted: started,
            node,
            pool,
            store: client.map(StoreIo::new),
            mailbox,
            agenda: BinaryHeap::new(),
            runs: BTreeMap::new(),
            starts: RunStarter::new(mail),
            reserved: 0,
            slot_queue: VecDeque::new(),
            ready: VecDeque::new(),
            swaps: Vec::new(),
            poll_interval,
            next_poll,
            read_all_at: next_poll + poll_interval * polls::READ_ALL_EVERY,
            is_polling: false,
            reads_in_flight: 0,
            notified_poll: None,
            last_notified_poll: None,
            retry_delay: RETRY,
            is_store_down: false,
            outage_logged_at: None,
            is_outage_logged: false,
            is_clock_logged: false,
            reported_runs: 0,
            has_messages: false,
            mailbox_read_at: next_poll,
            stopping: None,
            pauses: KnownPauses::default(),
            is_node_paused: false,
            idle_waiters: Vec::new(),
            missed: MissedTicks::default(),
            backlogs: Backlogs::default(),
        }
    }

    /// Spawns the dispatcher on the current runtime.
    pub(crate) fn start(self) -> tokio::task::AbortHandle {
        let task = tokio::spawn(async {
            if AssertUnwindSafe(self.run()).catch_unwind().await.is_err() {
                tracing::error!("the scheduler panicked and has ended: no job starts any more");
            }
        });
        task.abort_handle()
    }

    /// Runs until it has stopped.
    async fn run(mut self) {
        let mut agenda = Vec::with_capacity(self.entries.len());
        for (job, entry) in (0..).zip(&mut self.entries) {
            entry.wakes_at =
                if entry.is_shared { self.started } else { entry.wakes(self.started).unwrap_or(UnixMs::MAX) };
            if entry.wakes_at < UnixMs::MAX {
                agenda.push(Reverse((entry.wakes_at, job)));
            }
        }
        self.agenda = agenda.into();
        loop {
            self.keep_periods();
            self.read_mailbox();
            self.wake();
            self.poll();
            self.serve_slot_queue();
            self.plan_ready();
            if self.has_stopped() {
                break;
            }
            self.send();
            self.starts.begin();
            self.report_running();
            self.log_missed_when_due();
            if !self.ready.is_empty() {
                // More jobs are ready than one round may plan.
                yield_once().await;
            } else if self.has_messages || !(self.slot_queue.is_empty() || self.free_slots() == 0) {
                // Runs that can start do so first.
                tokio::task::yield_now().await;
            } else {
                self.notify_idle_waiters();
                self.sleep().await;
            }
        }
        self.end().await;
    }

    /// Periods count on the monotonic clock: when the clock is set, the jobs of this process that have a period move
    /// with it. Jobs with a cron expression, and jobs in the store, follow the clock as it is set.
    fn keep_periods(&mut self) {
        self.time.follow_wall();
        let Some(by) = self.time.jumped() else { return };
        self.counted = self.counted.saturating_add(by);
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_shared && entry.definition.trigger.is_counted()) {
            entry.state.iter_mut().for_each(|state| state.move_by(by));
            for event in &mut entry.events {
                if let Event::RunEnded(ended) = event {
                    ended.at = ended.at.saturating_add(by);
                }
            }
            if entry.wakes_at < UnixMs::MAX {
                entry.wakes_at = entry.wakes_at.saturating_add(by);
            }
        }
        let wakes_at = (0..).zip(&self.entries).filter(|(_, entry)| entry.wakes_at < UnixMs::MAX);
        self.agenda = wakes_at.map(|(job, entry)| Reverse((entry.wakes_at, job))).collect();
    }

    /// The time from which ticks of a job without a record count.
    fn since(&self, entry: &JobEntry) -> UnixMs {
        if entry.definition.trigger.is_counted() { self.counted } else { self.started }
    }

    /// While very many jobs are ready, their runs start first and the mailbox is read later.
    fn read_mailbox(&mut self) {
        let now = self.time.moment();
        if self.ready.len() <= MAX_PER_ROUND || now.since(self.mailbox_read_at) > MAX_MAILBOX_DELAY {
            self.has_messages = self.handle_messages();
            self.mailbox_read_at = now;
        }
    }

    fn report_running(&mut self) {
        let running = self.runs.len();
        if std::mem::replace(&mut self.reported_runs, running) != running {
            meters::running(running);
        }
    }

    /// Handles the messages that have arrived. True: there may be more.
    fn handle_messages(&mut self) -> bool {
        for _ in 0..MAX_PER_ROUND {
            let Ok(message) = self.mailbox.try_recv() else { return false };
            self.handle(message);
        }
        true
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::RunEnded { job, attempt, state, info, error, note } => {
                let (id, fence, at) = (info.id, info.fence.get(), self.time.now());
                self.run_ended(job, &info, RunEnd { id, fence, attempt, state, at, error, note });
            }
            Message::NotifyWhenIdle(waiter) => self.idle_waiters.push(waiter),
            Message::Poll => self.next_poll = self.time.moment(),
            Message::EndDrain => {
                let now = self.time.moment();
                self.stopping.iter_mut().for_each(|stopping| stopping.until = now);
            }
            // `Running` was dropped after its `stop`.
            Message::Stop { .. } if self.stopping.is_some() => {}
            Message::Stop { drain, done } => {
                let until = self.time.moment() + drain;
                tracing::info!(running = self.runs.len(), "the scheduler stops");
                self.stopping = Some(Stopping { until, is_cancelled: false, refused_since: None, done: Some(done) });
                self.runs.values().for_each(RunHandle::stop);
            }
        }
    }

    fn run_ended(&mut self, job: JobId, run: &RunInfo, ended: RunEnd) {
        let handle = self.runs.remove(&(job, ended.fence));
        let entry = &mut self.entries[at(job)];
        let took = handle.map(|handle| self.time.moment().since(handle.started)).unwrap_or_default();
        meters::ended(&entry.definition.name, &ended, took);
        if ended.state != State::Ok {
            let error = ended.error.as_deref().unwrap_or_default();
            let state = ended.state.as_str();
            tracing::warn!(job = %entry.definition.name, run = ended.id, attempt = ended.attempt, error, "the run ended: {state}");
        }
        if run.kind == Kind::Unclaimed {
            self.unclaimed_run_ended(job, run, ended);
        } else {
            // Reserves one element only: some services run a hundred thousand jobs at once, most of them one run at a
            // time.
            entry.events.reserve_exact(1);
            // A run that was dropped for its lease has an event too: a late renewal may have saved the lease. If
            // another node has taken the run over by then, the greater fence makes this event harmless.
            entry.events.push(Event::RunEnded(ended));
        }
        self.serve_slot_queue();
        self.ready.push_back((job, SlotPriority::Normal));
    }

    /// Moves the jobs that are due to `ready`.
    fn wake(&mut self) {
        let now = self.time.now();
        while let Some(Reverse((due, job))) = self.agenda.peek().copied() {
            if due > now {
                break;
            }
            self.agenda.pop();
            let entry = &mut self.entries[at(job)];
            if entry.wakes_at == due {
                entry.wakes_at = UnixMs::MAX;
                self.ready.push_back((job, SlotPriority::Normal));
            }
        }
        if self.stopping.as_ref().is_some_and(|stopping| !stopping.is_cancelled && stopping.until <= self.time.moment())
        {
            self.runs.values().for_each(|run| run.cancel(CancelReason::NodeStops));
            self.stopping.iter_mut().for_each(|stopping| stopping.is_cancelled = true);
        }
    }

    async fn sleep(&mut self) {
        let longest = if !self.slot_queue.is_empty() || self.stopping.is_some() || !self.missed.is_empty() {
            POLL_INTERVAL
        } else if self.store.is_some() {
            self.next_poll.since(self.time.moment())
        } else {
            LONGEST_SLEEP
        };
        let due = self.agenda.peek().map(|Reverse((due, _))| self.time.until(*due));
        let drain_end = self.stopping.as_ref().filter(|stopping| !stopping.is_cancelled);
        let drain_end = drain_end.map(|stopping| stopping.until.since(self.time.moment()));
        let notified = self.notified_poll_due().map(|due| due.since(self.time.moment()));
        let rest = [due, drain_end, notified].into_iter().flatten().fold(longest, Duration::min);
        let store = async {
            match &mut self.store {
                Some(store) => store.next_event().await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            message = self.mailbox.recv() => {
                // The dispatcher holds a sender itself, so `recv` never returns `None`.
                if let Some(message) = message {
                    self.handle(message);
                }
                return;
            }
            done = store => done,
            () = tokio::time::sleep(rest) => return,
        };
        self.handle_store_event(done);
    }
}

fn at(job: JobId) -> usize {
    usize::try_from(job).unwrap_or(usize::MAX)
}
