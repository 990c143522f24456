//! A node: a process that has a scheduler over the store, and records the start and end of each run.

use std::{
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use bandog::{ConnectOptions, Result, backend::Clock, schedule::Scheduler};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    history::{End, Nanos},
    jobs::{self, Witness},
    schedule::Run,
};
use crate::history::Log;

/// Interval at which a node checks whether it gets CPU time.
const BEAT: Duration = Duration::from_millis(20);
/// If a check is late by more than this time, the node records that it got no CPU time since the previous check.
const STARVED: Duration = Duration::from_millis(150);
/// Maximum number of simultaneous runs.
const POOL: usize = 256;
/// Time for which runs are allowed to continue after a stop request.
const DRAIN: Duration = Duration::from_millis(100);

/// The arguments of a node.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NodeArgs {
    /// The store
    #[arg(long)]
    url: String,
    /// The file for the records of the node
    #[arg(long)]
    log: PathBuf,
    /// Number of jobs
    #[arg(long)]
    jobs: usize,
    /// Number of milliseconds by which the node's wall clock is ahead; negative if the clock is behind
    #[arg(long, allow_hyphen_values = true)]
    skew: i64,
    /// The lease of the node, in milliseconds
    #[arg(long)]
    lease: u64,
    #[arg(long)]
    seed: u64,
}

/// Runs a node until it receives SIGTERM.
pub(crate) fn run(args: &NodeArgs) -> Result<()> {
    let log = Arc::new(Log::open(&args.log).expect("the history's directory can be written to"));
    beat(Arc::clone(&log));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(serve(args, log))
}

/// Runs the scheduler until the process receives SIGTERM.
async fn serve(args: &NodeArgs, log: Arc<Log>) -> Result<()> {
    fastrand::seed(args.seed);
    let mut term = signal(SignalKind::terminate()).expect("SIGTERM can be caught");
    let lease = Duration::from_millis(args.lease);
    let client = ConnectOptions::parse(&args.url)?.watchdog(lease).timeout(lease / 3).connect().await?;
    let deviation = Duration::from_millis(args.skew.unsigned_abs());
    let clock = if args.skew < 0 { Clock::system().set_back(deviation) } else { Clock::system().set_ahead(deviation) };
    let scheduler = Scheduler::over(&client).clock(clock).pool(POOL).drain(DRAIN);
    let running = scheduler.jobs((0..args.jobs).map(|job| jobs::job(job, Lines(Arc::clone(&log))))).start().await?;
    println!("ready");
    term.recv().await;
    let stopped = running.stop().await;
    client.idle().await;
    // An error is ignored: if the store does not answer, the lease of this node expires.
    drop(client.close().await);
    stopped
}

/// Starts a thread that records the times in which the process got no CPU time. The thread ends with the process.
fn beat(log: Arc<Log>) {
    thread::spawn(move || {
        loop {
            let from = now();
            thread::sleep(BEAT);
            let to = now();
            if to - from > crate::history::nanos(BEAT + STARVED) {
                log.write(&format_args!("starved {from} {to}"));
            }
        }
    });
}

fn now() -> Nanos {
    Clock::system().now().as_nanos()
}

/// Writes the start and the end of each run as lines of a file.
#[derive(Clone)]
struct Lines(Arc<Log>);

impl Witness for Lines {
    fn begins(&self, job: usize, run: &Run) {
        let store = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let (tick, attempt, id, fence) = (run.tick().millisecond(), run.attempt(), run.id(), run.fence());
        self.0.write(&format_args!("began {job} {tick} {attempt} {id} {fence} {} {store}", now()));
    }

    fn ends(&self, job: usize, run: &Run, end: End) {
        self.0.write(&format_args!("ended {job} {} {} {end:?}", run.fence(), now()));
    }
}
