//! A virtual clock for tests of what jobs do when.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bandog_core::{Clock, Memory, Result};
use bandog_cron::Time;
use bandog_sync::Client;
use tokio::time;

use crate::{Job, Jobs, Kind, Running, Scheduler};

/// Schedulers over a store in memory, on a clock that only moves when the test says so: a year passes in no time.
///
/// The runtime's clock must be paused, as `#[tokio::test(start_paused = true)]` does. All bodies run on the runtime of the
/// test, in the order in which they are due; whatever they await of tokio's timers passes in no time too.
///
/// ```
/// use bandog_schedule::{Job, Run, TestScheduler};
///
/// // In a test: #[tokio::test(start_paused = true)]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> bandog_core::Result<()> {
/// let new_york = || Job::cron("backup", "0 30 2 * * ?").zone("America/New_York").run(async |run: Run| {
///     println!("backup of {}", run.tick());
/// });
/// let test = TestScheduler::at("2026-03-07T00:00:00Z").replicas(3).start(|| vec![new_york()]).await?;
/// test.advance_to("2026-03-09T00:00:00Z").await;
/// // The clocks went forward on the 8th, when there was no 02:30; and each tick ran on one of three replicas only.
/// assert_eq!(test.ticks("backup"), ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z"]);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestScheduler {
    clock: Clock,
    nodes: Vec<(Client, Running)>,
    ran: Ran,
}

type Ran = Arc<Mutex<Vec<TestRun>>>;

/// A run that began, from [`TestScheduler::runs`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// The job's name.
    pub job: String,
    /// The tick that it is for.
    pub tick: Time,
    /// Why it ran.
    pub kind: Kind,
    /// The attempt's number.
    pub attempt: u32,
    /// The replica that ran it: 0 is the first.
    pub replica: usize,
    /// When it began, by the store's clock.
    pub began: Time,
}

/// What a [`TestScheduler`] is made of, from [`TestScheduler::at`].
#[derive(Debug, Clone)]
#[must_use = "it does nothing until it is started"]
pub struct TestSetting {
    at: Time,
    replicas: usize,
    skew: Vec<(bool, Duration)>,
    pool: usize,
    lease: Duration,
}

/// How often replicas look at each other: looking every second would make a long simulation slow.
const LOOK: Duration = Duration::from_secs(30);
/// What jobs without a lease have, for the same reason.
const LEASE: Duration = Duration::from_secs(300);

impl TestScheduler {
    /// Begins at this instant, RFC 3339, with one replica.
    ///
    /// # Panics
    /// If the text is no instant.
    pub fn at(time: &str) -> TestSetting {
        TestSetting { at: instant(time), replicas: 1, skew: Vec::new(), pool: 1, lease: LEASE }
    }

    /// Lets time pass until this instant, RFC 3339; everything that is due by then is started.
    ///
    /// # Panics
    /// If the text is no instant.
    pub async fn advance_to(&self, time: &str) {
        let target = SystemTime::from(instant(time));
        self.advance(target.duration_since(self.clock.wall()).unwrap_or_default()).await;
    }

    /// Lets this much time pass.
    pub async fn advance(&self, time: Duration) {
        self.nodes.iter().for_each(|(_, running)| running.look());
        time::sleep(time).await;
        // What is due at the very instant is due before it is over.
        time::sleep(Duration::from_millis(1)).await;
    }

    /// Lets time pass until no run is under way.
    pub async fn run_until_idle(&self) {
        for (_, running) in &self.nodes {
            running.idle().await;
        }
    }

    /// What the store's clock shows.
    pub fn now(&self) -> Time {
        self.clock.wall().into()
    }

    /// The runs so far, in the order in which they began.
    pub fn runs(&self) -> Vec<TestRun> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The ticks of this job that ran so far, RFC 3339 in UTC, in the order in which they began.
    pub fn ticks(&self, job: &str) -> Vec<String> {
        self.runs().iter().filter(|run| run.job == job).map(|run| run.tick.to_string()).collect()
    }

    /// The jobs in the store, for pauses, runs by hand and histories.
    ///
    /// # Panics
    /// Without replicas.
    pub fn jobs(&self) -> Jobs {
        Jobs::over(&self.nodes[0].0)
    }

    /// Ends a replica as a crash does: what it ran is dropped, and nobody is told.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn crash(&mut self, replica: usize) {
        self.nodes[replica].1.crash();
    }

    /// Stops every replica in order.
    ///
    /// # Errors
    /// None, unless the store is at fault.
    pub async fn stop(self) -> Result<()> {
        for (_, running) in self.nodes {
            running.stop().await?;
        }
        Ok(())
    }
}

impl TestSetting {
    /// So many replicas, each with the same jobs. Default 1.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// The first replicas' wall clocks are wrong by so many seconds: ahead of the store's, or behind it.
    pub fn skew(mut self, seconds: impl IntoIterator<Item = i64>) -> Self {
        let by = |seconds: i64| (seconds >= 0, Duration::from_secs(seconds.unsigned_abs()));
        self.skew = seconds.into_iter().map(by).collect();
        self
    }

    /// How many runs a replica may have at a time. Default 1.
    pub fn pool(mut self, size: usize) -> Self {
        self.pool = size;
        self
    }

    /// After what time a replica that has crashed counts as dead, for jobs without a lease of their own. Default 5
    /// minutes; the others notice it within half a minute more.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Starts the replicas.
    ///
    /// # Errors
    /// As [`Scheduler::start`].
    ///
    /// # Panics
    /// When the runtime's clock is not paused and this would therefore take as long as it says.
    pub async fn start(self, jobs: impl Fn() -> Vec<Job>) -> Result<TestScheduler> {
        let clock = Clock::tokio().set_to(self.at.into());
        let store = Memory::new(clock);
        let ran = Ran::default();
        let mut nodes = Vec::new();
        for replica in 0..self.replicas {
            let own = match self.skew.get(replica) {
                Some((true, by)) => clock.set_ahead(*by),
                Some((false, by)) => clock.set_back(*by),
                None => clock,
            };
            let client = Client::options().watchdog(self.lease).clock(own).on_current_runtime().over(store.clone())?;
            let logged = jobs().into_iter().map(|job| {
                let ran = Arc::clone(&ran);
                job.watched(move |run| {
                    let (job, began) = (run.name().to_owned(), clock.wall().into());
                    let (tick, kind, attempt) = (run.tick(), run.kind(), run.attempt());
                    let run = TestRun { job, tick, kind, attempt, replica, began };
                    ran.lock().unwrap_or_else(PoisonError::into_inner).push(run);
                })
            });
            let pool = self.pool.try_into().unwrap_or(std::num::NonZeroUsize::MIN);
            let scheduler =
                Scheduler::over(&client).node(format!("replica-{replica}")).pool(pool).looks_every(LOOK).jobs(logged);
            let running = scheduler.start().await?;
            nodes.push((client, running));
        }
        Ok(TestScheduler { clock, nodes, ran })
    }
}

fn instant(text: &str) -> Time {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
