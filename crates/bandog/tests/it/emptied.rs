//! Schedulers over real stores that lose all their data while jobs run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog::schedule::{Job, Jobs, Run, Running, Scheduler, Time};
use bandog_testkit::eventually_async;

const PERIOD: i64 = 300;
const SOON: Duration = Duration::from_secs(30);

/// The fences under which each tick of each job ran. The key is the job's name and the tick. A tick is a time at which
/// the job is due, and a fence is the number of the lock's grant for a run.
type Ran = Arc<Mutex<BTreeMap<(String, Time), Vec<u64>>>>;

async fn node(url: &str, ran: &Ran) -> (bandog::Client, Running) {
    let client = bandog::connect(url).await.unwrap();
    let period = Duration::from_millis(PERIOD.unsigned_abs());
    let jobs = [Job::fixed_rate("tick", period), Job::once("once")].map(|job| {
        let ran = Arc::clone(ran);
        job.run(move |run: Run| {
            let tick = (run.name().to_owned(), run.tick());
            ran.lock().unwrap().entry(tick).or_default().push(run.fence().get());
            std::future::ready(())
        })
    });
    let running = Scheduler::over(&client).jobs(jobs).start().await.unwrap();
    (client, running)
}

/// The ticks of a job in their order, with their fences.
fn ticks(ran: &Ran, job: &str) -> Vec<(Time, Vec<u64>)> {
    let ran = ran.lock().unwrap();
    ran.iter().filter(|((name, _), _)| name == job).map(|((_, tick), fences)| (*tick, fences.clone())).collect()
}

async fn a_store_that_loses_its_data_makes_no_tick_run_twice(url: &str, lose: impl AsyncFnOnce()) {
    let ran = Ran::default();
    let nodes = [node(url, &ran).await, node(url, &ran).await];
    eventually_async(SOON, async || ticks(&ran, "tick").len() >= 5).await;
    lose().await;
    let before = ticks(&ran, "tick").len();
    eventually_async(SOON, async || ticks(&ran, "tick").len() >= before + 10).await;

    let jobs = Jobs::over(&nodes[0].0);
    for (_, running) in nodes {
        running.stop().await.unwrap();
    }
    assert_eq!(ticks(&ran, "once").iter().map(|(_, fences)| fences.len()).collect::<Vec<_>>(), [1]);
    let ticks = ticks(&ran, "tick");
    assert!(ticks.iter().all(|(_, fences)| fences.len() == 1), "a tick did not run exactly once: {ticks:?}");
    assert!(ticks.windows(2).all(|pair| pair[0].1 < pair[1].1), "fences must rise: {ticks:?}");

    let row = jobs.show("tick").await.unwrap();
    let watermark = row.watermark.parse::<Time>().unwrap();
    let due = (watermark.millisecond() - ticks[0].0.millisecond()) / PERIOD + 1;
    let counted = row.ok + row.missed + row.skipped + row.lost + row.failed + row.cancelled + row.queued;
    assert_eq!(i64::try_from(counted).unwrap(), due, "a tick neither ran nor is counted: {row:?}");
    assert!(row.ok >= 10 && row.missed > 0, "{row:?}");
}

// Promise: J13
#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tick_runs_twice_on_a_redis_that_is_killed_and_restarts_empty() {
    let server = bandog_testkit::RedisServer::start();
    a_store_that_loses_its_data_makes_no_tick_run_twice(&server.url(), async || {
        server.kill();
        let connected = bandog::connect(&server.url()).await;
        assert!(connected.is_err());
        server.restart();
    })
    .await;
}

// Promise: J13
#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tick_runs_twice_on_a_redis_that_is_flushed() {
    let server = bandog_testkit::RedisServer::start();
    a_store_that_loses_its_data_makes_no_tick_run_twice(&server.url(), async || {
        server.cmd(&["FLUSHALL"]);
    })
    .await;
}

// Promise: J13
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_tick_runs_twice_on_a_file_that_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    a_store_that_loses_its_data_makes_no_tick_run_twice(&url, async || {
        for ending in ["", "-wal", "-shm", "-bell"] {
            // A file can be missing, because SQLite and bandog create some of these files only when they need them.
            let _ = std::fs::remove_file(folder.path().join(format!("jobs.db{ending}")));
        }
    })
    .await;
}
