//! Schedulers that stop during a run, over real stores: which notifications they send, and what a reader of the store
//! sees after each notification.

use std::time::Duration;

use bandog::{
    Key,
    backend::Notifications,
    schedule::{Job, Jobs, OnCrash, Run, Running, Scheduler},
};
use tokio::sync::mpsc;

const SOON: Duration = Duration::from_secs(30);

/// Starts a node with a job whose run ends with an error when it is cancelled. The receiver gets the number of each
/// attempt when the attempt begins.
async fn node(url: &str, name: &str) -> (bandog::Client, Running, mpsc::UnboundedReceiver<u32>) {
    let client = bandog::connect(url).await.unwrap();
    let (began, begins) = mpsc::unbounded_channel();
    let job = Job::once("long").on_crash(OnCrash::Retry).run(move |run: Run| {
        began.send(run.attempt()).unwrap();
        async move {
            run.cancelled().await;
            Err::<(), _>("the run was cancelled")
        }
    });
    let scheduler = Scheduler::over(&client).node(name).drain(Duration::ZERO).job(job);
    (client, scheduler.start().await.unwrap(), begins)
}

async fn next(notifications: &mut Notifications) {
    tokio::time::timeout(SOON, notifications.next()).await.expect("a notification").unwrap();
}

async fn begins(begins: &mut mpsc::UnboundedReceiver<u32>) -> u32 {
    tokio::time::timeout(SOON, begins.recv()).await.expect("a run").unwrap()
}

/// A node that stops notifies only after all its changes are in the store. So a reader that reads the store after each
/// notification, and at no other time, sees every change.
async fn a_stop_notifies_after_all_its_changes_are_in_the_store(url: &str) {
    let (_client, one, mut one_begins) = node(url, "one").await;
    assert_eq!(begins(&mut one_begins).await, 1);
    let reader = bandog::connect(url).await.unwrap();
    let jobs = Jobs::over(&reader);
    // The board is a record. Nodes change it after other changes, and so notify all readers.
    let mut notifications = reader.records().subscribe(&Key::new("schedule/board").unwrap()).unwrap();
    next(&mut notifications).await; // The subscription is active.

    one.stop().await.unwrap();
    next(&mut notifications).await;
    assert!(!reader.show("schedule/node/1").await.unwrap().is_held(), "the session of the stopped node has not ended");
    let row = jobs.show("long").await.unwrap();
    assert_eq!((row.live.len(), row.queued), (0, 1), "{row:?}");

    let (_client, other, mut other_begins) = node(url, "other").await;
    assert_eq!(begins(&mut other_begins).await, 2, "the second attempt of the same run");
    assert_eq!(jobs.cancel("long", None).await.unwrap().len(), 1);
    next(&mut notifications).await;
    other.stop().await.unwrap();
    next(&mut notifications).await;
    let row = jobs.show("long").await.unwrap();
    assert_eq!((row.live.len(), row.queued), (0, 0), "the cancelled run was handed over: {row:?}");
}

// Promise: J5
#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_a_stop_notifies_after_all_its_changes_are_in_the_store() {
    let server = bandog_testkit::RedisServer::start();
    a_stop_notifies_after_all_its_changes_are_in_the_store(&server.url()).await;
}

// Promise: J5
#[cfg(all(feature = "sqlite", target_os = "linux"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_a_stop_notifies_after_all_its_changes_are_in_the_store() {
    let folder = tempfile::tempdir().unwrap();
    a_stop_notifies_after_all_its_changes_are_in_the_store(&format!(
        "sqlite:{}",
        folder.path().join("jobs.db").display()
    ))
    .await;
}
