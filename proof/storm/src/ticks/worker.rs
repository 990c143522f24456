//! A node: a process that has a scheduler over the store, and records the start and end of each run.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use bandog::{
    Client, Result,
    backend::Clock,
    schedule::{Running, Scheduler},
};
use tokio::time::sleep;

use super::{
    history::End,
    jobs::{self, Witness},
    recorded::{Job, Op, Ticks},
    schedule::Run,
};
use crate::{
    calls::{Outcome, Process, Recorder, Traffic},
    history::CallId,
};

/// Maximum number of simultaneous runs.
const POOL: usize = 256;
/// Time for which runs are allowed to continue after a stop request.
const DRAIN: Duration = Duration::from_millis(100);
/// Maximum number of milliseconds by which the wall clock of a node is wrong.
const SKEW: i64 = 90_000;
/// Interval of the checks whether the node must stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Scheduled jobs.
pub(super) struct Calls;

impl Traffic for Calls {
    type Words = Ticks;

    async fn work(process: &Process, client: Client, number: u32) {
        fastrand::seed(process.args.seed);
        let skew = fastrand::i64(-SKEW..=SKEW);
        let deviation = Duration::from_millis(skew.unsigned_abs());
        let clock = if skew < 0 { Clock::system().set_back(deviation) } else { Clock::system().set_ahead(deviation) };
        let lines = Lines {
            recorder: Arc::new(Recorder::open(&process.path(number))),
            open: Arc::default(),
            runs: process.counter(),
        };
        let mut running = None;
        while running.is_none() && !process.must_stop() {
            // The store may not answer.
            running = start(process, &client, &clock, &lines).await.ok();
            sleep(CHECK_INTERVAL).await;
        }
        while !process.must_stop() {
            sleep(CHECK_INTERVAL).await;
        }
        if let Some(running) = running {
            // If the store does not answer, the lease of this node expires.
            let _ = running.stop().await;
        }
        client.idle().await;
        // An error means that the client has ended already.
        let _ = client.close().await;
    }

    /// No node has a memory store.
    async fn drain(_: &Process) -> Result<()> {
        Ok(())
    }
}

async fn start(process: &Process, client: &Client, clock: &Clock, lines: &Lines) -> Result<Running> {
    let jobs = (0..process.args.jobs).map(|job| jobs::job(job, lines.clone()));
    Scheduler::over(client).clock(*clock).pool(POOL).drain(DRAIN).jobs(jobs).start().await
}

/// Records the start and the end of each run.
#[derive(Clone)]
struct Lines {
    recorder: Arc<Recorder<Ticks>>,
    /// The numbers of the runs that have not ended, by their jobs and fences.
    open: Arc<Mutex<HashMap<(usize, u64), CallId>>>,
    /// Number of ended runs.
    runs: Arc<AtomicU64>,
}

impl Witness for Lines {
    fn begins(&self, job: usize, run: &Run) {
        let store = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let store = i64::try_from(store).unwrap_or(i64::MAX);
        let (tick, attempt, id, fence) = (run.tick().millisecond(), run.attempt(), run.id(), run.fence().get());
        let op = Op::Run { tick, attempt, id, fence, store };
        let call = self.recorder.begin(0, Job(job), op, Duration::MAX);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert((job, fence), call);
    }

    fn ends(&self, job: usize, run: &Run, end: End) {
        let call = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&(job, run.fence().get()));
        let outcome = match end {
            End::Ok => Outcome::Ok,
            End::Failed => Outcome::No,
            End::Cancelled => Outcome::Cancelled,
            End::Dropped => Outcome::Lost,
        };
        if let Some(call) = call {
            self.recorder.end(call, outcome);
        }
        self.runs.fetch_add(1, Relaxed);
    }
}
