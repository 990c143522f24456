//! Stores that lose all of their data or the latest changes, while nodes still remember the data.

mod logged;
mod older;
mod store;
mod storm;
mod wiped;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bandog_conformance::wrap::{Fate, Lossy};
use bandog_core::{Clock, Key, Records};
use bandog_cron::Time;
use bandog_schedule::{Job, JobRow, Jobs, Kind, Run, RunRow, Running, Scheduler, State};
use bandog_sync::Client;
use tokio::time;

use self::store::Store;

/// A run that has started: its job, tick, attempt and fence, its node, and the time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StartedRun {
    job: String,
    tick: i64,
    attempt: u32,
    fence: u64,
    node: usize,
    at: i64,
    is_by_hand: bool,
}

/// The runs that have started, in order.
type Ran = Arc<Mutex<Vec<StartedRun>>>;

/// Nodes over one store. Times are in seconds since the start of the cluster.
struct Cluster {
    store: Store,
    clock: Clock,
    start: i64,
    ran: Ran,
    nodes: Vec<Node>,
}

struct Node {
    wire: Lossy<Store>,
    /// The node stops when this is dropped.
    _running: Running,
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A job that fires every ten seconds.
fn every_ten(name: &str) -> Job {
    Job::cron(name, "0/10 * * * * ?")
}

impl Cluster {
    /// Starts at a full minute.
    fn new() -> Self {
        let start = 1_800_000_000;
        let clock = Clock::tokio().set_to(SystemTime::UNIX_EPOCH + secs(start));
        let start = i64::try_from(start).unwrap();
        Self { store: Store::new(clock), clock, start, ran: Ran::default(), nodes: Vec::new() }
    }

    /// Starts a node with these jobs. The duration is the time that each run of the job takes.
    async fn join(&mut self, jobs: impl IntoIterator<Item = (Job, Duration)>) {
        let wire = Lossy::new(self.store.clone());
        let client = client(wire.clone());
        let (node, start, clock) = (self.nodes.len(), self.start, self.clock);
        let jobs = jobs.into_iter().map(|(job, takes)| {
            let ran = Arc::clone(&self.ran);
            job.run(move |run: Run| {
                let (job, fence) = (run.name().to_owned(), run.fence().get());
                let (tick, at) = (run.tick().millisecond(), Time::from(clock.wall()).millisecond());
                let (tick, at) = (tick.div_euclid(1000) - start, at.div_euclid(1000) - start);
                let is_by_hand = run.kind() == Kind::Manual;
                ran.lock().unwrap().push(StartedRun { job, tick, attempt: run.attempt(), fence, node, at, is_by_hand });
                time::sleep(takes)
            })
        });
        let scheduler = Scheduler::over(&client).node(format!("node-{node}")).pool(10).jobs(jobs);
        let running = scheduler.start().await.unwrap();
        self.nodes.push(Node { wire, _running: running });
    }

    /// Advances the clock to this second.
    async fn until(&self, second: u64) {
        let target = SystemTime::UNIX_EPOCH + secs(u64::try_from(self.start).unwrap() + second);
        time::sleep(target.duration_since(self.clock.wall()).unwrap()).await;
    }

    /// Disconnects a node from the store.
    fn cut(&self, node: usize) {
        self.nodes[node].wire.always(Fate::Refused);
    }

    /// Reconnects a node to the store.
    fn mend(&self, node: usize) {
        self.nodes[node].wire.heal();
    }

    fn jobs(&self) -> Jobs {
        Jobs::over(&client(self.store.clone()))
    }

    async fn row(&self, job: &str) -> JobRow {
        self.jobs().show(job).await.unwrap()
    }

    async fn rows_in_state(&self, job: &str, state: State) -> Vec<RunRow> {
        let history = self.jobs().history(job).await.unwrap();
        history.into_iter().filter(|row| row.state == state).collect()
    }

    fn ran(&self, job: &str) -> Vec<StartedRun> {
        self.ran.lock().unwrap().iter().filter(|began| began.job == job).cloned().collect()
    }

    fn ticks(&self, job: &str) -> Vec<i64> {
        self.ran(job).iter().map(|began| began.tick).collect()
    }

    /// The first and last second of a range in the history, and its number of ticks.
    fn range(&self, row: &RunRow) -> (i64, i64, u64) {
        let second = |text: &str| text.parse::<Time>().unwrap().millisecond().div_euclid(1000) - self.start;
        (row.from.as_deref().map_or(0, second), second(&row.tick), row.ticks)
    }

    /// The era of the board.
    async fn era(&self) -> Option<String> {
        let reading = self.store.read(&[Key::new("schedule/board").unwrap()], &[]).await.unwrap();
        reading.records.into_iter().next().unwrap().unwrap().map(|record| record.value)
    }
}

fn client(backend: impl bandog_core::Backend) -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(backend).unwrap()
}

/// Checks that no tick ran twice.
fn each_once(ticks: &[i64]) {
    let mut sorted = ticks.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), ticks.len(), "{ticks:?}");
}

/// Checks that no claim of a job ran twice. Each claim has its own fence, also the claim of a takeover.
fn no_claim_twice(runs: &[StartedRun]) {
    let mut fences: Vec<u64> = runs.iter().map(|run| run.fence).collect();
    fences.sort_unstable();
    let twice = fences.windows(2).find(|pair| pair[0] == pair[1]);
    let twice = twice.map(|pair| runs.iter().filter(|run| run.fence == pair[0]).collect::<Vec<_>>());
    assert_eq!(twice, None);
}
