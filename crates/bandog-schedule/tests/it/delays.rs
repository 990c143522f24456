//! Fixed delays, together with runs by hand and with outages of the store.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_schedule::{Job, Kind, OnCrash, Overlap, Run, RunRow, Scope, State, StoreDown, TestScheduler};
use tokio::time;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A job with a fixed delay of a minute that runs without the store, too (`FailOpen`).
fn delay() -> Job {
    Job::fixed_delay("delay", secs(60)).store_down(StoreDown::FailOpen)
}

fn at(time: Option<&String>) -> i64 {
    time.unwrap().parse::<bandog_cron::Time>().unwrap().millisecond()
}

/// Runs of the job that have started, the latest first.
async fn begun(test: &TestScheduler) -> Vec<RunRow> {
    let mut history = test.jobs().history("delay").await.unwrap();
    history.retain(|run| run.started.is_some());
    history
}

/// Checks that each run starts at least this time after the end of the run before it.
fn assert_pauses(history: &[RunRow], least: Duration) {
    let ticks = history.iter().zip(&history[1..]).filter(|(later, _)| later.kind != Kind::Manual && later.attempt == 1);
    for (later, run) in ticks {
        let pause = at(later.started.as_ref()) - at(run.ended.as_ref());
        assert!(pause >= i64::try_from(least.as_millis()).unwrap(), "{pause} ms: {later:?} after {run:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_moves_the_next_tick_whatever_the_overlap() {
    let two = NonZeroU32::new(2).unwrap();
    for overlap in [Overlap::Skip, Overlap::Queue(two), Overlap::Allow(two), Overlap::Replace] {
        let jobs = || vec![Job::fixed_delay("delay", secs(60)).overlap(overlap).run(|_: Run| time::sleep(secs(100)))];
        let test = TestScheduler::at("2026-01-01T00:00:00Z").pool(4).start(jobs).await.unwrap();
        test.advance(secs(110)).await;
        // The run by hand takes longer than the time until the next tick.
        test.jobs().run("delay").await.unwrap();
        test.advance(secs(1600)).await;
        let row = test.jobs().show("delay").await.unwrap();
        assert_eq!((row.ok, row.failed, row.skipped), (11, 0, 0), "{overlap:?}");
        assert_pauses(&begun(&test).await, secs(60));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_delay_that_fails_open_goes_on_without_the_store_and_with_it() {
    let jobs = || vec![delay().run(async |_: Run| time::sleep(secs(1)).await)];
    let test = TestScheduler::at("2026-01-01T00:00:30Z").start(jobs).await.unwrap();
    test.advance_to("2026-01-01T00:05:00Z").await;
    let before = test.runs().len();
    test.cut(0);
    test.advance_to("2026-01-01T01:05:00Z").await;
    let alone = test.runs().iter().filter(|run| run.kind == Kind::Unclaimed).count();
    assert!((57..=59).contains(&alone), "{alone} in an hour");
    test.mend(0);
    test.advance_to("2026-01-01T01:15:00Z").await;
    let row = test.jobs().show("delay").await.unwrap();
    assert!(usize::try_from(row.ok).unwrap() >= before + alone + 8, "{row:?}");
}

/// The end of the claimed run is written to the store long after the job has run again.
#[tokio::test(start_paused = true)]
async fn a_fixed_delay_that_fails_open_goes_on_after_a_claimed_run_that_ended_without_the_store() {
    // Runs that end within their lease, and runs that the outage interrupts.
    let ways = [
        (10, OnCrash::Abandon, 49..=51, false),
        (100, OnCrash::Abandon, 21..=23, true),
        (100, OnCrash::Retry, 21..=23, true),
    ];
    for (takes, on_crash, alone, is_cut) in ways {
        let count = Arc::new(AtomicUsize::new(0));
        let jobs = || {
            let count = Arc::clone(&count);
            let run = move |_: Run| {
                count.fetch_add(1, Relaxed);
                time::sleep(secs(takes))
            };
            vec![delay().on_crash(on_crash).run(run)]
        };
        let test = TestScheduler::at("2026-01-01T00:00:00Z").lease(secs(30)).start(jobs).await.unwrap();
        while count.load(Relaxed) < 2 {
            test.advance(secs(1)).await;
        }
        test.cut(0);
        test.advance(secs(3600)).await;
        let more = count.load(Relaxed) - 2;
        assert!(alone.contains(&more), "{more} in an hour");
        test.mend(0);
        test.advance(secs(600)).await;
        let history = begun(&test).await;
        let cut = history.iter().find(|run| run.state == State::Lost);
        assert_eq!((cut.is_some(), cut.is_none_or(|run| run.id == 2)), (is_cut, true));
        assert_pauses(&history, secs(60));
        let again = history.iter().filter(|run| run.attempt == 2).count();
        assert_eq!(again, usize::from(on_crash == OnCrash::Retry));
        let row = test.jobs().show("delay").await.unwrap();
        assert!(row.failed == 0 && usize::try_from(row.ok).unwrap() > 1 + more + 2, "{row:?}");
    }
}

/// Replica A is disconnected from 00:00:40 to 00:03:20. It has an unclaimed run from 00:01:01 to 00:06:01. Replica B
/// has a claimed run from 00:01:10 to 00:11:10, which A sees after its reconnection.
async fn one_beside_another(overlap: Overlap) -> TestScheduler {
    let jobs = || {
        let run = |run: Run| {
            let is_first = run.tick().to_string() == "2026-01-01T00:00:00Z";
            time::sleep(secs(if is_first {
                1
            } else if run.kind() == Kind::Unclaimed {
                300
            } else {
                600
            }))
        };
        vec![delay().overlap(overlap).run(run)]
    };
    let setting = TestScheduler::at("2026-01-01T00:00:00Z").replicas(2).pool(4).lease(secs(30));
    let test = setting.start(jobs).await.unwrap();
    test.advance(secs(40)).await;
    test.cut(0);
    test.advance(secs(160)).await;
    test.mend(0);
    test.advance(secs(60)).await;
    assert_eq!(test.runs().len(), 3);
    test
}

#[tokio::test(start_paused = true)]
async fn an_unclaimed_run_starts_no_delay_while_a_claimed_one_runs() {
    let two = NonZeroU32::new(2).unwrap();
    for overlap in [Overlap::Skip, Overlap::Queue(two), Overlap::Allow(two), Overlap::Replace] {
        let test = one_beside_another(overlap).await;
        test.advance_to("2026-01-01T00:12:00Z").await;
        let row = test.jobs().show("delay").await.unwrap();
        assert_eq!((row.ok, row.failed, row.skipped), (3, 0, 0), "{overlap:?}");
        assert_eq!(test.runs().len(), 3, "{overlap:?}");
        test.advance_to("2026-01-01T00:13:00Z").await;
        assert_eq!(test.runs().len(), 4, "{overlap:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_without_the_store_waits_for_a_run_of_another_that_it_knows() {
    let test = one_beside_another(Overlap::Skip).await;
    test.cut(0);
    test.advance_to("2026-01-01T00:11:00Z").await;
    assert_eq!(test.runs().len(), 3, "{:?}", test.runs().last());
}

/// Replica A is disconnected. Its unclaimed runs end before the claimed run of replica B, but are recorded later.
#[tokio::test(start_paused = true)]
async fn an_end_that_is_recorded_late_brings_no_tick_forward() {
    let jobs = || vec![delay().run(|run: Run| time::sleep(secs(if run.kind() == Kind::Unclaimed { 10 } else { 25 })))];
    let setting = TestScheduler::at("2026-01-01T00:00:00Z").replicas(2).lease(secs(30));
    let test = setting.start(jobs).await.unwrap();
    test.advance(secs(40)).await;
    test.cut(0);
    test.advance(secs(430)).await;
    test.mend(0);
    test.advance(secs(300)).await;
    let mut claimed = begun(&test).await;
    claimed.retain(|run| run.kind == Kind::Scheduled);
    assert!(claimed.len() > 5);
    assert_pauses(&claimed, secs(60));
}

/// The tick is queued in the record, because the pool is full. A slot becomes free only after the store has gone down.
#[tokio::test(start_paused = true)]
async fn a_tick_that_waits_for_a_slot_runs_when_the_store_goes_down() {
    let jobs = || {
        let delay = Job::fixed_delay("delay", secs(5)).store_down(StoreDown::FailOpen);
        let hog = Job::cron("hog", "12 0 0 * * ?").scope(Scope::EachNode).run(|_: Run| time::sleep(secs(100)));
        vec![delay.run(|_: Run| time::sleep(secs(10))), hog]
    };
    let test = TestScheduler::at("2026-01-01T00:00:00Z").lease(secs(300)).start(jobs).await.unwrap();
    test.advance(secs(8)).await;
    test.cut(0);
    test.advance(secs(22)).await;
    test.mend(0);
    test.advance(secs(30)).await;
    test.cut(0);
    test.advance(secs(3600)).await;
    assert!(test.ticks("delay").len() > 200, "{:?}", test.ticks("delay"));
    test.mend(0);
    test.advance(secs(60)).await;
    let history = begun(&test).await;
    assert_pauses(&history, secs(5));
    assert!(
        history.iter().all(|run| run.kind != Kind::Scheduled || run.tick != "2026-01-01T00:00:15Z"),
        "the queued tick ran unclaimed, so it does not run again"
    );
}

/// Another job has the only slot of the pool for longer than the misfire grace.
#[tokio::test(start_paused = true)]
async fn a_fixed_delay_is_never_missed_without_the_store() {
    let jobs = || {
        let hog = Job::cron("hog", "0 2 0 * * ?").store_down(StoreDown::FailOpen);
        vec![delay().run(|_: Run| time::sleep(secs(10))), hog.run(|_: Run| time::sleep(secs(300)))]
    };
    let test = TestScheduler::at("2026-01-01T00:00:00Z").lease(secs(30)).start(jobs).await.unwrap();
    test.advance(secs(75)).await;
    test.cut(0);
    test.advance(secs(3600)).await;
    assert!(test.ticks("delay").len() > 40, "{:?}", test.ticks("delay"));
}

#[tokio::test(start_paused = true)]
async fn a_run_by_hand_that_waited_for_the_store_is_followed_by_a_pause() {
    for idle in [20, 40] {
        let jobs = || vec![delay().run(|_: Run| time::sleep(secs(30)))];
        let test = TestScheduler::at("2026-01-01T00:00:00Z").pool(4).lease(secs(30)).start(jobs).await.unwrap();
        test.advance(secs(idle)).await;
        test.cut(0);
        test.advance(secs(220 - idle)).await;
        test.jobs().run("delay").await.unwrap();
        test.mend(0);
        test.advance(secs(300)).await;
        let history = begun(&test).await;
        assert!([Kind::Manual, Kind::Unclaimed].iter().all(|kind| history.iter().any(|run| run.kind == *kind)));
        assert_pauses(&history, secs(60));
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_delay_counts_from_the_end_and_not_from_the_outages() {
    let delay = || Job::fixed_delay("delay", secs(3600)).store_down(StoreDown::FailOpen);
    let jobs = || vec![delay().run(|_: Run| time::sleep(secs(1)))];
    let test = TestScheduler::at("2026-01-01T00:00:00Z").lease(secs(30)).start(jobs).await.unwrap();
    test.advance_to("2026-01-01T00:30:00Z").await;
    test.cut(0);
    test.advance_to("2026-01-01T01:50:00Z").await;
    test.mend(0);
    test.advance_to("2026-01-01T01:51:00Z").await;
    let next = test.jobs().show("delay").await.unwrap().next.unwrap();
    assert!(next.starts_with("2026-01-01T02:00:0"), "{next}");
}
