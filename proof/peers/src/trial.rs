//! One measurement: one peer with a number of tasks, for a fixed time.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Builder, Runtime},
    time::{sleep, timeout},
};

use crate::peer::{Failure, Peer, Which};

/// Timeout for tasks to end after the stop. A task that has not ended in this time counts as stuck.
const DEADLINE: Duration = Duration::from_secs(15);

/// The result of a measurement.
pub(crate) enum Outcome {
    Ran(Run),
    /// The peer could not complete one cycle.
    Failed(String),
}

/// The figures of a measurement.
pub(crate) struct Run {
    pub(crate) per_second: f64,
    /// Number of cycles of each task.
    pub(crate) each: Vec<u64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    /// Number of tasks that did not end after the stop.
    pub(crate) stuck: usize,
}

impl Run {
    /// Number of tasks that did not complete a cycle.
    pub(crate) fn starved(&self) -> usize {
        self.each.iter().filter(|cycles| **cycles == 0).count()
    }
}

/// Measures one peer. This thread measures the time, because a peer can block the threads of the runtime.
pub(crate) fn trial(which: Which, url: &str, tasks: usize, span: Duration) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts");
    let outcome = match runtime.block_on(async { timeout(DEADLINE, begin(which, url.to_owned())).await }) {
        Ok(Ok(peer)) => Outcome::Ran(race(&runtime, &Arc::new(peer), tasks, span)),
        Ok(Err(error)) => Outcome::Failed(error.to_string()),
        Err(_) => Outcome::Failed(format!("no first cycle within {DEADLINE:?}")),
    };
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}

/// Connects, and locks once, so that the measurement does not contain the cost of the first lock.
async fn begin(which: Which, url: String) -> Result<Peer, Failure> {
    // This is a task, as in a user's program: the thread that calls `block_on` is not a worker of the runtime.
    let beginning = tokio::spawn(async move {
        let peer = Peer::connect(which, &url).await?;
        peer.cycle().await?;
        Ok(peer)
    });
    beginning.await?
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    errors: AtomicU64,
    first_error: Mutex<Option<String>>,
}

/// Runs the tasks for this time, and counts their cycles.
fn race(runtime: &Runtime, peer: &Arc<Peer>, tasks: usize, span: Duration) -> Run {
    let shared = Arc::new(Shared::default());
    let start = Instant::now();
    let mut running = Vec::with_capacity(tasks);
    let mut counts = Vec::with_capacity(tasks);
    for _ in 0..tasks {
        let count = Arc::new(AtomicU64::new(0));
        counts.push(Arc::clone(&count));
        running.push(runtime.spawn(work(Arc::clone(peer), Arc::clone(&shared), count)));
    }
    thread::sleep(span);
    shared.stop.store(true, Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    let each: Vec<u64> = counts.iter().map(|count| count.load(Relaxed)).collect();

    let give_up = Instant::now() + DEADLINE;
    while running.iter().any(|task| !task.is_finished()) && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(1));
    }
    let (mut stuck, mut panicked) = (0, 0);
    for task in running {
        if !task.is_finished() {
            task.abort();
            stuck += 1;
        } else if runtime.block_on(task).is_err() {
            panicked += 1;
        }
    }
    let mut first_error = shared.first_error.lock().unwrap_or_else(PoisonError::into_inner).take();
    if panicked > 0 {
        first_error.get_or_insert_with(|| format!("{panicked} tasks panicked"));
    }
    let errors = shared.errors.load(Relaxed) + panicked;
    let all: u64 = each.iter().sum();
    Run { per_second: all as f64 / seconds, each, errors, first_error, stuck }
}

async fn work(peer: Arc<Peer>, shared: Arc<Shared>, count: Arc<AtomicU64>) {
    while !shared.stop.load(Relaxed) {
        let Err(error) = peer.cycle().await else {
            count.fetch_add(1, Relaxed);
            continue;
        };
        shared.errors.fetch_add(1, Relaxed);
        shared.first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.to_string());
        // A user would also retry, but not in a tight loop.
        sleep(Duration::from_millis(10)).await;
    }
}
