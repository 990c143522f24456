//! Clients and schedulers on a Redis Cluster.
#![cfg(feature = "redis")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog::schedule::{Job, Jobs, Run, Scheduler};
use bandog_testkit::{RedisCluster, eventually_async};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_run_each_tick_once_on_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    for prefix in ["", "?prefix=shop:", "?prefix={shop}:"] {
        let url = format!("{}{prefix}", cluster.url());
        let ran = Arc::new(Mutex::new(BTreeMap::<(String, String), u32>::new()));
        let mut nodes = Vec::new();
        for _ in 0..2 {
            let client = bandog::connect(&url).await.unwrap();
            let jobs = ["a", "b"].map(|name| {
                let ran = ran.clone();
                Job::fixed_rate(name, Duration::from_millis(300)).run(move |run: Run| {
                    *ran.lock().unwrap().entry((run.name().into(), run.tick().to_string())).or_default() += 1;
                    std::future::ready(())
                })
            });
            let running = Scheduler::over(&client).jobs(jobs).start().await.unwrap();
            nodes.push((client, running));
        }
        eventually_async(SOON, async || ran.lock().unwrap().len() >= 12).await;
        let jobs = Jobs::over(&nodes[0].0);
        assert_eq!(jobs.list(&bandog::Pattern::all()).await.unwrap().len(), 2, "{prefix}");
        assert!(jobs.show("a").await.unwrap().ok >= 3, "{prefix}");
        for (_, running) in nodes {
            running.stop().await.unwrap();
        }
        let ran = ran.lock().unwrap();
        assert!(ran.values().all(|times| *times == 1), "{prefix}: {ran:?}");
    }
    // All records of one prefix are on one node.
    let with_records = cluster.iter().map(|node| {
        let keys = node.keys();
        ["bandog:records:{/}", "bandog:records:{shop:/}", "bandog:records:{shop}"].map(|key| keys.contains(&key.into()))
    });
    let with_records: Vec<_> = with_records.collect();
    for index in 0..3 {
        assert_eq!(with_records.iter().filter(|has| has[index]).count(), 1, "{with_records:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elections_barriers_and_latches_work_on_a_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let client = bandog::connect(cluster.url()).await.unwrap();
    let other = bandog::connect(cluster.url()).await.unwrap();
    let latch = client.latch("start");
    assert!(latch.set(1).await.unwrap());
    let waiting = tokio::spawn(async move { other.latch("start").wait().await.map(|()| other) });
    latch.count_down().await.unwrap();
    let other = waiting.await.unwrap().unwrap();
    let barriers = [&client, &other].map(|client| client.barrier("phase", 2));
    let [one, two] = barriers;
    let (one, two) = tokio::join!(one.wait(), two.wait());
    assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
}
