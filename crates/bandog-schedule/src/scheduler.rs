//! From jobs to a scheduler that runs.

use std::{collections::HashMap, fmt, panic::Location, sync::Arc, time::Duration};

use bandog_core::{ClientId, Clock, Error, Member, Result};
use bandog_cron::{Cron, Daylight, Rules, Time};
use bandog_sync::Client;
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

use crate::{
    Job, Jobs, Scope,
    dispatch::{Dispatch, Entry, LOOK, Msg, Timekeeper},
    inject::Shares,
    nodes::check_node,
    pauses::Known as KnownPauses,
    policy::Policy,
    register::register,
    state::JobState,
    trigger::Trigger,
};

/// How long runs may go on by default when the scheduler stops.
const DRAIN: Duration = Duration::from_secs(30);
/// Maximum number of places that are named of jobs with one name.
const PLACES: usize = 5;
/// Of so many jobs the start is told one by one.
const TOLD: usize = 100;

/// A scheduler to be: its jobs, its store, its pool.
#[derive(Default)]
#[must_use = "a scheduler does nothing until it is started"]
pub struct Scheduler {
    client: Option<Client>,
    pool: Option<usize>,
    drain: Option<Duration>,
    clock: Option<Clock>,
    looks: Option<Duration>,
    node: Option<String>,
    entries: Vec<Entry>,
    /// Where the entries' jobs were made, in the same order.
    places: Vec<&'static Location<'static>>,
    pub(crate) faults: Vec<Error>,
    pub(crate) shares: Shares,
    known: Known,
}

/// What many jobs share, while they are gathered: a million of them often have few expressions.
#[derive(Default)]
struct Known {
    crons: HashMap<(Box<str>, Rules, Daylight, String), Arc<Cron>>,
    policy: Option<Arc<Policy>>,
}

impl Scheduler {
    /// A scheduler without a store: its jobs run in this process only, and what it knows ends with it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scheduler whose ticks run once in the whole cluster of schedulers over this store, under this client's prefix.
    pub fn over(client: &Client) -> Self {
        Self { client: Some(client.clone()), ..Self::default() }
    }

    /// How many runs this process may have at a time. Default 1, as Spring's. A job that waits for a place is told of in
    /// the log, with whom it waits for. A pool of 0 is refused by [`Scheduler::start`].
    pub fn pool(mut self, size: usize) -> Self {
        self.pool = Some(size);
        self
    }

    /// How long [`Running::stop`] lets runs go on before it cancels them. Default 30 s.
    pub fn drain(mut self, time: Duration) -> Self {
        self.drain = Some(time);
        self
    }

    /// The clock that it reads: for tests. Default the client's, without a store [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How often it looks for words of operators and at the other nodes.
    pub(crate) fn looks_every(mut self, time: Duration) -> Self {
        self.looks = Some(time);
        self
    }

    /// What this node calls itself in histories: 1 to [`crate::MAX_NODE`] bytes without control characters. Default: the
    /// machine's name and the process, `host:pid`.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// One more job.
    pub fn job(mut self, job: Job) -> Self {
        let place = job.place;
        match job.given(&self.shares).ready() {
            Ok(mut task) => {
                self.known.share(&mut task.trigger, &mut task.policy);
                self.places.push(place);
                self.entries.push(Entry::new(task, false));
            }
            Err(fault) => self.faults.push(fault),
        }
        self
    }

    /// More jobs.
    pub fn jobs(self, jobs: impl IntoIterator<Item = Job>) -> Self {
        jobs.into_iter().fold(self, Self::job)
    }

    /// Registers the jobs with the store and begins to run them, as tasks of the current runtime.
    ///
    /// # Errors
    /// `Misused` for a job with a wrong value, for a name that comes twice, and outside a runtime; `Unavailable` when the
    /// store does not answer; `Unsupported` when it keeps no records.
    ///
    /// # Cancel safety
    /// Jobs may have been registered when the future is dropped; none of them runs.
    pub async fn start(self) -> Result<Running> {
        let Self { client, pool, drain, clock, looks, node, mut entries, places, mut faults, shares, known } = self;
        drop(known);
        faults.extend(shares.faults());
        let pool = pool.unwrap_or(1);
        if pool == 0 {
            return Err(
                Error::misused("a scheduler with a pool of 0 would start nothing; 1 is the least").during("start")
            );
        }
        if let Some(node) = &node {
            check_node(node).map_err(|error| error.during("start"))?;
        }
        check(&entries, &places, faults)?;
        drop(places);
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::misused("a scheduler starts within a tokio runtime").during("start"));
        }
        let clock = clock.or_else(|| client.as_ref().map(Client::clock)).unwrap_or_else(Clock::system);
        let mut time = Timekeeper::new(clock);
        for entry in &mut entries {
            entry.is_shared = client.is_some() && entry.task.policy.scope == Scope::Cluster;
        }
        let pauses = match &client {
            Some(client) => register(client, &mut time, &mut entries).await.map_err(|error| error.during("start"))?,
            None => KnownPauses::default(),
        };
        let node = node.unwrap_or_else(|| {
            let here = Member::here(ClientId::random());
            format!("{}:{}", here.host, here.pid)
        });
        tell(&entries, &time, pool);
        let (mail, mailbox) = mpsc::unbounded_channel();
        let task = Dispatch::new(
            entries,
            time,
            node.into(),
            pool,
            client.clone(),
            looks.unwrap_or(LOOK),
            (mail.clone(), mailbox),
        )
        .under(pauses)
        .start();
        Ok(Running { mail, jobs: client.as_ref().map(Jobs::over), drain: drain.unwrap_or(DRAIN), task })
    }
}

impl Known {
    fn share(&mut self, trigger: &mut Trigger, policy: &mut Arc<Policy>) {
        if let Trigger::Cron(cron) = trigger {
            let same = (cron.text().into(), cron.rules(), cron.daylight(), cron.zone().to_string());
            *cron = Arc::clone(self.crons.entry(same).or_insert_with(|| Arc::clone(cron)));
        }
        match &self.policy {
            Some(last) if last == policy => *policy = Arc::clone(last),
            Some(_) | None => self.policy = Some(Arc::clone(policy)),
        }
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("client", &self.client)
            .field("jobs", &self.entries.len())
            .finish_non_exhaustive()
    }
}

/// Reports every fault, and names that come twice with the places where their jobs were made.
fn check(entries: &[Entry], places: &[&Location<'_>], mut faults: Vec<Error>) -> Result<()> {
    let mut named: Vec<(&str, &Location<'_>)> =
        entries.iter().map(|entry| &*entry.task.name).zip(places.iter().copied()).collect();
    named.sort_by_key(|(name, _)| *name);
    for same in named.chunk_by(|(one, _), (other, _)| one == other).filter(|same| same.len() > 1) {
        let mut places: Vec<String> = same.iter().map(|(_, place)| place.to_string()).collect();
        places.dedup();
        let shown = places.iter().take(PLACES).cloned().collect::<Vec<_>>().join(" and ");
        let more = if places.len() > PLACES { " and elsewhere" } else { "" };
        let (name, count) = (same[0].0, if same.len() == 2 { "two".to_owned() } else { same.len().to_string() });
        faults.push(Error::misused(format!("job {name:?}: there are {count} of this name, made at {shown}{more}")));
    }
    match &faults[..] {
        [] => Ok(()),
        [one] => Err(one.clone().during("start")),
        many => {
            let texts: Vec<String> = many.iter().map(ToString::to_string).collect();
            Err(Error::misused(format!("{} jobs cannot be run:\n{}", many.len(), texts.join("\n"))).during("start"))
        }
    }
}

/// Logs what will happen.
fn tell(entries: &[Entry], time: &Timekeeper, pool: usize) {
    tracing::info!(jobs = entries.len(), pool, "the scheduler starts");
    if entries.is_empty() {
        tracing::warn!("the scheduler has no jobs; those of #[bandog::scheduled] come by .declared()");
    }
    for entry in entries.iter().take(TOLD) {
        let crate::job::Task { name, trigger, policy, .. } = &entry.task;
        let fresh = JobState::new(policy, time.now(), None);
        let state = entry.state.as_deref().unwrap_or(&fresh);
        let mut place = state.place();
        let mut next = Vec::new();
        while let Some(tick) = trigger.next(place).filter(|_| next.len() < 3) {
            next.push(Time::from_millisecond(tick).to_string());
            (place.watermark, place.next_due) = (tick, None);
        }
        let (trigger, zone, next) = (trigger.text(), trigger.zone(), next.join(", "));
        let (overlap, catch_up, on_crash) = (policy.overlap, policy.catch_up, policy.on_crash);
        tracing::info!(job = %name, trigger, zone, next, %overlap, %catch_up, %on_crash, enabled = policy.enabled, "job");
        // A fixed delay is due again when its run has ended.
        if next.is_empty() && policy.enabled && state.is_idle() {
            tracing::warn!(job = %name, "it will not fire any more");
        }
    }
}

/// A scheduler that runs, until it is stopped or dropped. Dropping it stops it without a drain: its runs are cancelled,
/// and dropped after their grace.
#[derive(Debug)]
#[must_use = "a scheduler stops when this is dropped"]
pub struct Running {
    mail: mpsc::UnboundedSender<Msg>,
    jobs: Option<Jobs>,
    pub(crate) drain: Duration,
    task: AbortHandle,
}

impl Running {
    /// Ends it where it stands, and tells nobody.
    pub(crate) fn crash(&self) {
        // The dispatcher's runs are dropped with it.
        self.task.abort();
    }

    /// Stops in order: claims nothing more, lets runs go on for the drain time, cancels them, drops them after their
    /// grace, and hands what has not ended to other nodes at once (or records it as interrupted: [`crate::OnCrash`]).
    ///
    /// # Errors
    /// `Unavailable` when the store could not be told: other nodes go on after the lease.
    ///
    /// # Cancel safety
    /// It stops even if the future is dropped after its first poll.
    pub async fn stop(self) -> Result<()> {
        self.end(self.drain).await
    }

    /// Its jobs in the store, for operators; none without a store.
    pub fn jobs(&self) -> Option<Jobs> {
        self.jobs.clone()
    }

    /// Waits until no run is under way and nothing is owed to the store: for tests.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn idle(&self) {
        let (idle, answer) = oneshot::channel();
        // A scheduler that has ended is idle too.
        if self.mail.send(Msg::Idle(idle)).is_ok() {
            let _ = answer.await;
        }
    }

    /// Ends the drain, once it stops.
    pub(crate) fn hurry(&self) {
        // A scheduler that has ended needs no hurry.
        let _ = self.mail.send(Msg::Hurry);
    }

    /// Looks for words of operators at once.
    pub(crate) fn look(&self) {
        // A scheduler that has ended looks at nothing.
        let _ = self.mail.send(Msg::Look);
    }

    pub(crate) async fn end(&self, drain: Duration) -> Result<()> {
        let (done, answer) = oneshot::channel();
        if self.mail.send(Msg::Stop { drain, done }).is_err() {
            return Ok(());
        }
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the scheduler's runtime has ended").during("stop")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        // It may have been stopped before.
        let _ = self.mail.send(Msg::Stop { drain: Duration::ZERO, done });
    }
}
