//! A store that falls back to an earlier state: after a failover to a replica that lacks the latest changes.

use bandog_schedule::{OnCrash, Overlap};

use super::*;

const SHORT: Duration = Duration::from_millis(50);

// Promise: J16
#[tokio::test(start_paused = true)]
async fn a_lost_claim_is_written_again_and_its_tick_runs_once() {
    let mut cluster = Cluster::new();
    cluster.join([(every_ten("job"), SHORT)]).await;
    cluster.until(15).await;
    cluster.store.lag();
    cluster.until(25).await;
    cluster.store.fail_over();
    cluster.until(45).await;
    assert_eq!(cluster.ticks("job"), [0, 10, 20, 30, 40]);
    let row = cluster.row("job").await;
    assert_eq!((row.ok, row.missed, row.lost), (5, 0, 0), "{row:?}");
}

// Promise: J16
#[tokio::test(start_paused = true)]
async fn a_run_whose_claim_was_lost_continues_and_is_recorded() {
    let mut cluster = Cluster::new();
    for _ in 0..2 {
        cluster.join([(every_ten("job"), secs(8))]).await;
    }
    cluster.until(9).await;
    cluster.store.lag();
    cluster.until(12).await;
    cluster.store.fail_over();
    cluster.until(39).await;
    assert_eq!(cluster.ticks("job"), [0, 10, 20, 30]);
    let row = cluster.row("job").await;
    assert_eq!((row.ok, row.failed, row.lost, row.missed, row.skipped), (4, 0, 0, 0, 0), "{row:?}");
}

// Promise: J16
#[tokio::test(start_paused = true)]
async fn a_run_whose_end_was_lost_does_not_begin_again() {
    for on_crash in [OnCrash::Abandon, OnCrash::Retry] {
        let mut cluster = Cluster::new();
        for _ in 0..2 {
            cluster.join([(every_ten("job").on_crash(on_crash), secs(5))]).await;
        }
        cluster.until(12).await;
        cluster.store.lag();
        cluster.until(17).await;
        cluster.store.fail_over();
        cluster.until(39).await;
        each_once(&cluster.ticks("job"));
        let row = cluster.row("job").await;
        assert_eq!((row.lost, row.missed, row.live.len()), (0, 0, 0), "{row:?}");
        assert_eq!(
            row.ok + row.skipped,
            4,
            "the other node may have skipped a tick, because it saw the lost run as under way: {row:?}"
        );
    }
}

/// The node that made the lost claim is disconnected during the failover. Meanwhile another node continues from the
/// replica's state.
// Promise: J16
#[tokio::test(start_paused = true)]
async fn a_node_that_knows_a_later_claim_restores_it_for_the_others() {
    for overlap in [Overlap::Skip, Overlap::Allow(3.try_into().unwrap())] {
        let mut cluster = Cluster::new();
        let job = || Job::cron("job", "0/10 * * * * ?").overlap(overlap);
        cluster.join([(job(), secs(3))]).await;
        cluster.until(5).await;
        cluster.store.lag();
        cluster.until(14).await;
        cluster.cut(0);
        cluster.store.fail_over();
        // The new node finds the run of the first tick under way, and the session of its node held. It runs the second
        // tick again, because it cannot know that the tick was claimed before.
        cluster.join([(job(), secs(3))]).await;
        cluster.until(16).await;
        cluster.mend(0);
        cluster.until(45).await;
        let ticks = cluster.ticks("job");
        assert_eq!(ticks.iter().filter(|tick| **tick == 0).count(), 1, "{overlap:?} {ticks:?}");
        let after: Vec<i64> = ticks.iter().copied().filter(|tick| *tick > 10).collect();
        assert_eq!(after, [20, 30, 40], "{overlap:?} {ticks:?}");
        let row = cluster.row("job").await;
        assert_eq!(row.live.len(), 0, "{row:?}");
    }
}

/// The store falls back at many different moments, over connections that lose answers, with an outage and without one.
// Promise: J16
#[tokio::test(start_paused = true)]
async fn no_claim_runs_twice_and_every_tick_is_recorded_whenever_the_store_falls_back() {
    for seed in 0..60_u64 {
        let on_crash = if seed % 2 == 0 { OnCrash::Abandon } else { OnCrash::Retry };
        let mut cluster = Cluster::new();
        for node in 0..3 {
            time::sleep(Duration::from_millis((seed * 7 + node * 11) * 29 % 700)).await;
            cluster
                .join([(Job::fixed_rate("job", secs(1)).on_crash(on_crash), Duration::from_millis(seed * 13))])
                .await;
            cluster.nodes.last().unwrap().wire.at_random(seed * 10 + node, 0.05, Duration::from_millis(300));
        }
        cluster.until(10).await;
        time::sleep(Duration::from_millis(seed * 17 % 1000)).await;
        cluster.store.lag();
        time::sleep(Duration::from_millis(seed * 97 % 3000)).await;
        if seed % 3 == 0 {
            (0..3).for_each(|node| cluster.cut(node));
        }
        cluster.store.fail_over();
        cluster.until(18).await;
        (0..3).for_each(|node| cluster.mend(node));
        cluster.until(40).await;
        no_claim_twice(&cluster.ran("job"));
        let (row, runs) = (cluster.row("job").await, cluster.ran("job"));
        let due = u64::try_from(40 - runs[0].tick).unwrap();
        let lines = row.ok + row.skipped + row.missed + row.lost + row.queued + u64::try_from(row.live.len()).unwrap();
        assert!(lines >= due, "{seed}: {lines} of {due}: {row:?}");
        assert!(runs.iter().any(|run| run.tick >= 38), "{seed}: {runs:?}");
    }
}

// Promise: J16
#[tokio::test(start_paused = true)]
async fn a_lost_pause_is_written_again() {
    let mut cluster = Cluster::new();
    for _ in 0..2 {
        cluster.join([(every_ten("job"), SHORT)]).await;
    }
    cluster.until(12).await;
    cluster.store.lag();
    cluster.jobs().pause("job", "stocktaking").await.unwrap();
    cluster.until(15).await;
    cluster.store.fail_over();
    cluster.until(45).await;
    assert!(cluster.row("job").await.paused.is_some());
    assert_eq!(cluster.ticks("job"), [0, 10]);
}
