//! Runs a cycle in many tasks for a fixed time, and counts the cycles.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// The kind of runtime of the user's program. All figures depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Workers {
    Two,
    Current,
}

impl Workers {
    pub(crate) const ALL: [Self; 2] = [Self::Two, Self::Current];

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

/// The figures of cycles: their rate, their number, and those of the task that was served least and most.
pub(crate) fn cycles(per_second: f64, all: u64, least: u64, most: u64) -> Value {
    json!({"per_second": per_second, "cycles": all, "least": least, "most": most})
}

/// Starts this number of tasks. Each task runs one cycle after the other. `cycle` gets the number of a task, and
/// returns the function that runs one cycle of this task. Returns the figures of the cycles.
pub(crate) async fn count<C, F>(tasks: usize, span: Duration, cycle: impl Fn(usize) -> C) -> Value
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
    let (mut all, mut least, mut most) = (0, u64::MAX, 0);
    for task in running {
        let one: u64 = task.await.expect("a cycle does not panic");
        (all, least, most) = (all + one, least.min(one), most.max(one));
    }
    cycles(all as f64 / start.elapsed().as_secs_f64(), all, least, most)
}
