//! Ticks that start late, on a virtual clock: they wait for a slot, for a node, or while their job is redefined.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::{Clock, Memory};
use bandog_schedule::{CatchUp, Job, Kind, Overlap, Run, Scheduler, Scope, State, TestScheduler};
use bandog_sync::Client;
use bandog_testkit::LogCapture;
use tokio::time;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn mins(mins: u64) -> Duration {
    secs(60 * mins)
}

/// A job that occupies the pool from 02:00 to 04:04.
fn long() -> Job {
    Job::cron("long", "0 0 2 * * ?").run(async |_: Run| time::sleep(mins(124)).await)
}

fn cron(name: &str, expression: &str) -> Job {
    Job::cron(name, expression).run(async |_: Run| ())
}

/// The start of each run of this job, with its tick and its kind.
fn runs(test: &TestScheduler, job: &str) -> Vec<(String, String, Kind)> {
    let of_job = |run: &bandog_schedule::TestRun| {
        let minute = |time: bandog_schedule::Time| time.to_string()[11..16].to_owned();
        (run.job == job).then(|| (minute(run.tick), minute(run.began), run.kind))
    };
    test.runs().iter().filter_map(of_job).collect()
}

fn run(tick: &str, began: &str, kind: Kind) -> (String, String, Kind) {
    (tick.to_owned(), began.to_owned(), kind)
}

// Promise: J20
#[tokio::test(start_paused = true)]
async fn a_tick_that_waits_for_a_slot_is_late_whatever_its_window_is() {
    for catch_up in [CatchUp::Skip, CatchUp::Once] {
        let (log, _guard) = LogCapture::of_thread("bandog");
        let jobs = || vec![long(), cron("report", "0 30 2 * * ?").catch_up(catch_up)];
        let test = TestScheduler::at("2026-01-01T01:59:00Z").start(jobs).await.unwrap();
        test.advance_to("2026-01-01T04:10:00Z").await;
        assert_eq!(runs(&test, "report"), [run("02:30", "04:04", Kind::Scheduled)]);
        let row = test.jobs().show("report").await.unwrap();
        assert_eq!((row.ok, row.missed, row.skipped), (1, 0, 0), "{row:?}");
        assert_eq!(log.lines_with("the job waits for a slot").len(), 1);
        let waited = log.lines_with("the job gets a slot of the pool");
        assert!(waited.len() == 1 && waited[0].contains("1h 34m"), "{waited:?}");
        test.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_slot_that_another_node_ends_gets_no_slot() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let store = Memory::new(Clock::tokio());
    let client = || Client::options().clock(Clock::tokio()).on_current_runtime().over(store.clone()).unwrap();
    let [full, free] = [client(), client()];
    // One slot, which this job occupies for 15 s.
    let long = Job::once("long").scope(Scope::EachNode).run(async |_: Run| time::sleep(secs(15)).await);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let report = |node: &'static str| {
        let ran = Arc::clone(&ran);
        Job::fixed_rate("report", mins(60)).initial_delay(secs(2)).run(move |_: Run| {
            ran.lock().unwrap().push(node);
            std::future::ready(())
        })
    };
    let full = Scheduler::over(&full).jobs([long, report("full")]).start().await.unwrap();
    time::sleep(secs(1)).await;
    let free = Scheduler::over(&free).job(report("free")).start().await.unwrap();
    time::sleep(secs(30)).await;
    assert_eq!(*ran.lock().unwrap(), ["free"]);
    assert_eq!(log.lines_with("the job waits for a slot").len(), 1);
    assert_eq!(log.lines_with("the job gets a slot of the pool"), [""; 0]);
    full.stop().await.unwrap();
    free.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_the_ticks_that_pile_up_for_a_slot_as_many_run_as_the_overlap_policy_allows() {
    let jobs = || {
        let queue = Overlap::Queue(3.try_into().unwrap());
        vec![long(), cron("skip", "0 0/10 * * * ?"), cron("queue", "0 0/10 * * * ?").overlap(queue)]
    };
    let test = TestScheduler::at("2026-01-01T01:59:50Z").start(jobs).await.unwrap();
    test.advance_to("2026-01-01T04:09:00Z").await;
    let latest = runs(&test, "skip");
    assert!(latest.ends_with(&[run("04:00", "04:04", Kind::Scheduled)]), "{latest:?}");
    let queued = runs(&test, "queue");
    assert!(queued.len() <= 3 + 1 && queued.iter().filter(|(_, began, _)| began == "04:04").count() == 3, "{queued:?}");
    for job in ["skip", "queue"] {
        let row = test.jobs().show(job).await.unwrap();
        assert_eq!(
            (row.ok + row.skipped, row.missed, row.queued),
            (13, 0, 0),
            "each tick from 02:00 to 04:00: {row:?}"
        );
    }
}

// Promise: J20
#[tokio::test(start_paused = true)]
async fn a_tick_that_waits_for_a_slot_survives_the_death_and_the_stop_of_its_node() {
    for (after, is_crash) in [(10, true), (10, false), (120, true), (120, false)] {
        let jobs = || vec![long(), cron("report", "0 30 2 * * ?").catch_up(CatchUp::Skip).misfire_grace(secs(100))];
        let mut test = TestScheduler::at("2026-01-01T01:59:00Z").start(jobs).await.unwrap();
        test.advance_to("2026-01-01T02:30:00Z").await;
        test.advance(secs(after)).await;
        assert_eq!(runs(&test, "report"), []);
        if is_crash {
            test.crash(0);
        } else {
            test.stop_one(0, Duration::ZERO).await.unwrap();
        }
        test.join(vec![cron("report", "0 30 2 * * ?").catch_up(CatchUp::Skip).misfire_grace(secs(100))]).await.unwrap();
        test.advance(mins(1)).await;
        let ticks: Vec<_> = test.ticks("report");
        assert_eq!(ticks, ["2026-01-01T02:30:00Z"], "after {after} s, crash: {is_crash}");
    }
}

// Promise: J20
#[tokio::test(start_paused = true)]
async fn another_node_with_a_free_slot_runs_a_tick_that_waits_here() {
    let mut test =
        TestScheduler::at("2026-01-01T01:59:00Z").start(|| vec![long(), cron("report", "0 30 2 * * ?")]).await.unwrap();
    test.advance_to("2026-01-01T03:50:00Z").await;
    assert_eq!(runs(&test, "report"), []);
    test.join(vec![cron("report", "0 30 2 * * ?")]).await.unwrap();
    test.advance(secs(5)).await;
    assert_eq!(runs(&test, "report"), [run("02:30", "03:50", Kind::Scheduled)], "an hour and twenty minutes late");
}

// Promise: J3
#[tokio::test(start_paused = true)]
async fn a_tick_that_waits_runs_once_though_another_node_changes_the_expression() {
    for expression in ["0 30 2,5 * * ?", "0 45 2 * * ?"] {
        for after in [5, 300] {
            let jobs = || vec![long(), cron("report", "0 30 2 * * ?")];
            let mut test = TestScheduler::at("2026-01-01T01:59:00Z").start(jobs).await.unwrap();
            test.advance_to("2026-01-01T02:30:00Z").await;
            test.advance(secs(after)).await;
            test.join(vec![cron("report", expression)]).await.unwrap();
            test.advance(secs(1)).await;
            assert_eq!(test.ticks("report"), ["2026-01-01T02:30:00Z"], "{expression} after {after} s");
            test.advance_to("2026-01-01T04:10:00Z").await;
            let row = test.jobs().show("report").await.unwrap();
            let ok = if expression.contains("45") { 2 } else { 1 };
            assert_eq!((row.ok, row.missed, row.skipped), (ok, 0, 0), "{expression} after {after} s: {row:?}");
        }
    }
}

// Promise: J3
#[tokio::test(start_paused = true)]
async fn a_gap_with_a_changed_expression_leaves_the_same_records_as_one_without() {
    for (catch_up, expression, caught) in [
        (CatchUp::Once, "0 0/10 * * * ?", 1),
        (CatchUp::Once, "0 5/10 * * * ?", 1),
        (CatchUp::Skip, "0 0/10 * * * ?", 0),
        (CatchUp::Skip, "0 5/10 * * * ?", 0),
    ] {
        let (log, _guard) = LogCapture::of_thread("bandog");
        let job = |expression: &str| vec![cron("tick", expression).catch_up(catch_up)];
        let mut test = TestScheduler::at("2026-01-01T00:59:00Z").start(|| job("0 0/10 * * * ?")).await.unwrap();
        test.advance_to("2026-01-01T01:01:00Z").await;
        test.crash(0);
        test.advance_to("2026-01-01T03:02:30Z").await;
        test.join(job(expression)).await.unwrap();
        test.advance(secs(2)).await;
        let row = test.jobs().show("tick").await.unwrap();
        assert_eq!((row.ok, row.missed), (1 + caught, 12 - caught), "{expression} {catch_up}: {row:?}");
        let history = test.jobs().history("tick").await.unwrap();
        let missed: u64 = history.iter().filter(|run| run.state == State::Missed).map(|run| run.ticks).sum();
        assert_eq!(missed, 12 - caught, "{history:?}");
        assert_eq!(log.lines_with("ticks were missed").len(), 1, "{expression} {catch_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn ticks_of_a_pause_are_skipped_and_not_run_when_the_expression_changes() {
    let mut test =
        TestScheduler::at("2026-01-01T00:59:00Z").start(|| vec![cron("tick", "0 0/10 * * * ?")]).await.unwrap();
    test.advance_to("2026-01-01T01:01:00Z").await;
    test.jobs().pause("tick", "stock").await.unwrap();
    test.advance_to("2026-01-01T01:35:00Z").await;
    test.stop_one(0, Duration::ZERO).await.unwrap();
    test.join(vec![cron("tick", "0 7/10 * * * ?")]).await.unwrap();
    test.advance_to("2026-01-01T01:58:00Z").await;
    test.jobs().resume("tick").await.unwrap();
    test.advance(secs(35)).await;
    let row = test.jobs().show("tick").await.unwrap();
    assert_eq!((row.ok, row.skipped, row.missed), (1, 3 + 3, 0), "{row:?}");
}

// Promise: J21
#[tokio::test(start_paused = true)]
async fn a_fixed_delay_that_no_node_ran_is_overdue_and_runs_at_the_start() {
    let job = || {
        let job = Job::fixed_delay("tidy", secs(8)).misfire_grace(secs(1)).catch_up(CatchUp::Skip);
        vec![job.run(async |_: Run| ())]
    };
    let mut test = TestScheduler::at("2026-01-01T00:00:00Z").start(job).await.unwrap();
    for nth in 0..3 {
        test.advance(secs(5)).await;
        test.crash(nth);
        test.advance(secs(6)).await;
        test.join(job()).await.unwrap();
    }
    test.advance(secs(1)).await;
    let began: Vec<_> = test.runs().iter().map(|run| run.began.to_string()[17..19].to_owned()).collect();
    assert_eq!(began, ["00", "11", "22", "33"]);
    assert_eq!(test.jobs().show("tidy").await.unwrap().missed, 0);
    test.crash(3);
    test.advance(mins(60 * 24)).await;
    test.join(job()).await.unwrap();
    test.advance(secs(1)).await;
    assert_eq!(test.runs().len(), 5, "a day is longer than the window");
}

// Promise: J21
#[tokio::test(start_paused = true)]
async fn an_initial_delay_and_a_single_run_that_no_node_was_alive_for_are_overdue() {
    let jobs = || {
        let delay = Job::fixed_delay("tidy", mins(600)).initial_delay(mins(10)).catch_up(CatchUp::Skip);
        let once = Job::once("setup").initial_delay(mins(10)).catch_up(CatchUp::Skip);
        vec![delay.run(async |_: Run| ()), once.run(async |_: Run| ())]
    };
    let mut test = TestScheduler::at("2026-01-01T00:00:00Z").start(jobs).await.unwrap();
    test.advance(mins(1)).await;
    test.crash(0);
    test.advance(mins(300)).await;
    test.join(jobs()).await.unwrap();
    test.advance(secs(1)).await;
    for job in ["tidy", "setup"] {
        assert_eq!(test.ticks(job), ["2026-01-01T00:10:00Z"]);
    }
}

// Promise: J21
#[tokio::test(start_paused = true)]
async fn a_changed_delay_counts_from_the_end_of_the_last_run() {
    let job = |delay| vec![Job::fixed_delay("tidy", delay).run(async |_: Run| time::sleep(secs(30)).await)];
    let mut test = TestScheduler::at("2026-01-01T00:00:00Z").start(|| job(mins(60 * 24))).await.unwrap();
    test.advance_to("2026-01-01T00:10:00Z").await;
    test.stop_one(0, Duration::ZERO).await.unwrap();
    test.join(job(secs(60))).await.unwrap();
    test.advance(secs(1)).await;
    assert_eq!(runs(&test, "tidy")[1..], [run("00:10", "00:10", Kind::Scheduled)], "it is overdue");
    test.advance_to("2026-01-01T00:11:00Z").await;
    test.stop_one(1, Duration::ZERO).await.unwrap();
    test.join(job(mins(15))).await.unwrap();
    test.advance_to("2026-01-01T00:25:00Z").await;
    assert_eq!(runs(&test, "tidy").len(), 2, "the longer delay counts from the same end");
    test.advance_to("2026-01-01T00:26:00Z").await;
    assert_eq!(runs(&test, "tidy")[2..], [run("00:25", "00:25", Kind::Scheduled)]);
}

// Promise: J21
#[tokio::test(start_paused = true)]
async fn a_run_that_an_older_replica_ends_is_followed_by_the_new_delay() {
    let job = |delay| vec![Job::fixed_delay("tidy", delay).run(async |_: Run| time::sleep(secs(30)).await)];
    let mut test = TestScheduler::at("2026-01-01T00:00:00Z").start(|| job(mins(60 * 24))).await.unwrap();
    test.advance(secs(10)).await;
    test.join(job(mins(2))).await.unwrap();
    test.stop_one(0, mins(1)).await.unwrap();
    test.advance_to("2026-01-01T00:03:00Z").await;
    assert_eq!(runs(&test, "tidy")[1..], [run("00:02", "00:02", Kind::Scheduled)]);
}

#[tokio::test(start_paused = true)]
async fn after_a_gap_catch_up_once_is_one_run() {
    let job = || vec![cron("tick", "0 0 * * * ?").window(mins(60 * 5))];
    let mut test = TestScheduler::at("2026-01-01T00:59:00Z").start(job).await.unwrap();
    test.advance_to("2026-01-01T01:01:00Z").await;
    test.crash(0);
    test.advance_to("2026-01-01T04:00:20Z").await;
    test.join(job()).await.unwrap();
    test.advance(secs(1)).await;
    assert_eq!(runs(&test, "tick")[1..], [run("04:00", "04:00", Kind::Scheduled)]);
    assert_eq!(test.jobs().show("tick").await.unwrap().missed, 2);
    test.crash(1);
    test.advance_to("2026-01-01T06:30:00Z").await;
    test.join(job()).await.unwrap();
    test.advance(secs(1)).await;
    assert_eq!(runs(&test, "tick")[2..], [run("06:00", "06:30", Kind::CatchUp)]);
}

// Promise: J25
#[tokio::test(start_paused = true)]
async fn a_dead_node_costs_a_frequent_job_fewer_ticks() {
    let explicit = || Job::fixed_rate("explicit", secs(5)).lease(secs(60));
    let jobs = || {
        let frequent = [
            Job::fixed_rate("rate", secs(5)),
            Job::fixed_delay("delay", secs(29)),
            Job::cron("cron", "0/5 * 9-17 * * ?"),
        ];
        let rare =
            [Job::fixed_rate("rarely", secs(30)), Job::cron("daily", "0 0 2 * * ?"), Job::once("once"), explicit()];
        let long = Job::cron("long", "0/5 * * * * ?").run(async |_: Run| time::sleep(mins(1)).await);
        let quick = frequent.into_iter().chain(rare).map(|job| job.run(async |_: Run| ()));
        quick.chain([long]).collect::<Vec<_>>()
    };
    let setting = TestScheduler::at("2026-01-01T00:00:01Z").replicas(2).pool(9).lease(secs(30));
    let mut test = setting.start(jobs).await.unwrap();
    let leases =
        [("rate", 10), ("delay", 10), ("cron", 10), ("rarely", 30), ("daily", 30), ("once", 30), ("explicit", 60)];
    for (job, lease) in leases {
        assert_eq!(test.jobs().show(job).await.unwrap().lease_ms, lease * 1000, "{job}");
    }
    test.advance(secs(30)).await;
    let killed = test.runs().iter().find(|run| run.job == "long").unwrap().replica;
    test.crash(killed);
    test.advance(secs(10 + 30 + 5)).await;
    let lost = test.jobs().show("long").await.unwrap();
    let next = test.runs().iter().rev().find(|run| run.job == "long").unwrap().clone();
    assert_eq!((lost.lost, next.replica), (1, 1 - killed), "within the lease, a poll of the test and a period");
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_in_the_history_after_the_first_tick_that_it_skips() {
    let jobs = || vec![cron("tick", "0 0 * * * ?"), cron("other", "0 0 * * * ?")];
    let test = TestScheduler::at("2026-01-01T00:30:00Z").replicas(2).start(jobs).await.unwrap();
    test.jobs().pause("tick", "stock").await.unwrap();
    test.jobs().pause_all("flood").await.unwrap();
    test.advance_to("2026-01-01T03:30:00Z").await;
    for (job, reason) in [("tick", "stock"), ("other", "flood")] {
        let history = test.jobs().history(job).await.unwrap();
        assert_eq!((history.len(), history[0].state, &*history[0].tick), (1, State::Skipped, "2026-01-01T01:00:00Z"));
        let note = history[0].note.clone().unwrap();
        assert!(note.starts_with("paused by ") && note.contains(reason), "{note}");
    }
    test.jobs().resume_all().await.unwrap();
    test.jobs().resume("tick").await.unwrap();
    for job in ["tick", "other"] {
        let row = test.jobs().show(job).await.unwrap();
        assert_eq!((row.skipped, row.ok), (3, 0), "{row:?}");
        assert_eq!(test.jobs().history(job).await.unwrap().len(), 2);
    }
    test.advance_to("2026-01-01T04:01:00Z").await;
    assert_eq!(test.runs().len(), 2);
}
