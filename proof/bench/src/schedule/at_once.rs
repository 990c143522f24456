//! 100,000 jobs of one process that are due at the same instant. For comparison (the floor), 100,000 bare tasks of
//! tokio.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use bandog::schedule::{Job, Scheduler};
use bandog_cron::Time;
use serde_json::{Value, json};
use tokio::time::{Instant as Then, sleep, sleep_until};

use crate::measure::Workers;

/// Time from the creation of the jobs until they are due.
const AHEAD: Duration = Duration::from_secs(3);
/// Number of tasks that one task starts.
const CHUNK: usize = 128;

/// The start of each job or task, in microseconds after the instant. The value is 0 until the job or task has started.
type Begun = Arc<[AtomicU64]>;

/// Runs the jobs. Returns the median delay and the delay of the last one.
pub(crate) fn jobs(number: usize) -> Value {
    Workers::Two.runtime().block_on(async {
        let (begun, due) = (not_begun(number), SystemTime::now() + AHEAD);
        // The instant is rounded to milliseconds, like the times of jobs.
        let due = SystemTime::from(Time::from(due));
        let since = move || due.elapsed().unwrap_or_default();
        let jobs = (0..number).map(|number| {
            let begun = Arc::clone(&begun);
            Job::at(format!("job-{number}"), Time::from(due)).run(move |_| {
                record_begin(&begun, number, since());
                std::future::ready(())
            })
        });
        let running = Scheduler::new().pool(number).jobs(jobs).start().await.expect("started");
        let late = wait_for_all(&begun).await;
        running.stop().await.expect("stopped");
        late
    })
}

/// The same for bare tasks. Other tasks start them, each of which starts 128 bare tasks.
pub(crate) fn tasks(number: usize) -> Value {
    Workers::Two.runtime().block_on(async {
        let (begun, due) = (not_begun(number), Then::now() + AHEAD / 10);
        let make = {
            let begun = Arc::clone(&begun);
            async move {
                sleep_until(due).await;
                let due = Instant::now();
                for chunk in 0..number.div_ceil(CHUNK) {
                    let begun = Arc::clone(&begun);
                    tokio::spawn(async move {
                        for one in (chunk * CHUNK..number).take(CHUNK) {
                            let begun = Arc::clone(&begun);
                            tokio::spawn(async move { record_begin(&begun, one, due.elapsed()) });
                        }
                    });
                }
            }
        };
        tokio::spawn(make);
        wait_for_all(&begun).await
    })
}

fn not_begun(number: usize) -> Begun {
    (0..number).map(|_| AtomicU64::new(0)).collect()
}

fn record_begin(begun: &[AtomicU64], number: usize, after: Duration) {
    begun[number].store(u64::try_from(after.as_micros()).expect("not so late").max(1), Relaxed);
}

/// Waits until all jobs or tasks have begun. It checks rarely, because a check takes CPU time away from them.
async fn wait_for_all(begun: &[AtomicU64]) -> Value {
    loop {
        sleep(Duration::from_millis(500)).await;
        let mut late: Vec<u64> = begun.iter().map(|one| one.load(Relaxed)).collect();
        if late.contains(&0) {
            continue;
        }
        late.sort_unstable();
        let [p50, last] = [late[late.len() / 2], late[late.len() - 1]].map(|micros| micros as f64 / 1e3);
        return json!({"p50_ms": p50, "last_ms": last});
    }
}
