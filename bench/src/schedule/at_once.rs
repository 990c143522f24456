//! 100,000 jobs of one process that are due at the same instant; and as the floor, 100,000 bare tasks of tokio.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use bandog::schedule::{Job, Scheduler};
use bandog_cron::Time;
use tokio::{
    runtime::Builder,
    time::{Instant as Then, sleep, sleep_until},
};

/// Time from the creation of the jobs until they are due.
const AHEAD: Duration = Duration::from_secs(3);
/// Number of tasks that one task starts.
const CHUNK: usize = 128;

/// The start of each job or task, in microseconds after the instant; 0 before its start.
type Begun = Arc<[AtomicU64]>;

/// Runs the jobs. Returns the median delay and the maximum delay, in milliseconds.
pub(crate) fn jobs(number: usize) -> [f64; 2] {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let (begun, due) = (none(number), SystemTime::now() + AHEAD);
        // Rounded to milliseconds, as the times of jobs are.
        let due = SystemTime::from(Time::from(due));
        let since = move || due.elapsed().unwrap_or_default();
        let jobs = (0..number).map(|number| {
            let begun = Arc::clone(&begun);
            Job::at(format!("job-{number}"), Time::from(due)).run(move |_| {
                begins(&begun, number, since());
                std::future::ready(())
            })
        });
        let running = Scheduler::new().pool(number).jobs(jobs).start().await.expect("started");
        let late = all(&begun).await;
        running.stop().await.expect("stopped");
        late
    })
}

/// The same for bare tasks. They are started by tasks that start 128 of them each.
pub(crate) fn tasks(number: usize) -> [f64; 2] {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let (begun, due) = (none(number), Then::now() + AHEAD / 10);
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
                            tokio::spawn(async move { begins(&begun, one, due.elapsed()) });
                        }
                    });
                }
            }
        };
        tokio::spawn(make);
        all(&begun).await
    })
}

fn none(number: usize) -> Begun {
    (0..number).map(|_| AtomicU64::new(0)).collect()
}

fn begins(begun: &[AtomicU64], number: usize, after: Duration) {
    begun[number].store(u64::try_from(after.as_micros()).expect("not so late").max(1), Relaxed);
}

/// Waits until all have begun. It checks rarely, because a check takes CPU time from them.
async fn all(begun: &[AtomicU64]) -> [f64; 2] {
    loop {
        sleep(Duration::from_millis(500)).await;
        let mut late: Vec<u64> = begun.iter().map(|one| one.load(Relaxed)).collect();
        if late.contains(&0) {
            continue;
        }
        late.sort_unstable();
        return [late[late.len() / 2], late[late.len() - 1]].map(|micros| micros as f64 / 1e3);
    }
}
