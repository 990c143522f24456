//! Runs a cycle in many tasks for a fixed time, and counts the cycles.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::runtime::{Builder, Runtime};

/// The kind of runtime of the user's program. All figures depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workers {
    Two,
    Current,
}

impl Workers {
    pub(crate) fn runtime(self) -> Runtime {
        let mut builder = match self {
            Self::Two => Builder::new_multi_thread(),
            Self::Current => Builder::new_current_thread(),
        };
        builder.worker_threads(2).enable_all().build().expect("a runtime starts")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Two => "2 workers",
            Self::Current => "current_thread",
        }
    }
}

/// The number of cycles.
pub(crate) struct Counted {
    pub(crate) per_second: f64,
    /// Number of cycles of each task.
    pub(crate) each: Vec<u64>,
}

/// Starts this number of tasks. Each task runs one cycle after the other. `cycle` gets the number of a task, and
/// returns the function that runs one cycle of this task.
pub(crate) async fn count<C, F>(tasks: usize, span: Duration, cycle: impl Fn(usize) -> C) -> Counted
where
    C: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send,
{
    let stop = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|number| {
            let (stop, cycle) = (Arc::clone(&stop), cycle(number));
            tokio::spawn(async move {
                let mut cycles = 0;
                while !stop.load(Relaxed) {
                    cycle().await;
                    cycles += 1;
                }
                cycles
            })
        })
        .collect();
    tokio::time::sleep(span).await;
    stop.store(true, Relaxed);
    let mut each = Vec::with_capacity(tasks);
    for task in running {
        each.push(task.await.expect("a cycle does not panic"));
    }
    let all: u64 = each.iter().sum();
    Counted { per_second: all as f64 / start.elapsed().as_secs_f64(), each }
}
