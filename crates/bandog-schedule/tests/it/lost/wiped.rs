//! A store that loses all of its data while nodes run.

use bandog_core::{Key, Records, Swap, Swapped};
use bandog_schedule::{Job, OnCrash, Overlap};

use bandog_testkit::LogCapture;

use super::*;

const SHORT: Duration = Duration::from_millis(50);

// Promise: J13
#[tokio::test(start_paused = true)]
async fn a_loss_while_no_run_is_under_way_loses_no_tick() {
    let mut cluster = Cluster::new();
    for _ in 0..2 {
        cluster.join([(every_ten("job"), SHORT)]).await;
    }
    cluster.until(33).await;
    let (before, era) = (cluster.row("job").await, cluster.era().await.unwrap());
    cluster.store.wipe();
    cluster.until(65).await;
    let row = cluster.row("job").await;
    assert_eq!(cluster.ticks("job"), [0, 10, 20, 30, 40, 50, 60]);
    assert_eq!((before.ok, row.ok, row.missed, row.lost, row.failed), (4, 7, 0, 0, 0));
    assert!(cluster.ran("job").windows(2).all(|pair| pair[0].fence < pair[1].fence));
    assert_ne!(cluster.era().await.unwrap(), era);
}

// Promise: J13
#[tokio::test(start_paused = true)]
async fn ticks_that_may_have_run_are_missed_with_the_reason() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let mut cluster = Cluster::new();
    for _ in 0..3 {
        cluster.join([(every_ten("job"), SHORT)]).await;
    }
    cluster.until(13).await;
    (0..3).for_each(|node| cluster.cut(node));
    cluster.store.wipe();
    cluster.until(54).await;
    (0..3).for_each(|node| cluster.mend(node));
    cluster.until(75).await;
    assert_eq!(cluster.ticks("job"), [0, 10, 60, 70]);
    let lines = log.lines_with("ticks");
    let is_it =
        |line: &&String| line.starts_with("WARN message=ticks may have run or not") && line.contains("ticks=4 ");
    assert_eq!(lines.iter().filter(is_it).count(), 1, "{lines:?}");
    let missed = cluster.rows_in_state("job", State::Missed).await;
    assert_eq!(missed.len(), 1, "one of the three nodes recorded them: {missed:?}");
    assert_eq!(cluster.range(&missed[0]), (20, 50, 4));
    assert!(missed[0].error.as_deref().unwrap().contains("lost the job's record"), "{missed:?}");
    let row = cluster.row("job").await;
    assert_eq!((row.ok, row.missed, row.skipped), (4, 4, 0));
}

// Promise: J14
#[tokio::test(start_paused = true)]
async fn a_run_under_way_is_lost_or_runs_again_and_its_node_gets_a_new_session() {
    for (on_crash, attempts, lost) in [(OnCrash::Abandon, vec![1], 1), (OnCrash::Retry, vec![1, 2], 0)] {
        let mut cluster = Cluster::new();
        for _ in 0..2 {
            cluster.join([(every_ten("job").on_crash(on_crash), secs(6))]).await;
        }
        cluster.until(12).await;
        cluster.store.wipe();
        cluster.until(49).await;
        let runs = cluster.ran("job");
        let of_ten: Vec<u32> = runs.iter().filter(|run| run.tick == 10).map(|run| run.attempt).collect();
        assert_eq!(of_ten, attempts, "{on_crash:?}: {runs:?}");
        assert!(runs.windows(2).all(|pair| pair[0].fence < pair[1].fence), "{runs:?}");
        let row = cluster.row("job").await;
        assert_eq!((row.lost, row.live.len()), (lost, 0), "{on_crash:?}: {row:?}");
        assert_eq!(cluster.ticks("job").into_iter().filter(|tick| *tick >= 30).collect::<Vec<_>>(), [30, 40]);
        assert_eq!(row.ok + row.skipped + row.missed + row.lost, 5, "{row:?}");
        assert!(!cluster.jobs().nodes().await.unwrap().is_empty());
    }
}

// Promise: J14
#[tokio::test(start_paused = true)]
async fn a_session_that_the_store_lost_is_claimed_again_within_a_poll() {
    let mut cluster = Cluster::new();
    cluster.join([(every_ten("job"), SHORT)]).await;
    // Just after a renewal of the session, and long before the next renewal.
    cluster.until(17).await;
    cluster.store.wipe();
    cluster.until(25).await;
    let runs = cluster.ran("job");
    assert_eq!(runs.last().map(|run| (run.tick, run.at)), Some((20, 20)), "{runs:?}");
}

// Promise: J13
#[tokio::test(start_paused = true)]
async fn a_job_with_one_tick_does_not_fire_again_and_a_future_tick_still_fires() {
    let mut cluster = Cluster::new();
    let at = Time::from_millisecond((cluster.start + 60) * 1000);
    for _ in 0..2 {
        let later = Job::once("later").initial_delay(secs(40));
        let jobs = [Job::once("first"), later, Job::at("at", at)];
        cluster.join(jobs.map(|job| (job, SHORT))).await;
    }
    cluster.until(20).await;
    cluster.store.wipe();
    cluster.until(120).await;
    assert_eq!((cluster.ticks("first"), cluster.ticks("later")), (vec![0], vec![40]));
    assert_eq!(cluster.ticks("at"), [60]);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_rate_keeps_its_grid_and_a_fixed_delay_continues() {
    let mut cluster = Cluster::new();
    cluster.until(3).await;
    for _ in 0..2 {
        let jobs = [Job::fixed_rate("rate", secs(7)), Job::fixed_delay("delay", secs(9))];
        cluster.join(jobs.map(|job| (job, SHORT))).await;
    }
    cluster.until(20).await;
    cluster.store.wipe();
    cluster.until(60).await;
    assert_eq!(cluster.ticks("rate"), [3, 10, 17, 24, 31, 38, 45, 52, 59]);
    let delays = cluster.ticks("delay");
    assert!(delays.windows(2).all(|pair| (9..=11).contains(&(pair[1] - pair[0]))), "{delays:?}");
}

// Promise: J13
#[tokio::test(start_paused = true)]
async fn a_paused_job_stays_paused_and_its_ticks_are_skipped() {
    let mut cluster = Cluster::new();
    for _ in 0..2 {
        cluster.join([(every_ten("job"), SHORT)]).await;
    }
    cluster.until(12).await;
    cluster.jobs().pause("job", "stocktaking").await.unwrap();
    cluster.until(25).await;
    cluster.store.wipe();
    cluster.until(45).await;
    let row = cluster.row("job").await;
    assert_eq!(row.paused.map(|paused| paused.reason).as_deref(), Some("stocktaking"));
    assert!(cluster.jobs().resume("job").await.unwrap());
    cluster.until(65).await;
    assert_eq!(cluster.ticks("job"), [0, 10, 50, 60]);
    let row = cluster.row("job").await;
    assert_eq!((row.skipped, row.missed), (3, 0));
}

// Promise: J14
#[tokio::test(start_paused = true)]
async fn queued_runs_are_recorded_as_lost_or_run() {
    for (on_crash, lost) in [(OnCrash::Abandon, 4), (OnCrash::Retry, 0)] {
        let mut cluster = Cluster::new();
        let job = || Job::cron("job", "0 0 * * * ?").overlap(Overlap::Queue(10.try_into().unwrap())).on_crash(on_crash);
        cluster.join([(job(), secs(5))]).await;
        cluster.until(1).await;
        for _ in 0..3 {
            cluster.jobs().run("job").await.unwrap();
        }
        cluster.until(3).await;
        cluster.store.wipe();
        cluster.until(60).await;
        let row = cluster.row("job").await;
        assert_eq!((row.queued, row.live.len(), row.lost), (0, 0, lost), "{on_crash:?} {row:?}");
        assert_eq!(row.ok, 4 - lost, "{row:?}");
    }
}

// Promise: J13
#[tokio::test(start_paused = true)]
async fn nodes_that_race_restore_a_job_once() {
    for at in 0..40_u64 {
        let mut cluster = Cluster::new();
        for node in 0..3 {
            // The nodes poll at different times. So each node is the first to notice the loss in some rounds, also
            // after another node has claimed a tick.
            time::sleep(Duration::from_millis((at * 7 + node * 11) * 29 % 700)).await;
            cluster.join((0..5).map(|nth| (every_ten(&format!("job-{nth}")), SHORT))).await;
        }
        cluster.until(20).await;
        time::sleep(Duration::from_millis(at * 27)).await;
        cluster.store.wipe();
        cluster.until(65).await;
        for job in (0..5).map(|nth| format!("job-{nth}")) {
            each_once(&cluster.ticks(&job));
            no_claim_twice(&cluster.ran(&job));
            let row = cluster.row(&job).await;
            let first = cluster.ticks(&job)[0] / 10;
            let due = 7 - u64::try_from(first).unwrap();
            assert_eq!(row.ok + row.missed + row.skipped + row.lost, due, "after {at}: {row:?}");
            assert!(row.ok >= due - 1, "after {at}: {row:?}");
        }
    }
}

// Promise: J13
#[tokio::test(start_paused = true)]
async fn a_wire_that_loses_answers_makes_no_tick_run_twice_when_the_store_is_emptied() {
    for seed in 0..20 {
        let mut cluster = Cluster::new();
        for node in 0..3_u64 {
            cluster.join([(Job::fixed_rate("job", Duration::from_millis(1000)), SHORT)]).await;
            let late = Duration::from_millis(300);
            cluster.nodes.last().unwrap().wire.at_random(seed * 10 + node, 0.1, late);
        }
        cluster.until(10).await;
        time::sleep(Duration::from_millis(seed * 49)).await;
        cluster.store.wipe();
        cluster.until(40).await;
        let ticks = cluster.ticks("job");
        each_once(&ticks);
        assert!(ticks.len() > 25, "{seed}: {ticks:?}");
    }
}

// Promise: J15
#[tokio::test(start_paused = true)]
async fn a_restarted_node_gets_the_state_that_others_remember() {
    let mut cluster = Cluster::new();
    let jobs = || [every_ten("job"), every_ten("paused"), Job::once("once")].map(|job| (job, SHORT));
    cluster.join(jobs()).await;
    cluster.until(12).await;
    cluster.jobs().pause("paused", "stocktaking").await.unwrap();
    cluster.until(15).await;
    cluster.cut(0);
    cluster.store.wipe();
    cluster.until(45).await;
    cluster.join(jobs()).await;
    cluster.until(54).await;
    let row = cluster.row("job").await;
    assert_eq!((row.ok, row.missed), (1, 0), "the new node does not know the earlier runs");
    cluster.mend(0);
    cluster.until(75).await;
    assert_eq!(cluster.ticks("job"), [0, 10, 50, 60, 70]);
    let (row, missed) = (cluster.row("job").await, cluster.rows_in_state("job", State::Missed).await);
    assert_eq!((row.ok, row.missed), (5, 3), "{row:?}");
    assert_eq!(missed.iter().map(|row| cluster.range(row)).collect::<Vec<_>>(), [(20, 40, 3)]);
    let row = cluster.row("paused").await;
    assert_eq!(row.paused.map(|paused| paused.reason).as_deref(), Some("stocktaking"));
    assert_eq!((row.skipped, row.missed), (3, 0), "20, 30 and 40; the new node ran 50");
    assert_eq!(cluster.ticks("paused"), [0, 10, 50]);
    // The new node ran the job again at 45 s, because it could not know that the job had run before.
    assert_eq!(cluster.ticks("once"), [0, 45]);
    assert_eq!(cluster.row("once").await.ok, 2);
}

// Promise: J17
#[tokio::test(start_paused = true)]
async fn a_job_that_an_operator_forgot_is_new_again() {
    let mut cluster = Cluster::new();
    for _ in 0..2 {
        cluster.join([every_ten("job"), Job::once("once")].map(|job| (job, SHORT))).await;
    }
    cluster.until(25).await;
    let era = cluster.era().await;
    cluster.jobs().forget("job").await.unwrap();
    cluster.jobs().forget("once").await.unwrap();
    cluster.until(45).await;
    assert_eq!(cluster.ticks("job"), [0, 10, 20, 30, 40]);
    assert_eq!(cluster.ticks("once").len(), 2);
    let row = cluster.row("job").await;
    assert_eq!((row.ok, row.missed), (2, 0), "{row:?}");
    assert_eq!(cluster.era().await, era, "commands and news do not change the era");
}

#[tokio::test(start_paused = true)]
async fn a_board_of_an_older_version_gets_an_era_and_nothing_was_lost() {
    let mut cluster = Cluster::new();
    cluster.join([(every_ten("job"), SHORT)]).await;
    cluster.until(15).await;
    let (board, era) = (Key::new("schedule/board").unwrap(), cluster.era().await);
    let mut from = None;
    while let Swapped::Differs(Some(record)) =
        cluster.store.swap(&[Swap::new(board.clone(), from, "")]).await.unwrap().each.remove(0).unwrap()
    {
        from = Some(record.version);
    }
    cluster.jobs().forget("job").await.unwrap();
    cluster.until(35).await;
    assert_eq!(cluster.era().await, era);
    assert_eq!((cluster.row("job").await.ok, cluster.row("job").await.missed), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_board_alone_changes_nothing_and_jobs_can_be_forgotten_after_it() {
    let mut cluster = Cluster::new();
    for _ in 0..2 {
        cluster.join([every_ten("job"), Job::once("once")].map(|job| (job, SHORT))).await;
    }
    cluster.until(15).await;
    let board = Key::new("schedule/board").unwrap();
    let mut from = None;
    while let Swapped::Differs(Some(record)) = {
        let swap = Swap { to: None, ..Swap::new(board.clone(), from, "") };
        cluster.store.swap(&[swap]).await.unwrap().each.remove(0).unwrap()
    } {
        from = Some(record.version);
    }
    cluster.until(35).await;
    let row = cluster.row("job").await;
    assert_eq!((cluster.ticks("job").len(), row.ok, row.missed), (4, 4, 0), "{row:?}");
    cluster.jobs().forget("once").await.unwrap();
    cluster.until(45).await;
    assert_eq!(cluster.ticks("once").len(), 2, "the job is new after it was forgotten, so it runs once more");
    assert_eq!(cluster.row("job").await.ok, 5);
}

#[tokio::test(start_paused = true)]
async fn pauses_of_all_jobs_and_of_nodes_are_restored() {
    let mut cluster = Cluster::new();
    for _ in 0..2 {
        cluster.join([(every_ten("job"), SHORT)]).await;
    }
    cluster.until(13).await;
    cluster.jobs().pause_all("the moon").await.unwrap();
    cluster.jobs().pause_node("node-0", "a new disk").await.unwrap();
    cluster.until(25).await;
    let before = cluster.jobs().pauses().await.unwrap();
    cluster.store.wipe();
    cluster.until(45).await;
    assert_eq!(cluster.ticks("job"), [0, 10]);
    assert_eq!(cluster.jobs().pauses().await.unwrap(), before);
    assert!(cluster.row("job").await.all_paused.is_some());
    // A node that starts later finds the restored pauses.
    cluster.join([(every_ten("new"), SHORT)]).await;
    cluster.until(65).await;
    assert_eq!(cluster.ticks("new"), [0; 0]);
    assert!(cluster.jobs().resume_all().await.unwrap());
    cluster.until(105).await;
    let ran = cluster.ran("job");
    assert!(ran[2..].iter().all(|run| run.node == 1), "the other node is still paused: {ran:?}");
    assert_eq!(cluster.ticks("job")[2..], [70, 80, 90, 100]);
}
