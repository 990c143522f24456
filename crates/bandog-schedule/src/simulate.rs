//! A scheduler on a virtual clock, for tests.

mod wire;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bandog_core::{Clock, Error, Memory, Result};
use bandog_cron::Time;
use bandog_sync::Client;
use tokio::time;

use self::wire::Wire;
use crate::{Job, Jobs, Kind, Run, Running, Scheduler, inject::Shares};

/// Several schedulers (replicas) over a single store in memory, for tests. They use a virtual clock, which moves only
/// when the test moves it. The simulation of one day takes about a second of real time.
///
/// The clock of the tokio runtime must be paused: `#[tokio::test(start_paused = true)]`. All bodies run on the runtime
/// of the test, in the order in which their ticks are due. If a body awaits a timer of tokio, the wait takes no real
/// time.
///
/// ```
/// use bandog::schedule::{Job, Run, TestScheduler};
///
/// // In a test: #[tokio::test(start_paused = true)]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> bandog::Result<()> {
/// let new_york = || Job::cron("backup", "0 30 2 * * ?").zone("America/New_York").run(async |run: Run| {
///     println!("backup of {}", run.tick());
/// });
/// let test = TestScheduler::at("2026-03-07T00:00:00Z").replicas(3).start(|| vec![new_york()]).await?;
/// test.advance_to("2026-03-09T00:00:00Z").await;
/// // On the 8th, the clocks were set forward, so 02:30 did not exist. Each tick ran on one of the three replicas only.
/// assert_eq!(test.ticks("backup"), ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z"]);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestScheduler {
    setting: TestSetting,
    clock: Clock,
    store: Memory,
    nodes: Vec<Replica>,
    /// The attempts that have started so far.
    ran: RunLog,
}

/// A scheduler of the simulation.
#[derive(Debug)]
struct Replica {
    /// The connection to the store.
    wire: Wire,
    /// None after the replica has been stopped or has crashed.
    running: Option<Running>,
}

type RunLog = Arc<Mutex<Vec<TestRun>>>;

/// An attempt of a run that has started, from [`TestScheduler::runs`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// The job's name.
    pub job: String,
    /// The tick of the run.
    pub tick: Time,
    /// The cause of the run.
    pub kind: Kind,
    /// The attempt's number.
    pub attempt: u32,
    /// The replica that runs the job: 0 is the first replica.
    pub replica: usize,
    /// Start of the attempt, by the store's clock.
    pub began: Time,
    /// The outcome of the attempt. [`Jobs::history`] has that of the whole run.
    pub outcome: TestOutcome,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestOutcome {
    /// The attempt is under way.
    Running,
    /// The body succeeded.
    Ok,
    /// The body returned this error, or panicked.
    Failed(String),
    /// The body was dropped: after its grace, because it was cancelled or took longer than its timeout, or because its replica
    /// crashed or lost its session.
    Dropped,
}

/// An attempt that has started. Its drop without an end means that the body was dropped.
struct Attempt {
    ran: RunLog,
    /// The index in the list of attempts.
    place: usize,
}

impl Attempt {
    fn ended(&self, outcome: TestOutcome) {
        let mut ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        let run = ran.get_mut(self.place).filter(|run| run.outcome == TestOutcome::Running);
        if let Some(run) = run {
            run.outcome = outcome;
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.ended(TestOutcome::Dropped);
    }
}

/// Settings of a [`TestScheduler`], from [`TestScheduler::at`].
#[derive(Debug, Clone)]
#[must_use = "it does nothing until it is started"]
pub struct TestSetting {
    /// The start of the simulation.
    at: Time,
    replicas: usize,
    /// For each replica: whether its wall clock is ahead, and the difference from the correct time.
    skew: Vec<(bool, Duration)>,
    pool: usize,
    lease: Duration,
    shares: Shares,
}

/// Interval between two polls of the store by a replica. A real node polls every second, which would make a long
/// simulation slow.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Default lease of jobs. The lease is long, because frequent renewals would make a long simulation slow.
const LEASE: Duration = Duration::from_secs(300);

impl TestScheduler {
    /// The settings of a simulation that begins at this instant (RFC 3339), with one replica.
    ///
    /// # Panics
    /// If the text is not an instant.
    pub fn at(time: &str) -> TestSetting {
        TestSetting {
            at: instant(time),
            replicas: 1,
            skew: Vec::new(),
            pool: 1,
            lease: LEASE,
            shares: Shares::default(),
        }
    }

    /// Advances the clock to this instant (RFC 3339). All ticks that are due before or at this instant start.
    ///
    /// # Panics
    /// If the text is not an instant.
    pub async fn advance_to(&self, time: &str) {
        let target = SystemTime::from(instant(time));
        self.advance(target.duration_since(self.clock.wall()).unwrap_or_default()).await;
    }

    /// Advances the clock by this time.
    pub async fn advance(&self, time: Duration) {
        self.running().for_each(Running::poll);
        time::sleep(time).await;
        // Without this step, ticks that are due at exactly this instant might not start before this function returns.
        time::sleep(Duration::from_millis(1)).await;
    }

    /// Advances the clock until no run is under way.
    pub async fn run_until_idle(&self) {
        for running in self.running() {
            running.idle().await;
        }
    }

    /// The time of the store's clock.
    pub fn now(&self) -> Time {
        self.clock.wall().into()
    }

    /// The attempts that have started so far, in the order of their starts, with their outcomes.
    ///
    /// ```
    /// use bandog::schedule::{Job, Run, TestOutcome, TestScheduler};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> bandog::Result<()> {
    /// let job = || Job::cron("backup", "0 0 2 * * ?").run(async |_: Run| Err::<(), _>("no disk"));
    /// let test = TestScheduler::at("2026-03-07T00:00:00Z").start(|| vec![job()]).await?;
    /// test.advance_to("2026-03-07T02:00:00Z").await;
    /// assert_eq!(test.runs()[0].outcome, TestOutcome::Failed("no disk".into()));
    /// # Ok(()) }
    /// ```
    pub fn runs(&self) -> Vec<TestRun> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tick of each attempt of this job that has started so far (RFC 3339 in UTC), in the order of the starts.
    pub fn ticks(&self, job: &str) -> Vec<String> {
        self.runs().iter().filter(|run| run.job == job).map(|run| run.tick.to_string()).collect()
    }

    /// The jobs in the store, for pauses, runs by hand and histories.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn jobs(&self) -> Jobs {
        Jobs::over(&self.outsider())
    }

    /// Ends a replica like a crash: its runs are dropped, and the replica neither releases its session nor reports the
    /// ends of the runs.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn crash(&mut self, replica: usize) {
        let node = &mut self.nodes[replica];
        // The connection is cut first. Otherwise the drop of the replica would release its session, which a dead
        // process cannot do.
        node.wire.cut();
        if let Some(running) = node.running.take() {
            running.crash();
        }
    }

    /// Disconnects a replica from the store. The replica continues to run.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn cut(&self, replica: usize) {
        self.nodes[replica].wire.cut();
    }

    /// Reconnects a replica to the store.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn mend(&self, replica: usize) {
        self.nodes[replica].wire.mend();
    }

    /// Stops a replica as [`Running::stop`] does, with this drain (the time that the stop leaves to runs).
    ///
    /// # Errors
    /// As [`Running::stop`], for example if the replica is disconnected from the store.
    ///
    /// # Panics
    /// If there is no such replica.
    pub async fn stop_one(&mut self, replica: usize, drain: Duration) -> Result<()> {
        match self.nodes[replica].running.take() {
            Some(running) => running.end(drain).await,
            None => Ok(()),
        }
    }

    /// Adds a replica with these jobs.
    ///
    /// # Errors
    /// As [`Scheduler::start`].
    pub async fn join(&mut self, jobs: Vec<Job>) -> Result<()> {
        let (replica, clock) = (self.nodes.len(), self.clock);
        let wire = Wire::to(&self.store);
        let client = self.client_of(replica, wire.clone());
        let logged = jobs.into_iter().map(|job| {
            let ran = Arc::clone(&self.ran);
            let begin = move |run: &Run| {
                let (job, began, outcome) = (run.name().to_owned(), clock.wall().into(), TestOutcome::Running);
                let (tick, kind, attempt) = (run.tick(), run.kind(), run.attempt());
                let mut runs = ran.lock().unwrap_or_else(PoisonError::into_inner);
                runs.push(TestRun { job, tick, kind, attempt, replica, began, outcome });
                Attempt { place: runs.len() - 1, ran: Arc::clone(&ran) }
            };
            job.watched(begin, |attempt, failure| {
                attempt
                    .ended(failure.map_or(TestOutcome::Ok, |failure| TestOutcome::Failed(failure.text().to_owned())));
            })
        });
        let scheduler = Scheduler::over(&client)
            .node(format!("replica-{replica}"))
            .pool(self.setting.pool)
            .poll_every(POLL_INTERVAL);
        let running = scheduler.sharing(&self.setting.shares).jobs(logged).start().await?;
        self.nodes.push(Replica { wire, running: Some(running) });
        Ok(())
    }

    /// Removes the session with this number from the store, so the store seems to have lost the session. A session is
    /// the lock that proves that a replica is alive. Returns false if no replica held this session.
    ///
    /// # Errors
    /// None.
    pub async fn evict_session(&self, number: u32) -> Result<bool> {
        Ok(self.outsider().evict(format!("schedule/node/{number}")).await?.is_some())
    }

    /// The schedulers of the replicas that were not stopped and have not crashed.
    fn running(&self) -> impl Iterator<Item = &Running> {
        self.nodes.iter().filter_map(|node| node.running.as_ref())
    }

    /// A client of the store that belongs to no replica. So [`TestScheduler::cut`] never disconnects it.
    fn outsider(&self) -> Client {
        self.client_of(usize::MAX, Wire::to(&self.store))
    }

    /// Creates the client of a replica, with the replica's clock.
    fn client_of(&self, replica: usize, wire: Wire) -> Client {
        let clock = match self.setting.skew.get(replica) {
            Some((true, by)) => self.clock.set_ahead(*by),
            Some((false, by)) => self.clock.set_back(*by),
            None => self.clock,
        };
        let options = Client::options().watchdog(self.setting.lease).clock(clock).on_current_runtime();
        options.over(wire).expect("the caller runs in a runtime, and start() has checked the lease")
    }

    /// Stops all replicas one after the other, each as [`Running::stop`] does.
    ///
    /// # Errors
    /// As [`Running::stop`], for example if a replica is disconnected from the store.
    pub async fn stop(self) -> Result<()> {
        for running in self.nodes.into_iter().filter_map(|node| node.running) {
            running.stop().await?;
        }
        Ok(())
    }
}

impl TestSetting {
    /// Number of replicas, each with the same jobs. Default: 1.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// How far the replicas' wall clocks are ahead of the store's clock, in seconds. The first number is for the first
    /// replica. A negative number means that the clock is behind. Replicas without a number have a correct clock.
    pub fn skew(mut self, seconds: impl IntoIterator<Item = i64>) -> Self {
        let by = |seconds: i64| (seconds >= 0, Duration::from_secs(seconds.unsigned_abs()));
        self.skew = seconds.into_iter().map(by).collect();
        self
    }

    /// Maximum number of concurrent runs of a replica. Default: 1.
    pub fn pool(mut self, size: usize) -> Self {
        self.pool = size;
        self
    }

    /// The lease of jobs without [`Job::lease`]. A crashed replica counts as dead after this time, and the other
    /// replicas notice the death at most half a minute later. Default: 5 minutes.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Adds a value for the declared jobs that have a parameter of the type [`crate::Shared<T>`], as
    /// [`Scheduler::share`] does. All replicas share the value.
    pub fn share<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.shares.keep(value);
        self
    }

    /// Starts the replicas.
    ///
    /// # Errors
    /// As [`Scheduler::start`]; `Misused` in a runtime whose clock is not paused.
    pub async fn start(self, jobs: impl Fn() -> Vec<Job> + Send) -> Result<TestScheduler> {
        if !Clock::tokio_is_paused() {
            return Err(Error::misused(
                "a TestScheduler needs a paused clock, or a virtual day would take a day; write \
                 #[tokio::test(start_paused = true)]",
            ));
        }
        bandog_core::check_ttl("the lease", self.lease)?;
        let clock = Clock::tokio().set_to(self.at.into());
        let (replicas, store) = (self.replicas, Memory::new(clock));
        let mut test = TestScheduler { setting: self, clock, store, nodes: Vec::new(), ran: RunLog::default() };
        for _ in 0..replicas {
            test.join(jobs()).await?;
        }
        Ok(test)
    }
}

/// Parses an instant. Panics if the text is not an instant.
fn instant(text: &str) -> Time {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
