//! Schedulers over real stores that stop in a run: what rings, and what can be seen by then.

use std::time::Duration;

use bandog::{
    Key, Notifications,
    schedule::{Job, Jobs, OnCrash, Run, Running, Scheduler},
};
use tokio::sync::mpsc;

const SOON: Duration = Duration::from_secs(30);

/// A node with a run that ends, unfinished, when it is told to; it says which attempt begins.
async fn node(url: &str, name: &str) -> (bandog::Client, Running, mpsc::UnboundedReceiver<u32>) {
    let client = bandog::connect(url).await.unwrap();
    let (began, begins) = mpsc::unbounded_channel();
    let job = Job::once("long").on_crash(OnCrash::Retry).run(move |run: Run| {
        began.send(run.attempt()).unwrap();
        async move {
            run.cancelled().await;
            Err::<(), _>("it was told to stop")
        }
    });
    let scheduler = Scheduler::over(&client).node(name).drain(Duration::ZERO).job(job);
    (client, scheduler.start().await.unwrap(), begins)
}

async fn next(rings: &mut Notifications) {
    tokio::time::timeout(SOON, rings.next()).await.expect("a ring").unwrap();
}

async fn begins(begins: &mut mpsc::UnboundedReceiver<u32>) -> u32 {
    tokio::time::timeout(SOON, begins.recv()).await.expect("a run").unwrap()
}

/// One who looks when it rings, and at no other time, finds everything.
async fn a_stop_rings_when_all_of_it_can_be_seen(url: &str) {
    let (_client, one, mut one_begins) = node(url, "one").await;
    assert_eq!(begins(&mut one_begins).await, 1);
    let reader = bandog::connect(url).await.unwrap();
    let jobs = Jobs::over(&reader);
    let mut rings = reader.subscribe(&Key::new("schedule/board").unwrap()).unwrap();
    next(&mut rings).await; // The store listens.

    one.stop().await.unwrap();
    next(&mut rings).await;
    assert!(!reader.show("schedule/node/1").await.unwrap().is_held(), "the session has ended");
    let row = jobs.show("long").await.unwrap();
    assert_eq!((row.live.len(), row.queued), (0, 1), "{row:?}");

    let (_client, other, mut other_begins) = node(url, "other").await;
    assert_eq!(begins(&mut other_begins).await, 2, "the same run");
    assert_eq!(jobs.cancel("long", None).await.unwrap().len(), 1);
    next(&mut rings).await;
    other.stop().await.unwrap();
    next(&mut rings).await;
    let row = jobs.show("long").await.unwrap();
    assert_eq!((row.live.len(), row.queued), (0, 0), "what was cancelled is not handed over: {row:?}");
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    let server = bandog_testkit::RedisServer::start();
    a_stop_rings_when_all_of_it_can_be_seen(&server.url()).await;
}

#[cfg(all(feature = "sqlite", target_os = "linux"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    a_stop_rings_when_all_of_it_can_be_seen(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await;
}
