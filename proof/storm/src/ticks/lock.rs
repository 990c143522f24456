//! A named lock instead of a scheduler, in virtual time. Each node has a timer on its own wall clock. When the timer
//! fires, the node tries to take the lock. A node that gets the lock runs the job, and keeps the lock for a minimum
//! time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bandog::{
    Client, Mutex,
    backend::{Clock, Memory},
};
use tokio::time::{self, Instant};

/// Interval between two ticks.
const PERIOD: Duration = Duration::from_secs(10);
/// Duration of a run.
const BODY: Duration = Duration::from_millis(50);
/// The lock's fixed lease.
const LEASE: Duration = Duration::from_secs(60);

/// The result of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) ticks: u64,
    /// Number of runs that repeated a tick. The first run of a tick does not count.
    pub(crate) duplicates: u64,
    /// Number of ticks without a run.
    pub(crate) lost: u64,
}

/// Runs the nodes. The clocks of the nodes are wrong by up to `skew`. Each holder keeps the lock for at least `min`. In
/// one of 500 cases, a timer fires up to five minutes late.
pub(crate) fn run(nodes: u32, ticks: u64, skew: Duration, min: Duration, seed: u64) -> Outcome {
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let store = Memory::new(Clock::tokio());
        // Number of runs of each tick.
        let ran = Arc::new(std::sync::Mutex::new(HashMap::<u64, u64>::new()));
        let begin = Instant::now() + PERIOD * 30;
        let mut timers = Vec::new();
        for node in 0..nodes {
            let client = Client::options().clock(Clock::tokio()).on_current_runtime().over(store.clone());
            let lock = client.expect("this code runs in a runtime").mutex("report").lease(LEASE);
            // The clocks of two nodes have the maximum difference. The deviations of the other clocks are random.
            let behind = match node {
                0 => Duration::ZERO,
                1 => skew * 2,
                _ => (skew * 2).mul_f64(fastrand::f64()),
            };
            let ran = Arc::clone(&ran);
            timers.push(tokio::spawn(async move { run_timer(&lock, begin + behind, ticks, min, &ran).await }));
        }
        for timer in timers {
            timer.await.expect("a timer does not panic");
        }
        let ran = ran.lock().expect("no task panicked");
        let duplicates = ran.values().map(|runs| runs - 1).sum();
        Outcome { ticks, duplicates, lost: ticks - ran.len() as u64 }
    })
}

/// Runs the timer of one node. `ran` counts the runs of each tick.
async fn run_timer(lock: &Mutex, begin: Instant, ticks: u64, min: Duration, ran: &std::sync::Mutex<HashMap<u64, u64>>) {
    for tick in 0..ticks {
        let due = begin + PERIOD * u32::try_from(tick).expect("some thousand ticks");
        if due < Instant::now() {
            // The node was late, and this tick was due in the meantime. So the timer skips this tick.
            continue;
        }
        let late =
            if fastrand::u32(..500) == 0 { Duration::from_millis(fastrand::u64(..300_000)) } else { Duration::ZERO };
        time::sleep_until(due + late).await;
        let Ok(Some(guard)) = lock.try_lock().await else { continue };
        *ran.lock().expect("no task panicked").entry(tick).or_default() += 1;
        time::sleep(BODY.max(min)).await;
        // The lease is longer than the run, so the lock is still held.
        drop(guard.release().await);
    }
}
