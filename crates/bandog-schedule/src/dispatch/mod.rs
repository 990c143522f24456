//! The dispatcher: one task that knows every job's next tick, claims, starts runs and hears of their end.
//!
//! A round: take what has come (ends of runs, the store's answers, words of the handle), take what is due, plan each job
//! that something concerns, send all swaps of the round together. The rules are in [`crate::plan`]; here is when, and
//! with whom. A job has at most one swap in flight; what comes meanwhile is planned on the answer.
//!
//! What runs is what the record says: after each answer, a claim of this node that has no task gets one, and a task whose
//! claim is gone is dropped. So a lost reply costs nothing.

mod backlog;
mod carry;
mod desk;
mod entry;
mod follow;
mod land;
mod left;
mod line;
mod lost;
mod open;
mod pauses;
mod stop;
mod time;
mod turn;
mod watch;

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
    carry::{Hand, Starts},
    desk::Desk,
    left::Left,
    stop::Stopping,
};
use crate::{
    Kind, State,
    cancel::Why,
    meters,
    pauses::Known,
    plan::{Ended, Event},
    run::Facts,
    trigger::Ms,
};

pub(crate) use self::{
    desk::{PREFIX, SESSION, board, bump, era, key, only},
    entry::Entry,
    time::Timekeeper,
    watch::tell_of_rest,
};

/// Lets the other tasks of this worker run once. Tokio's own `yield_now` would wait until there are none left.
async fn take_turns() {
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

/// A job by its place.
pub(crate) type JobId = u32;

/// What the dispatcher hears.
#[derive(Debug)]
pub(crate) enum Msg {
    Ended {
        job: JobId,
        attempt: u32,
        state: State,
        facts: Arc<Facts>,
        error: Option<String>,
        note: Option<String>,
    },
    Stop {
        drain: Duration,
        done: oneshot::Sender<Result<()>>,
    },
    /// The drain is over.
    Hurry,
    /// Answered when nothing is under way.
    Idle(oneshot::Sender<()>),
    /// Somebody may have said a word just now.
    Look,
}

/// How often a node looks at the board and at the others' sessions.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Jobs planned, and ends heard, in one round.
const ROUND: usize = 1024;
/// Ends of runs are heard at least this often.
const DEAF: Duration = Duration::from_millis(250);
/// The wall clock may jump, so it is read at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// A claim that got no answer is sent again after this time, and then after twice as long, up to [`LOOK`].
const RETRY: Duration = Duration::from_millis(100);

pub(crate) struct Dispatch {
    pub(crate) entries: Vec<Entry>,
    /// Jobs in the order of their names.
    by_name: Vec<JobId>,
    pub(crate) time: Timekeeper,
    pub(crate) started: Ms,
    /// The same by the time as it has been set since: from here on periods count.
    counted: Ms,
    pub(crate) node: Arc<str>,
    pub(crate) pool: usize,
    pub(crate) desk: Option<Desk>,
    /// Unbounded, since a run's end cannot wait; every message stands for a run or a call of the handle.
    mailbox: mpsc::UnboundedReceiver<Msg>,
    agenda: BinaryHeap<Reverse<(Ms, JobId)>>,
    /// Runs by their job and fence.
    runs: BTreeMap<(JobId, u64), Hand>,
    /// Runs that begin in this round.
    starts: Starts,
    /// Places that swaps in flight may need.
    reserved: usize,
    /// Jobs that wait for a place, since when.
    line: VecDeque<(JobId, Moment, bool)>,
    /// Jobs to plan in this round, and whether it is their turn for a place.
    ready: VecDeque<(JobId, Turn)>,
    out: Vec<(JobId, Swap)>,
    /// How often it looks.
    every: Duration,
    look_at: Moment,
    /// When all jobs are read again, whether they have changed or not.
    read_all_at: Moment,
    is_looking: bool,
    /// Calls in flight that read records after a look.
    reading: usize,
    /// When to look because the board has rung.
    ring_at: Option<Moment>,
    /// When it last did so.
    answered_ring: Option<Moment>,
    /// How long it waits before it asks a store again that gave no answer.
    pause: Duration,
    is_away: bool,
    /// When the log was told of an outage last, and whether it knows of this one.
    away_told: Option<Moment>,
    is_away_told: bool,
    is_clock_told: bool,
    /// How many runs the gauge shows.
    told_running: usize,
    /// Whether there may be more of it than was heard.
    has_mail: bool,
    /// When its mail was last opened.
    heard: Moment,
    stopping: Option<Stopping>,
    /// What is paused beside single jobs, as the last look has told.
    pauses: Known,
    /// This node is paused.
    is_held: bool,
    idlers: Vec<oneshot::Sender<()>>,
    /// Ticks that nobody ran.
    left: Left,
    backlogs: Backlogs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Those who wait for a place go first.
    Usual,
    /// It has waited.
    Served,
}

impl Dispatch {
    pub(crate) fn new(
        entries: Vec<Entry>,
        mut time: Timekeeper,
        node: Arc<str>,
        pool: usize,
        client: Option<bandog_sync::Client>,
        every: Duration,
        (mail, mailbox): (mpsc::UnboundedSender<Msg>, mpsc::UnboundedReceiver<Msg>),
    ) -> Self {
        // Nothing has been counted yet.
        time.jumped();
        let (started, look_at) = (time.now(), time.moment());
        let mut by_name: Vec<JobId> = (0..).zip(&entries).map(|(job, _)| job).collect();
        by_name.sort_unstable_by(|one, other| entries[at(*one)].task.name.cmp(&entries[at(*other)].task.name));
        Self {
            entries,
            by_name,
            time,
            started,
            counted: started,
            node,
            pool,
            desk: client.map(Desk::new),
            mailbox,
            agenda: BinaryHeap::new(),
            runs: BTreeMap::new(),
            starts: Starts::new(mail),
            reserved: 0,
            line: VecDeque::new(),
            ready: VecDeque::new(),
            out: Vec::new(),
            every,
            look_at,
            read_all_at: look_at + every * watch::READ_AGAIN,
            is_looking: false,
            reading: 0,
            ring_at: None,
            answered_ring: None,
            pause: RETRY,
            is_away: false,
            away_told: None,
            is_away_told: false,
            is_clock_told: false,
            told_running: 0,
            has_mail: false,
            heard: look_at,
            stopping: None,
            pauses: Known::default(),
            is_held: false,
            idlers: Vec::new(),
            left: Left::default(),
            backlogs: Backlogs::default(),
        }
    }

    /// Starts it as a task of the current runtime.
    pub(crate) fn start(self) -> tokio::task::AbortHandle {
        let task = tokio::spawn(async {
            if AssertUnwindSafe(self.run()).catch_unwind().await.is_err() {
                tracing::error!("the scheduler ended by a panic of its own: no job starts any more");
            }
        });
        task.abort_handle()
    }

    /// Runs until it is told to stop.
    async fn run(mut self) {
        let mut agenda = Vec::with_capacity(self.entries.len());
        for (job, entry) in (0..).zip(&mut self.entries) {
            entry.armed = if entry.is_shared { self.started } else { entry.wakes(self.started).unwrap_or(Ms::MAX) };
            if entry.armed < Ms::MAX {
                agenda.push(Reverse((entry.armed, job)));
            }
        }
        self.agenda = agenda.into();
        loop {
            self.keep_periods();
            self.open_mail();
            self.wake();
            self.look();
            self.serve_line();
            self.plan_ready();
            if self.has_stopped() {
                break;
            }
            self.send();
            self.starts.begin();
            self.tell_running();
            self.tell_of_left();
            if !self.ready.is_empty() {
                // More is due than one round may start.
                take_turns().await;
            } else if self.has_mail || !(self.line.is_empty() || self.free() == 0) {
                // Whatever can begin does so first.
                tokio::task::yield_now().await;
            } else {
                self.tell_idlers();
                self.sleep().await;
            }
        }
        self.end().await;
    }

    /// Periods are counted on the monotonic clock: when the time is set, the jobs of this process that have a period are
    /// moved with it. Those of a cron expression, and those of the store, follow what it shows.
    fn keep_periods(&mut self) {
        self.time.follow_wall();
        let Some(by) = self.time.jumped() else { return };
        self.counted = self.counted.saturating_add(by);
        for entry in self.entries.iter_mut().filter(|entry| !entry.is_shared && entry.task.trigger.is_counted()) {
            entry.state.iter_mut().for_each(|state| state.move_by(by));
            for event in &mut entry.events {
                if let Event::Ended(ended) = event {
                    ended.at = ended.at.saturating_add(by);
                }
            }
            if entry.armed < Ms::MAX {
                entry.armed = entry.armed.saturating_add(by);
            }
        }
        let armed = (0..).zip(&self.entries).filter(|(_, entry)| entry.armed < Ms::MAX);
        self.agenda = armed.map(|(job, entry)| Reverse((entry.armed, job))).collect();
    }

    /// Since when a job's ticks count that nobody has written anything of.
    fn since(&self, entry: &Entry) -> Ms {
        if entry.task.trigger.is_counted() { self.counted } else { self.started }
    }

    /// While very many jobs are due, they begin first: what has ended is heard a little later.
    fn open_mail(&mut self) {
        let now = self.time.moment();
        if self.ready.len() <= ROUND || now.since(self.heard) > DEAF {
            self.has_mail = self.take_mail();
            self.heard = now;
        }
    }

    fn tell_running(&mut self) {
        let running = self.runs.len();
        if std::mem::replace(&mut self.told_running, running) != running {
            meters::running(running);
        }
    }

    /// Hears what has come; whether there may be more.
    fn take_mail(&mut self) -> bool {
        for _ in 0..ROUND {
            let Ok(msg) = self.mailbox.try_recv() else { return false };
            self.hear(msg);
        }
        true
    }

    fn hear(&mut self, msg: Msg) {
        match msg {
            Msg::Ended { job, attempt, state, facts, error, note } => {
                let (id, fence, at) = (facts.id, facts.fence.get(), self.time.now());
                self.run_ended(job, &facts, Ended { id, fence, attempt, state, at, error, note });
            }
            Msg::Idle(idler) => self.idlers.push(idler),
            Msg::Look => self.look_at = self.time.moment(),
            Msg::Hurry => {
                let now = self.time.moment();
                self.stopping.iter_mut().for_each(|stopping| stopping.until = now);
            }
            // The handle's end, after it has been told to stop.
            Msg::Stop { .. } if self.stopping.is_some() => {}
            Msg::Stop { drain, done } => {
                let until = self.time.moment() + drain;
                tracing::info!(running = self.runs.len(), "the scheduler stops");
                self.stopping = Some(Stopping { until, is_cancelled: false, ended: None, done: Some(done) });
                self.runs.values().for_each(Hand::stop);
            }
        }
    }

    fn run_ended(&mut self, job: JobId, run: &Facts, ended: Ended) {
        let hand = self.runs.remove(&(job, ended.fence));
        let entry = &mut self.entries[at(job)];
        let took = hand.map(|hand| self.time.moment().since(hand.began)).unwrap_or_default();
        meters::ended(&entry.task.name, &ended, took);
        if ended.state != State::Ok {
            let error = ended.error.as_deref().unwrap_or_default();
            let state = ended.state.as_str();
            tracing::warn!(job = %entry.task.name, run = ended.id, attempt = ended.attempt, error, "the run ended: {state}");
        }
        if run.kind == Kind::Unclaimed {
            self.open_ended(job, run, ended);
        } else {
            // Most jobs have one run at a time, and some services a hundred thousand jobs that run at once.
            entry.events.reserve_exact(1);
            // A run that was dropped for its lease is told of too: the lease may have been saved at the last moment, and
            // whoever has taken the run over by then has raised its fence.
            entry.events.push(Event::Ended(ended));
        }
        self.serve_line();
        self.ready.push_back((job, Turn::Usual));
    }

    /// Takes what is due.
    fn wake(&mut self) {
        let now = self.time.now();
        while let Some(Reverse((due, job))) = self.agenda.peek().copied() {
            if due > now {
                break;
            }
            self.agenda.pop();
            let entry = &mut self.entries[at(job)];
            if entry.armed == due {
                entry.armed = Ms::MAX;
                self.ready.push_back((job, Turn::Usual));
            }
        }
        if self.stopping.as_ref().is_some_and(|stopping| !stopping.is_cancelled && stopping.until <= self.time.moment())
        {
            self.runs.values().for_each(|hand| hand.cancel(Why::Stop));
            self.stopping.iter_mut().for_each(|stopping| stopping.is_cancelled = true);
        }
    }

    async fn sleep(&mut self) {
        let longest = if !self.line.is_empty() || self.stopping.is_some() || !self.left.is_empty() {
            LOOK
        } else if self.desk.is_some() {
            self.look_at.since(self.time.moment())
        } else {
            LONGEST_SLEEP
        };
        let due = self.agenda.peek().map(|Reverse((due, _))| self.time.until(*due));
        let ends = self.stopping.as_ref().filter(|stopping| !stopping.is_cancelled);
        let ends = ends.map(|stopping| stopping.until.since(self.time.moment()));
        let ring = self.ring_due().map(|due| due.since(self.time.moment()));
        let rest = [due, ends, ring].into_iter().flatten().fold(longest, Duration::min);
        let desk = async {
            match &mut self.desk {
                Some(desk) => desk.done().await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            msg = self.mailbox.recv() => {
                // The dispatcher has a sender itself, so there is always one.
                if let Some(msg) = msg {
                    self.hear(msg);
                }
                return;
            }
            done = desk => done,
            () = tokio::time::sleep(rest) => return,
        };
        self.land(done);
    }
}

fn at(job: JobId) -> usize {
    usize::try_from(job).unwrap_or(usize::MAX)
}
