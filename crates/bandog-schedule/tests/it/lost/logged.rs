//! A loss of data is logged as one error.

use bandog_conformance::wrap::Delayed;
use bandog_testkit::LogCapture;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_store_that_lost_its_data_is_logged_once_by_each_node() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let mut cluster = Cluster::new();
    for _ in 0..2 {
        cluster.join((0..5).map(|nth| (every_ten(&format!("job-{nth}")), secs(1)))).await;
    }
    cluster.until(25).await;
    assert!(log.lines_with("ERROR").is_empty(), "{:?}", log.lines_with("ERROR"));
    cluster.store.wipe();
    cluster.until(65).await;
    let lines = log.lines_with("the store has lost its data");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("ERROR") && line.contains("jobs=5")), "{lines:?}");
    assert!(log.lines_with("fell back").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fell_back_is_logged_once_for_all_jobs() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let mut cluster = Cluster::new();
    cluster.join((0..5).map(|nth| (every_ten(&format!("job-{nth}")), secs(1)))).await;
    cluster.until(15).await;
    cluster.store.lag();
    cluster.until(25).await;
    assert!(log.lines_with("ERROR").is_empty(), "{:?}", log.lines_with("ERROR"));
    cluster.store.fail_over();
    cluster.until(55).await;
    let lines = log.lines_with("fell back to an earlier state");
    assert!(lines.len() == 1 && lines[0].starts_with("ERROR"), "{lines:?}");
    assert!(log.lines_with("lost its data").is_empty());
}

/// Nodes race, answers are lost and runs are interrupted, but the store loses no data.
#[tokio::test(start_paused = true)]
async fn a_store_that_loses_nothing_is_not_logged() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    for seed in 0..20 {
        let mut cluster = Cluster::new();
        for node in 0..3 {
            let jobs = (0..5).map(|nth| Job::fixed_rate(format!("job-{nth}"), Duration::from_millis(300)));
            cluster.join(jobs.map(|job| (job, Duration::from_millis(20)))).await;
            cluster.nodes.last().unwrap().wire.at_random(seed * 10 + node, 0.1, Duration::from_millis(700));
        }
        cluster.until(15).await;
    }
    let lines = log.lines_with("ERROR");
    let lines: Vec<_> = lines.iter().filter(|line| !line.contains("lost its session")).collect();
    assert!(lines.is_empty(), "{lines:?}");
}

/// A record is read while it is swapped, and the answer to the read comes after the answer to the swap. So the read
/// shows an older version, although the store has lost nothing.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_not_taken_for_an_older_state() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let store = Store::new(Clock::tokio());
    let clients = [1, 2].map(|seed| {
        let wire = Delayed::new(store.clone(), seed, Duration::from_millis(1), Duration::from_millis(80));
        client(wire)
    });
    let mut nodes = Vec::new();
    for client in &clients {
        let job = Job::fixed_rate("job", Duration::from_millis(70)).run(async |_: Run| ());
        nodes.push(Scheduler::over(client).job(job).start().await.unwrap());
    }
    let jobs = Jobs::over(&client(store));
    for _ in 0..200 {
        // A command makes all nodes read.
        jobs.run("job").await.unwrap();
        time::sleep(Duration::from_millis(370)).await;
    }
    assert!(log.lines_with("ERROR").is_empty(), "{:?}", log.lines_with("ERROR"));
    assert!(log.lines_with("registers it again").is_empty());
}
