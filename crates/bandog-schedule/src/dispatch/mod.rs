//! The dispatcher: one task that knows every job's next tick, claims, starts runs and hears of their end.
//!
//! A round: take what has come (ends of runs, the store's answers, words of the handle), take what is due, plan each job
//! that something concerns, send all swaps of the round together. The rules are in [`crate::plan`]; here is when, and
//! with whom. A job has at most one swap in flight; what comes meanwhile is planned on the answer.
//!
//! What runs is what the record says: after each answer, a claim of this node that has no task gets one, and a task whose
//! claim is gone is dropped. So a lost reply costs nothing.

mod carry;
mod desk;
mod entry;
mod open;
mod time;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashSet, VecDeque},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use bandog_core::{Error, Fence, Holding, Key, Moment, Record, Result, Swap, Swapped};
use bandog_cron::Time;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};

use self::{
    carry::{Hand, Order, Why, carry_out},
    desk::{BATCH, Desk, Done},
    entry::Flight,
};
use crate::{
    Kind, State, meters,
    plan::{Ended, Event, Plan, View, plan},
    run::Facts,
    state::{JobState, Live},
    trigger::Ms,
};

pub(crate) use self::{
    desk::{PREFIX, SESSION, bump, key, only},
    entry::Entry,
    time::Timekeeper,
};

/// A job by its place.
pub(crate) type JobId = u32;

/// What the dispatcher hears.
#[derive(Debug)]
pub(crate) enum Msg {
    Ended {
        job: JobId,
        ended: Ended,
    },
    Stop {
        drain: Duration,
        done: oneshot::Sender<Result<()>>,
    },
    /// Answered when nothing is under way.
    Idle(oneshot::Sender<()>),
    /// Somebody may have said a word just now.
    Look,
}

/// A wall clock that is so many seconds off the store's is told of.
const WRONG: f64 = 1.0;
/// How often a node looks at the board and at the others' sessions.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// The wall clock may jump, so it is read at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// Everything is read again after so many looks, should a word have been missed.
const READ_AGAIN: u32 = 30;
/// A claim that got no answer is sent again after this time, and then after twice as long, up to [`LOOK`].
const RETRY: Duration = Duration::from_millis(100);
/// A job that waits so long for a place is told of.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// How much later than an idle node a node claims whose pool is nearly full.
const STAND_BACK: Ms = 20;
/// No claim is made so much before its tick, whatever the store's clock does in small steps.
const AHEAD: Ms = 60_000;
/// So long a stop waits for a store that answers, and yet does not take the end of a run.
const SETTLE: Duration = Duration::from_secs(10);
/// Jobs started in one round, so that answers and ends are heard between two.
const ROUND: usize = 1024;

pub(crate) struct Dispatch {
    pub(crate) entries: Vec<Entry>,
    pub(crate) time: Timekeeper,
    pub(crate) started: Ms,
    pub(crate) node: Arc<str>,
    pub(crate) pool: usize,
    pub(crate) desk: Option<Desk>,
    /// Unbounded, since a run's end cannot wait; every message stands for a run or a call of the handle.
    mail: mpsc::UnboundedSender<Msg>,
    mailbox: mpsc::UnboundedReceiver<Msg>,
    agenda: BinaryHeap<Reverse<(Ms, JobId)>>,
    /// Runs by their job and fence.
    runs: BTreeMap<(JobId, u64), Hand>,
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
    looks: u32,
    is_looking: bool,
    /// How long it waits before it asks a store again that gave no answer.
    pause: Duration,
    is_away: bool,
    is_clock_told: bool,
    stopping: Option<Stopping>,
    idlers: Vec<oneshot::Sender<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Those who wait for a place go first.
    Usual,
    /// It has waited.
    Served,
}

struct Stopping {
    /// Until when runs may go on.
    until: Moment,
    is_cancelled: bool,
    /// Since when nothing runs any more and the store answers, but does not take what is to be told.
    ended: Option<Moment>,
    done: Option<oneshot::Sender<Result<()>>>,
}

impl Dispatch {
    pub(crate) fn new(
        entries: Vec<Entry>,
        time: Timekeeper,
        node: Arc<str>,
        pool: usize,
        client: Option<bandog_sync::Client>,
        every: Duration,
        (mail, mailbox): (mpsc::UnboundedSender<Msg>, mpsc::UnboundedReceiver<Msg>),
    ) -> Self {
        let (started, look_at) = (time.now(), time.moment());
        Self {
            entries,
            time,
            started,
            node,
            pool,
            desk: client.map(Desk::new),
            mail,
            mailbox,
            agenda: BinaryHeap::new(),
            runs: BTreeMap::new(),
            reserved: 0,
            line: VecDeque::new(),
            ready: VecDeque::new(),
            out: Vec::new(),
            every,
            look_at,
            looks: 0,
            is_looking: false,
            pause: RETRY,
            is_away: false,
            is_clock_told: false,
            stopping: None,
            idlers: Vec::new(),
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
            self.take_mail();
            self.wake();
            self.look();
            self.serve_line();
            self.plan_ready();
            self.send();
            if self.has_stopped() {
                break;
            }
            if self.ready.is_empty() && (self.line.is_empty() || self.free() == 0) {
                self.tell_idlers();
                self.sleep().await;
            } else {
                // More is due than one round may start.
                tokio::task::yield_now().await;
            }
        }
        self.end().await;
    }

    fn take_mail(&mut self) {
        while let Ok(msg) = self.mailbox.try_recv() {
            self.hear(msg);
        }
    }

    fn hear(&mut self, msg: Msg) {
        match msg {
            Msg::Ended { job, ended } => self.run_ended(job, ended),
            Msg::Idle(idler) => self.idlers.push(idler),
            Msg::Look => self.look_at = self.time.moment(),
            // The handle's end, after it has been told to stop.
            Msg::Stop { .. } if self.stopping.is_some() => {}
            Msg::Stop { drain, done } => {
                let until = self.time.moment() + drain;
                tracing::info!(running = self.runs.len(), "the scheduler stops");
                self.stopping = Some(Stopping { until, is_cancelled: false, ended: None, done: Some(done) });
            }
        }
    }

    fn run_ended(&mut self, job: JobId, ended: Ended) {
        let ended = Ended { at: self.time.now(), ..ended };
        let hand = self.runs.remove(&(job, ended.fence));
        let unclaimed = hand.as_ref().and_then(|hand| hand.unclaimed);
        let entry = &mut self.entries[at(job)];
        let took = hand.map(|hand| self.time.moment().since(hand.began)).unwrap_or_default();
        meters::ended(&entry.task.name, &ended, took, self.runs.len());
        if ended.state != State::Ok {
            let error = ended.error.as_deref().unwrap_or_default();
            let state = ended.state.as_str();
            tracing::warn!(job = %entry.task.name, run = ended.id, attempt = ended.attempt, error, "the run ended: {state}");
        }
        match unclaimed {
            Some((tick, started)) => self.open_ended(job, tick, started, ended),
            // A run that was dropped for its lease is told of too: the lease may have been saved at the last moment, and
            // whoever has taken the run over by then has raised its fence.
            None => {
                // Most jobs have one run at a time, and some services a hundred thousand jobs that run at once.
                entry.events.reserve_exact(1);
                entry.events.push(Event::Ended(ended));
            }
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

    /// Those who wait longest get the free places.
    fn serve_line(&mut self) {
        let mut free = self.free();
        while free > 0 {
            let Some((job, ..)) = self.line.pop_front() else { return };
            self.entries[at(job)].is_in_line = false;
            self.ready.push_back((job, Turn::Served));
            free -= 1;
        }
    }

    fn free(&self) -> usize {
        if self.stopping.is_some() { 0 } else { self.pool.saturating_sub(self.runs.len() + self.reserved) }
    }

    fn plan_ready(&mut self) {
        for _ in 0..ROUND {
            let Some((job, turn)) = self.ready.pop_front() else { return };
            self.plan_one(job, turn);
        }
    }

    fn plan_one(&mut self, job: JobId, turn: Turn) {
        let is_stopping = self.stopping.is_some();
        let places = self.free();
        let entry = &mut self.entries[at(job)];
        if entry.flight.is_some() {
            entry.again = true;
            return;
        }
        if entry.is_shared && self.is_away && !is_stopping {
            self.open(job, turn);
        }
        let entry = &mut self.entries[at(job)];
        let runs_here = entry.state.as_ref().is_some_and(|state| !state.running.is_empty());
        if entry.events.is_empty() && (places == 0 || (turn == Turn::Usual && !self.line.is_empty())) && !runs_here {
            // Whoever has a place may claim it: other nodes now, this one later.
            if !is_stopping {
                self.stand_in_line(job);
            }
            return;
        }
        let places = if self.line.is_empty() || turn == Turn::Served { places } else { 0 };
        if entry.is_shared { self.plan_shared(job, places) } else { self.plan_local(job, places) }
    }

    fn plan_local(&mut self, job: JobId, places: usize) {
        let now = self.time.now();
        let is_current = self.stopping.is_none();
        let (node, started) = (Arc::clone(&self.node), self.started);
        let entry = &mut self.entries[at(job)];
        let policy = entry.policy();
        let mut state = entry.state.take().unwrap_or_else(|| Box::new(JobState::new(&policy, started, None)));
        let view = View {
            name: &entry.task.name,
            trigger: &entry.task.trigger,
            policy: &policy,
            now,
            node: &node,
            session: None,
            places,
            is_current,
        };
        let events = std::mem::take(&mut entry.events);
        let plan = plan(&mut state, &view, &events);
        entry.state = Some(state);
        self.follow(job, &plan);
    }

    fn plan_shared(&mut self, job: JobId, places: usize) {
        let now = self.time.now();
        let may_claim = self.may_claim(job);
        let node = Arc::clone(&self.node);
        let Some(desk) = &mut self.desk else { return };
        let entry = &mut self.entries[at(job)];
        let policy = entry.policy();
        let lease = policy.lease.unwrap_or_else(|| desk.client().ttl());
        let session = desk.session(lease);
        if session.is_none() && entry.events.is_empty() {
            // The session's coming wakes every job of its lease.
            return;
        }
        let Some(state) = &entry.state else { return };
        let is_current = may_claim && session.is_some();
        let view = View {
            name: &entry.task.name,
            trigger: &entry.task.trigger,
            policy: &policy,
            now,
            node: &node,
            session: session.as_ref(),
            places: if is_current { places } else { 0 },
            is_current,
        };
        let mut next = (**state).clone();
        let plan = plan(&mut next, &view, &entry.events);
        // A tick that ran unclaimed is taken in already, but the store does not know it.
        let is_told = !entry.events.iter().any(|event| matches!(event, Event::Unclaimed(_)));
        if next == **state && is_told {
            entry.events.clear();
            self.follow(job, &plan);
            return;
        }
        let (Ok(key), Ok(value)) = (key(&entry.task.name), next.write()) else { return };
        let not_before = plan.not_before.map(|time| Time::from_millisecond(time).into());
        let held = session.filter(|_| plan.starts > 0 || plan.not_before.is_some());
        let swap = Swap { key, from: entry.version, to: Some(value), lines: plan.lines.clone(), not_before, held };
        self.reserved += plan.starts;
        let events = entry.events.len();
        entry.flight = Some(Box::new(Flight { next, plan, events }));
        self.out.push((job, swap));
    }

    /// What follows from a state that stands: tasks, the next tick, a place in the line.
    fn follow(&mut self, job: JobId, plan: &Plan) {
        self.reconcile(job);
        meters::left_out(&self.entries[at(job)].task.name, plan);
        if plan.is_news
            && let Some(desk) = &mut self.desk
        {
            desk.news = true;
        }
        if plan.is_starved && self.stopping.is_none() {
            self.stand_in_line(job);
        }
        self.arm(job);
    }

    /// Makes what runs here what the state says that should.
    fn reconcile(&mut self, job: JobId) {
        let entry = &self.entries[at(job)];
        let Some(state) = &entry.state else { return };
        let lease = entry.policy().lease;
        let session = match &mut self.desk {
            Some(desk) if entry.is_shared => {
                let lease = lease.unwrap_or_else(|| desk.client().ttl());
                desk.session(lease)
            }
            Some(_) | None => None,
        };
        let is_ours = |live: &&Live| !entry.is_shared || (session.is_some() && live.holding() == session);
        let is_over = |live: &Live| {
            entry.events.iter().any(|event| matches!(event, Event::Ended(ended) if ended.fence == live.fence))
        };
        let ours: Vec<&Live> = state.running.iter().filter(is_ours).filter(|live| !is_over(live)).collect();
        let mut new = Vec::new();
        for live in &ours {
            match self.runs.get(&(job, live.fence)) {
                Some(hand) if live.cancel => hand.cancel(Why::Asked),
                Some(_) => {}
                None => new.push((*live).clone()),
            }
        }
        if entry.is_shared && !self.runs.is_empty() {
            let fences: HashSet<u64> = ours.iter().map(|live| live.fence).collect();
            let here = self.runs.range((job, 0)..=(job, u64::MAX));
            here.filter(|((_, fence), hand)| !hand.is_unclaimed() && !fences.contains(fence))
                .for_each(|(_, hand)| hand.drop_now(Why::Lost));
        }
        let last_success = state.last_success;
        for live in new {
            self.begin(job, &live, last_success);
        }
    }

    fn begin(&mut self, job: JobId, live: &Live, last_success: Option<Ms>) {
        let entry = &self.entries[at(job)];
        meters::began(&entry.task.name, live.started.saturating_sub(live.due), self.runs.len() + 1);
        let facts = Facts {
            name: Arc::clone(&entry.task.name),
            id: live.id,
            tick: Time::from_millisecond(live.tick),
            due: Time::from_millisecond(live.due),
            kind: live.kind,
            fence: Fence::new(live.fence),
            last_success: last_success.map(Time::from_millisecond),
            note: std::sync::Mutex::default(),
            why: std::sync::atomic::AtomicU8::default(),
        };
        let order = Order {
            job,
            body: Arc::clone(&entry.task.body),
            policy: entry.policy(),
            facts: Arc::new(facts),
            attempt: live.attempt,
            mail: self.mail.clone(),
        };
        let mut hand = carry_out(order, self.time.moment());
        hand.unclaimed = Some((live.tick, live.started)).filter(|_| live.kind == Kind::Unclaimed);
        if live.cancel {
            hand.cancel(Why::Asked);
        }
        if self.stopping.as_ref().is_some_and(|stopping| stopping.is_cancelled) {
            hand.cancel(Why::Stop);
        }
        self.runs.insert((job, live.fence), hand);
    }

    fn stand_in_line(&mut self, job: JobId) {
        let now = self.time.moment();
        let entry = &mut self.entries[at(job)];
        if !entry.is_in_line {
            entry.is_in_line = true;
            self.line.push_back((job, now, false));
        }
    }

    /// Says when the job is looked at again.
    fn arm(&mut self, job: JobId) {
        let busy = Ms::try_from(self.runs.len()).unwrap_or(Ms::MAX);
        let size = Ms::try_from(self.pool).unwrap_or(Ms::MAX);
        let entry = &self.entries[at(job)];
        if entry.is_in_line {
            return;
        }
        let Some(wakes) = entry.wakes(self.started) else { return };
        if !self.may_claim(job) {
            // Somebody with a newer job claims its ticks, or this node stops, or has no session yet.
            return;
        }
        let back = if entry.is_shared { STAND_BACK.saturating_mul(busy) / size } else { 0 };
        self.arm_at(job, wakes.saturating_add(back.min(STAND_BACK)));
    }

    fn may_claim(&self, job: JobId) -> bool {
        let entry = &self.entries[at(job)];
        let spec = entry.state.as_ref().and_then(|state| state.spec.as_ref());
        self.stopping.is_none() && spec.is_none_or(|spec| spec.revision <= entry.task.policy.revision)
    }

    fn arm_at(&mut self, job: JobId, time: Ms) {
        let entry = &mut self.entries[at(job)];
        if entry.armed != time {
            entry.armed = time;
            self.agenda.push(Reverse((time, job)));
        }
    }

    /// Once a second: has anybody a word, does everybody live, who waits too long.
    fn look(&mut self) {
        let now = self.time.moment();
        if now < self.look_at {
            return;
        }
        self.look_at = now + self.every;
        self.tell_of_long_waits(now);
        let Some(desk) = &mut self.desk else { return };
        if !self.is_looking {
            self.is_looking = true;
            let others = self.entries.iter().filter_map(|entry| entry.state.as_ref());
            let sessions: HashSet<Holding> = others
                .flat_map(|state| &state.running)
                .filter_map(Live::holding)
                .filter(|held| !desk.holds(held))
                .collect();
            desk.look(now, sessions.into_iter().collect());
        }
    }

    fn tell_of_long_waits(&mut self, now: Moment) {
        let blockers = || {
            let names: HashSet<&str> =
                self.runs.values().map(|hand| &*self.entries[at(hand.job)].task.name).take(3).collect();
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        let told: Vec<JobId> = (self.line.iter())
            .filter(|(_, since, is_told)| !is_told && now.since(*since) >= LONG_WAIT)
            .map(|(job, ..)| *job)
            .collect();
        for job in &told {
            let (name, size) = (&self.entries[at(*job)].task.name, self.pool);
            tracing::warn!(job = %name, "it waits for a place in the pool of {size}, which is taken by {}; a larger pool runs both", blockers());
        }
        self.line.iter_mut().filter(|(job, ..)| told.contains(job)).for_each(|(_, _, is_told)| *is_told = true);
    }

    /// Sends the round's swaps together.
    fn send(&mut self) {
        let sent = self.time.moment();
        let Some(desk) = &mut self.desk else { return };
        while !self.out.is_empty() {
            let rest = self.out.split_off(self.out.len().min(BATCH));
            let (jobs, swaps) = std::mem::replace(&mut self.out, rest).into_iter().unzip();
            desk.swap(sent, jobs, swaps);
        }
        if desk.news {
            desk.bump();
        }
    }

    async fn sleep(&mut self) {
        let longest = if !self.line.is_empty() || self.stopping.is_some() {
            LOOK
        } else if self.desk.is_some() {
            self.look_at.since(self.time.moment())
        } else {
            LONGEST_SLEEP
        };
        let due = self.agenda.peek().map(|Reverse((due, _))| self.time.until(*due));
        let ends = self.stopping.as_ref().filter(|stopping| !stopping.is_cancelled);
        let ends = ends.map(|stopping| stopping.until.since(self.time.moment()));
        let rest = [due, ends].into_iter().flatten().fold(longest, Duration::min);
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

    fn land(&mut self, done: Done) {
        match done {
            Done::Swapped { jobs, sent, result } => self.swapped(jobs, sent, result),
            Done::Read { jobs, sent, result } => match result {
                Ok(reading) => {
                    self.answered(sent, reading.now);
                    for (job, record) in jobs.into_iter().zip(reading.records) {
                        self.learn(job, record);
                    }
                }
                Err(error) => self.unanswered(&error),
            },
            Done::Looked { sent, holdings, result } => {
                self.is_looking = false;
                match result {
                    Ok(reading) => {
                        self.answered(sent, reading.now);
                        self.looked_around(&holdings, reading);
                    }
                    Err(error) => self.unanswered(&error),
                }
            }
            Done::Session { lease, result } => self.got_session(lease, result),
            Done::Endangered { lease, holding } => {
                let sessions = self.desk.as_mut().and_then(|desk| desk.session(lease));
                if sessions.as_ref() == Some(&holding) {
                    self.runs_of(lease).for_each(|hand| hand.cancel(Why::Lost));
                    let margin = margin(lease);
                    self.desk.iter().for_each(|desk| desk.watch_again(lease, &holding, margin));
                }
            }
            Done::Lost { lease, holding } => {
                tracing::error!(?lease, "this node lost its session: its runs of that lease are dropped");
                self.runs_of(lease).for_each(|hand| hand.drop_now(Why::Lost));
                self.desk.iter_mut().for_each(|desk| desk.forget(lease, &holding));
            }
            Done::Bumped(Ok(())) => {}
            Done::Bumped(Err(error)) => {
                self.unanswered(&error);
                // The others read everything again before long.
            }
        }
    }

    fn runs_of(&self, lease: Duration) -> impl Iterator<Item = &Hand> {
        let usual = self.desk.as_ref().map(|desk| desk.client().ttl());
        self.runs.values().filter(move |hand| {
            let entry = &self.entries[at(hand.job)];
            entry.is_shared && !hand.is_unclaimed() && entry.task.policy.lease.or(usual) == Some(lease)
        })
    }

    fn got_session(&mut self, lease: Duration, result: Result<bandog_sync::Guard>) {
        let Some(desk) = &mut self.desk else { return };
        match desk.keep(lease, result, margin(lease)) {
            Ok(_) => {
                let usual = desk.client().ttl();
                let woken = (0..)
                    .zip(&self.entries)
                    .filter(|(_, entry)| entry.is_shared && entry.task.policy.lease.unwrap_or(usual) == lease);
                self.ready.extend(woken.map(|(job, _)| (job, Turn::Usual)));
            }
            Err(error) => self.unanswered(&error),
        }
    }

    fn swapped(&mut self, jobs: Vec<JobId>, sent: Moment, result: Result<bandog_core::Swaps>) {
        let each = match result {
            Ok(swaps) => {
                self.answered(sent, swaps.now);
                swaps.each
            }
            Err(error) => {
                self.unanswered(&error);
                jobs.iter().map(|_| Err(error.clone())).collect()
            }
        };
        for (job, answer) in jobs.into_iter().zip(each) {
            self.swapped_one(job, answer);
        }
        self.serve_line();
    }

    fn swapped_one(&mut self, job: JobId, answer: Result<Swapped>) {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        let Some(flight) = entry.flight.take() else { return };
        let Flight { next, plan, events } = *flight;
        self.reserved -= plan.starts;
        let is_claim = plan.not_before.is_some();
        let again = std::mem::take(&mut entry.again);
        match answer {
            Ok(Swapped::Done(version)) => {
                if is_claim {
                    meters::claimed("won");
                }
                entry.events.drain(..events);
                entry.is_told = false;
                entry.version = version;
                entry.state = Some(Box::new(next));
                let is_left = !entry.events.is_empty() || again;
                self.follow(job, &plan);
                if is_left {
                    self.ready.push_back((job, Turn::Usual));
                }
            }
            Ok(Swapped::Differs(record)) => {
                if is_claim {
                    meters::claimed("lost");
                }
                // One that cannot be read is looked at again with all the others.
                if self.learn(job, Ok(record)) {
                    self.ready.push_back((job, Turn::Usual));
                }
            }
            Ok(Swapped::Early(missing)) => {
                meters::claimed("early");
                self.arm_at(job, now.saturating_add(crate::trigger::millis(missing)).saturating_add(1));
            }
            Ok(Swapped::NotHeld) => {
                // The engine learns it at its next renewal; until then nothing is claimed.
                self.arm_at(job, now.saturating_add(crate::trigger::millis(RETRY)));
            }
            Err(error) => {
                if is_claim {
                    meters::claimed("error");
                }
                if !error.is_retryable() && !std::mem::replace(&mut entry.is_told, true) {
                    tracing::error!(job = %entry.task.name, %error, "the job cannot be claimed");
                }
                let pause = if error.is_retryable() { self.pause } else { LOOK };
                self.arm_at(job, now.saturating_add(crate::trigger::millis(pause)));
            }
        }
    }

    /// Takes in a record as it is. False: it cannot be read.
    fn learn(&mut self, job: JobId, record: Result<Option<Record>>) -> bool {
        let now = self.time.now();
        let entry = &mut self.entries[at(job)];
        if entry.flight.is_some() {
            // The answer that is on its way is newer.
            return true;
        }
        let name = &entry.task.name;
        let read = record.and_then(|record| match record {
            Some(record) if Some(record.version) == entry.version => Ok(None),
            Some(record) => {
                let state = JobState::read(&record.value, &key(name)?)?;
                Ok(Some((Some(record.version), state)))
            }
            None => {
                // Somebody has forgotten it; this node has it still.
                let spec = entry.state.take().and_then(|state| state.spec);
                Ok(Some((None, JobState::new(&entry.task.policy, now, spec))))
            }
        });
        let (version, state) = match read {
            Ok(Some(other)) => other,
            Ok(None) => return true,
            Err(error) => {
                if !std::mem::replace(&mut entry.is_told, true) {
                    tracing::error!(job = %name, %error, "the job's record cannot be read: it does not run here until it can");
                }
                return false;
            }
        };
        if state.watermark > now.saturating_add(AHEAD) {
            let until = Time::from_millisecond(state.watermark);
            tracing::error!(job = %name, %until, "a tick of the future was claimed, so the store's clock was set back: the job rests until then; `bandog jobs forget` begins anew");
        }
        entry.is_told = false;
        entry.version = version;
        entry.state = Some(Box::new(state));
        self.reconcile(job);
        if version.is_some() {
            self.ready.push_back((job, Turn::Usual));
        } else {
            self.arm_at(job, now);
        }
        true
    }

    fn looked_around(&mut self, holdings: &[Holding], reading: bandog_core::Reading) {
        let stands = holdings.iter().zip(reading.held);
        let dead: Vec<&Holding> =
            stands.filter(|(_, held)| matches!(held, Ok(false))).map(|(holding, _)| holding).collect();
        if !dead.is_empty() {
            for (job, entry) in (0..).zip(&mut self.entries) {
                let Some(state) = &entry.state else { continue };
                for holding in &dead {
                    let event = Event::Dead((*holding).clone());
                    let had = state.running.iter().any(|live| live.holding().as_ref() == Some(holding));
                    if had && !entry.events.contains(&event) {
                        entry.events.push(event);
                        self.ready.push_back((job, Turn::Usual));
                    }
                }
            }
        }
        let board = reading.records.into_iter().next().and_then(Result::ok).flatten().map(|record| record.version);
        let Some(desk) = &mut self.desk else { return };
        self.looks += 1;
        if desk.board != board || self.looks.is_multiple_of(READ_AGAIN) {
            desk.board = board;
            self.read_all();
        }
    }

    fn read_all(&mut self) {
        let sent = self.time.moment();
        let Some(desk) = &self.desk else { return };
        let shared = (0..).zip(&self.entries).filter(|(_, entry)| entry.is_shared);
        let named: Vec<(JobId, Key)> =
            shared.filter_map(|(job, entry)| Some((job, key(&entry.task.name).ok()?))).collect();
        for some in named.chunks(BATCH) {
            let (jobs, keys) = some.iter().cloned().unzip();
            desk.read(sent, jobs, keys);
        }
    }

    fn answered(&mut self, sent: Moment, store: std::time::SystemTime) {
        self.time.observe(sent, store);
        let ahead = self.time.offset();
        meters::clock(ahead);
        let is_wrong = ahead.abs() > WRONG;
        if is_wrong && !self.is_clock_told {
            tracing::warn!("this machine's clock is {:.1} s off the store's; ticks follow the store's", -ahead);
        }
        self.is_clock_told = is_wrong;
        self.pause = RETRY;
        if std::mem::take(&mut self.is_away) {
            // As loud as the outage was told, so that its end is told to the same people.
            tracing::warn!("the store answers again: ticks are claimed again");
        }
    }

    fn unanswered(&mut self, error: &Error) {
        self.pause = (self.pause * 2).min(LOOK);
        if error.is_retryable() && !std::mem::replace(&mut self.is_away, true) {
            tracing::warn!(%error, "the store does not answer: no shared job starts until it does");
        }
    }

    fn is_quiet(&self) -> bool {
        let is_settled = |entry: &Entry| entry.flight.is_none() && entry.events.is_empty();
        self.runs.is_empty() && self.ready.is_empty() && self.reserved == 0 && self.entries.iter().all(is_settled)
    }

    fn tell_idlers(&mut self) {
        if !self.idlers.is_empty() && self.is_quiet() && self.desk.as_ref().is_none_or(|desk| !desk.news) {
            self.idlers.drain(..).for_each(|idler| {
                // Whoever asked may have gone.
                let _ = idler.send(());
            });
        }
    }

    fn has_stopped(&mut self) -> bool {
        if self.stopping.is_none() {
            // To ask every job whether it is quiet takes a while if there are many.
            return false;
        }
        let settled = self.is_quiet() && self.desk.as_ref().is_none_or(|desk| !desk.news);
        let now = self.time.moment();
        let Some(stopping) = &mut self.stopping else { return false };
        let is_over = self.runs.is_empty();
        // A store that does not answer is not waited for: the lease tells the others.
        let late = stopping.is_cancelled && is_over && (self.is_away || self.desk.is_none());
        // Nor is one that answers and refuses, or keeps what this version cannot read.
        let refused = if is_over && !self.is_away {
            now.since(*stopping.ended.get_or_insert(now)) >= SETTLE
        } else {
            stopping.ended = None;
            false
        };
        settled || late || refused
    }

    /// Tells the others, and goes.
    async fn end(mut self) {
        let mut told = Ok(());
        if let Some(desk) = &mut self.desk {
            if !desk.is_idle() {
                told = bump(desk.client()).await;
            }
            told = told.and(desk.leave().await);
        }
        if self.is_away || self.entries.iter().any(|entry| !entry.events.is_empty()) {
            told = told
                .and(Err(Error::unavailable("the store could not be told how runs of this node ended").during("stop")));
        }
        if let Some(done) = self.stopping.and_then(|stopping| stopping.done) {
            // Whoever asked may have gone.
            let _ = done.send(told);
        }
    }
}

/// How long before its end a session's runs are told to stop.
fn margin(lease: Duration) -> Duration {
    (lease / 6).min(Duration::from_secs(5))
}

fn at(job: JobId) -> usize {
    usize::try_from(job).unwrap_or(usize::MAX)
}
