//! The scheduler: its options, its start, and the handle of a running scheduler.

use std::{collections::HashMap, fmt, panic::Location, sync::Arc, time::Duration};

use bandog_core::{ClientId, Clock, Error, Member, Result, rounded};
use bandog_cron::{Cron, Daylight, Rules, Time};
use bandog_sync::Client;
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

use crate::{
    Job, Jobs, RunRow, Scope,
    dispatch::{Dispatcher, JobEntry, Message, OnFailure, POLL_INTERVAL, Timekeeper},
    inject::Shares,
    meters,
    nodes::check_node,
    pauses::KnownPauses,
    policy::Policy,
    register::register,
    state::JobState,
    trigger::{Trigger, duration_ms},
};

/// Default duration of the drain. The drain is the time for which runs can continue after the start of a stop.
const DRAIN: Duration = Duration::from_secs(30);
/// Maximum number of source locations in the error about several jobs with the same name.
const MAX_LOCATIONS: usize = 5;
/// Maximum number of jobs that get their own log entry at the start.
const MAX_LOGGED_JOBS: usize = 100;

/// A scheduler before its start: its jobs, its store, its pool.
#[derive(Default)]
#[must_use = "a scheduler does nothing until it is started"]
pub struct Scheduler {
    client: Option<Client>,
    pool: Option<usize>,
    drain: Option<Duration>,
    clock: Option<Clock>,
    poll_interval: Option<Duration>,
    node: Option<String>,
    on_failure: Option<OnFailure>,
    entries: Vec<JobEntry>,
    /// For each job in `entries`, in the same order: the place in the source where the job was made.
    locations: Vec<&'static Location<'static>>,
    /// The errors that the methods of this builder have found. [`Scheduler::start`] returns them.
    pub(crate) errors: Vec<Error>,
    /// The values for the parameters of declared jobs.
    shares: Shares,
    interner: Interner,
}

/// Saves memory. Jobs with equal cron expressions share a single copy of the expression, and jobs with equal policies
/// share a single copy of the policy. A program with a million jobs often has only few different expressions and a
/// single policy.
#[derive(Default)]
struct Interner {
    /// The expressions of all jobs that were added. The key contains the values of an expression: its text, its rules,
    /// its behavior when clocks are set forward or back, and its time zone.
    crons: HashMap<(Box<str>, Rules, Daylight, String), Arc<Cron>>,
    /// The policy of the last job. If the next job has an equal policy, the two jobs share it.
    policy: Option<Arc<Policy>>,
}

impl Scheduler {
    /// A scheduler without a store. Its jobs run in this process only. When the process ends, their state is lost.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scheduler whose jobs are in this client's store, under the client's prefix. All schedulers with the same store
    /// and prefix form a cluster, and each tick runs on only one of these schedulers.
    pub fn over(client: &Client) -> Self {
        Self { client: Some(client.clone()), ..Self::default() }
    }

    /// Maximum number of concurrent runs in this process. Default: 1, as in Spring. When a job waits because the pool
    /// is full, the log names the jobs that run. [`Scheduler::start`] refuses a pool of 0.
    pub fn pool(mut self, size: usize) -> Self {
        self.pool = Some(size);
        self
    }

    /// Maximum time for which runs can continue after [`Running::stop`] is called. After this time, the scheduler
    /// cancels the remaining runs. Default: 30 s.
    pub fn drain(mut self, time: Duration) -> Self {
        self.drain = Some(time);
        self
    }

    /// Calls this function for each run that has failed for good, so that no further attempt follows: its state is
    /// [`State::Failed`](crate::State::Failed), [`State::TimedOut`](crate::State::TimedOut) or
    /// [`State::Lost`](crate::State::Lost). Runs that an operator or a stop has cancelled, and ticks that did not run, are
    /// no failures.
    ///
    /// The node that has recorded the end calls it: after a crash, another node than that of the run. The function must not
    /// block; its future is a task of its own, which a stop does not wait for. So a failure is reported at most once, and not at all if this node ends
    /// before the call has ended.
    ///
    /// ```
    /// use bandog::schedule::{Job, Run, RunRow, Scheduler};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let (failed, mut failures) = tokio::sync::mpsc::unbounded_channel();
    /// let job = Job::once("report").run(async |_: Run| Err("no paper"));
    /// let scheduler = Scheduler::new().job(job).on_failure(move |run: RunRow| {
    ///     let failed = failed.clone();
    ///     async move { drop(failed.send(run)) }
    /// });
    /// let running = scheduler.start().await?;
    /// assert_eq!(failures.recv().await.and_then(|run| run.error).as_deref(), Some("no paper"));
    /// running.stop().await }
    /// ```
    pub fn on_failure<F, G>(mut self, report: F) -> Self
    where
        F: Fn(RunRow) -> G + Send + Sync + 'static,
        G: Future<Output = ()> + Send + 'static,
    {
        self.on_failure = Some(Arc::new(move |run| Box::pin(report(run))));
        self
    }

    /// The clock of the scheduler, for tests. Default: the clock of the client or, without a store, [`Clock::system`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Interval between two polls of the store.
    pub(crate) fn poll_every(mut self, time: Duration) -> Self {
        self.poll_interval = Some(time);
        self
    }

    /// The node's name in histories. The name must have 1 to [`crate::MAX_NODE`] bytes and no control characters.
    /// Default: `host:pid`, which is the name of the machine (in Kubernetes, of the pod) and the id of the process.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Adds a job.
    pub fn job(mut self, job: Job) -> Self {
        let location = job.location;
        match job.given(&self.shares).prepare(self.client.as_ref().map(Client::ttl)) {
            Ok(mut definition) => {
                self.interner.intern(&mut definition.trigger, &mut definition.policy);
                self.locations.push(location);
                self.entries.push(JobEntry::new(definition));
            }
            Err(fault) => self.errors.push(fault),
        }
        self
    }

    /// Adds jobs.
    pub fn jobs(self, jobs: impl IntoIterator<Item = Job>) -> Self {
        jobs.into_iter().fold(self, Self::job)
    }

    /// Adds a value for the declared jobs that have a parameter of the type [`crate::Shared<T>`]. Each type can have
    /// only one value. Values and jobs can be added in any order.
    ///
    /// [`Scheduler::start`] returns an error if a job has a parameter without a value, or if two values have the same
    /// type.
    pub fn share<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.shares.keep(value);
        self
    }

    /// Uses these values for the parameters of declared jobs. Other schedulers use the same values.
    pub(crate) fn sharing(mut self, shares: &Shares) -> Self {
        self.shares = shares.clone();
        self
    }

    /// Registers the jobs with the store, and starts the scheduler. The scheduler and its runs are tasks of the current
    /// tokio runtime.
    ///
    /// # Errors
    /// - `Misused`: a job has a wrong value, two jobs have the same name, or the caller is outside a tokio runtime.
    /// - `Unavailable`: the store does not answer.
    /// - `Unsupported`: the store does not support records.
    ///
    /// # Cancel safety
    /// If the future is dropped, some jobs might be registered already, but none of them runs.
    pub async fn start(self) -> Result<Running> {
        let Self {
            client,
            pool,
            drain,
            clock,
            poll_interval,
            node,
            on_failure,
            mut entries,
            locations,
            mut errors,
            shares,
            interner,
        } = self;
        drop(interner);
        errors.extend(shares.errors());
        let pool = pool.unwrap_or(1);
        if pool == 0 {
            return Err(
                Error::misused("a scheduler with a pool of 0 would start nothing; the minimum is 1").during("start")
            );
        }
        if let Some(node) = &node {
            check_node(node).map_err(|error| error.during("start"))?;
        }
        check(&entries, &locations, errors)?;
        drop(locations);
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::misused("start the scheduler within a tokio runtime").during("start"));
        }
        let clock = clock.or_else(|| client.as_ref().map(Client::clock)).unwrap_or_else(Clock::system);
        let mut time = Timekeeper::new(clock);
        for entry in &mut entries {
            entry.is_shared = client.is_some() && entry.definition.policy.scope == Scope::Cluster;
        }
        let pauses = match &client {
            Some(client) => register(client, &mut time, &mut entries).await.map_err(|error| error.during("start"))?,
            None => KnownPauses::default(),
        };
        let node = node.unwrap_or_else(|| {
            let here = Member::here(ClientId::random());
            format!("{}:{}", here.host, here.pid)
        });
        log_start(&entries, &time, pool);
        entries.iter().for_each(JobEntry::show_first_state);
        meters::running(0);
        let (mail, mailbox) = mpsc::unbounded_channel();
        let task = Dispatcher::new(
            entries,
            time,
            node.into(),
            pool,
            client.clone(),
            poll_interval.unwrap_or(POLL_INTERVAL),
            (mail.clone(), mailbox),
        )
        .with_pauses(pauses)
        .with_failures(on_failure)
        .start();
        Ok(Running { mail, jobs: client.as_ref().map(Jobs::over), drain: drain.unwrap_or(DRAIN), task })
    }
}

impl Interner {
    /// Replaces the expression and the policy by the equal values of an earlier job, if there is such a job.
    fn intern(&mut self, trigger: &mut Trigger, policy: &mut Arc<Policy>) {
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

/// Checks that there are no errors, and that each job has a different name. Otherwise returns a single error, which
/// contains all errors. If several jobs have the same name, the error contains the places in the source where these
/// jobs were made.
fn check(entries: &[JobEntry], locations: &[&Location<'_>], mut errors: Vec<Error>) -> Result<()> {
    let mut named: Vec<(&str, &Location<'_>)> =
        entries.iter().map(|entry| &*entry.definition.name).zip(locations.iter().copied()).collect();
    named.sort_by_key(|(name, _)| *name);
    for same in named.chunk_by(|(one, _), (other, _)| one == other).filter(|same| same.len() > 1) {
        let mut locations: Vec<String> = same.iter().map(|(_, location)| location.to_string()).collect();
        locations.dedup();
        let shown = locations.iter().take(MAX_LOCATIONS).cloned().collect::<Vec<_>>().join(" and ");
        let more = if locations.len() > MAX_LOCATIONS { " and elsewhere" } else { "" };
        let (name, count) = (same[0].0, if same.len() == 2 { "two".to_owned() } else { same.len().to_string() });
        errors.push(Error::misused(format!(
            "job {name:?}: {count} jobs have this name; they were made at {shown}{more}"
        )));
    }
    match &errors[..] {
        [] => Ok(()),
        [one] => Err(one.clone().during("start")),
        many => {
            let texts: Vec<String> = many.iter().map(ToString::to_string).collect();
            Err(Error::misused(format!("{} jobs cannot be run:\n{}", many.len(), texts.join("\n"))).during("start"))
        }
    }
}

/// Logs the jobs and their next ticks.
fn log_start(entries: &[JobEntry], time: &Timekeeper, pool: usize) {
    tracing::info!(jobs = entries.len(), pool, "the scheduler starts");
    if entries.is_empty() {
        tracing::warn!("the scheduler has no jobs; .declared() adds those of #[bandog::scheduled]");
    }
    for entry in entries.iter().take(MAX_LOGGED_JOBS) {
        let crate::job::JobDefinition { name, trigger, policy, .. } = &entry.definition;
        let fresh = JobState::new(policy, time.now(), None);
        let state = entry.state.as_deref().unwrap_or(&fresh);
        let mut cursor = state.tick_cursor();
        let mut next = Vec::new();
        while let Some(tick) = trigger.next(cursor).filter(|_| next.len() < 3) {
            next.push(Time::from_millisecond(tick).to_string());
            (cursor.watermark, cursor.next_due) = (tick, None);
        }
        let gap = trigger.shortest_gap(time.now()).filter(|gap| 2 * duration_ms(policy.jitter) > *gap);
        if let Some(gap) = gap {
            let (jitter, gap) = (rounded(policy.jitter), rounded(Duration::from_millis(gap.unsigned_abs())));
            tracing::warn!(
                job = %name, "the jitter of {jitter} is more than half of the shortest time between two ticks, {gap}"
            );
        }
        let (trigger, zone, next) = (trigger.text(), trigger.zone(), next.join(", "));
        let (overlap, catch_up, on_crash) = (policy.overlap, policy.catch_up, policy.on_crash);
        tracing::info!(job = %name, trigger, zone, next, %overlap, %catch_up, %on_crash, enabled = policy.enabled, "job");
        // While a job with a fixed delay runs, its next tick is not known yet. So this warning is only for idle jobs.
        if next.is_empty() && policy.enabled && state.is_idle() {
            tracing::warn!(job = %name, "the job will not fire any more");
        }
    }
}

/// A running scheduler. If this value is dropped, the scheduler stops without a drain: runs are cancelled immediately,
/// and are dropped after their grace ([`Job::grace`]).
#[derive(Debug)]
#[must_use = "a scheduler stops when this is dropped"]
pub struct Running {
    /// Sends messages to the dispatcher.
    mail: mpsc::UnboundedSender<Message>,
    jobs: Option<Jobs>,
    pub(crate) drain: Duration,
    /// The task of the dispatcher.
    task: AbortHandle,
}

impl Running {
    /// Ends the scheduler like a crash: the scheduler neither releases its sessions nor reports the ends of its runs.
    pub(crate) fn crash(&self) {
        // The dispatcher owns the handles of its runs, so the runs are dropped too.
        self.task.abort();
    }

    /// Stops the scheduler. From now on, the scheduler claims no tick. Runs can continue for the time of
    /// [`Scheduler::drain`]. Then the scheduler cancels the remaining runs, and drops each of them after its grace.
    /// Depending on [`crate::OnCrash`], a cancelled run is either handed over to another node immediately, or recorded
    /// as interrupted.
    ///
    /// # Errors
    /// `Unavailable` if the results of the runs could not be written to the store. In that case, other nodes take the
    /// runs over after the lease of this node has expired.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the stop continues.
    pub async fn stop(self) -> Result<()> {
        self.end(self.drain).await
    }

    /// Claims no further tick, and waits until the present runs have ended by themselves, for whatever time. Meanwhile another
    /// scheduler of this program can take the place of this one, with other jobs: a reload. Afterwards, [`Running::stop`]
    /// ends the wait: then the runs can continue for the time of [`Scheduler::drain`] only.
    ///
    /// # Errors
    /// As [`Running::stop`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, no tick is claimed any more.
    pub async fn retire(&self) -> Result<()> {
        self.end_after(None).await
    }

    /// Queries and commands for the jobs in the store. None if the scheduler has no store.
    pub fn jobs(&self) -> Option<Jobs> {
        self.jobs.clone()
    }

    /// For tests: waits until no run is under way and all results are written to the store.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn idle(&self) {
        let (idle, answer) = oneshot::channel();
        // A scheduler that has ended is idle too.
        if self.mail.send(Message::NotifyWhenIdle(idle)).is_ok() {
            let _ = answer.await;
        }
    }

    /// Ends the drain of a stop early. Then the remaining runs are cancelled immediately.
    pub(crate) fn end_drain(&self) {
        // If the scheduler has ended already, there is nothing to do.
        let _ = self.mail.send(Message::EndDrain);
    }

    /// Polls the store immediately.
    pub(crate) fn poll(&self) {
        // If the scheduler has ended already, there is nothing to do.
        let _ = self.mail.send(Message::Poll);
    }

    /// Stops the scheduler with this drain, and waits for the end of the stop.
    pub(crate) async fn end(&self, drain: Duration) -> Result<()> {
        self.end_after(Some(drain)).await
    }

    async fn end_after(&self, drain: Option<Duration>) -> Result<()> {
        let (done, answer) = oneshot::channel();
        if self.mail.send(Message::Stop { drain, done }).is_err() {
            return Ok(());
        }
        answer.await.unwrap_or_else(|_| Err(Error::unavailable("the scheduler's runtime has ended").during("stop")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        // If the scheduler was stopped before, there is nothing to do.
        let _ = self.mail.send(Message::Stop { drain: Some(Duration::ZERO), done });
    }
}
