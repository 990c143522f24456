//! Whole clusters on a virtual clock.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_schedule::{CatchUp, Job, Kind, OnCrash, Overlap, Run, State, StoreDown, TestScheduler};
use bandog_testkit::LogCapture;
use tokio::time;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

// Promise: J1
#[tokio::test(start_paused = true)]
async fn no_skew_makes_a_tick_run_twice_or_early() {
    let job = || Job::cron("tick", "0/10 * * * * ?").run(async |_: Run| time::sleep(Duration::from_millis(50)).await);
    let test =
        TestScheduler::at("2026-01-01T00:00:00Z").replicas(5).skew([90, -90, 2, -15, 0]).start(|| vec![job()]).await;
    let test = test.unwrap();
    test.advance_to("2026-01-01T01:00:00Z").await;
    let runs = test.runs();
    let mut by_tick = BTreeMap::<_, Vec<_>>::new();
    runs.iter().for_each(|run| by_tick.entry(run.tick).or_default().push(run));
    assert_eq!(by_tick.len(), 361);
    assert!(by_tick.values().all(|runs| runs.len() == 1));
    assert!(runs.iter().all(|run| run.began >= run.tick && run.began.millisecond() - run.tick.millisecond() < 100));
    let replicas: std::collections::BTreeSet<_> = runs.iter().map(|run| run.replica).collect();
    assert!(!replicas.is_empty());
    test.stop().await.unwrap();
}

// Promise: J5
#[tokio::test(start_paused = true)]
async fn a_crashed_replicas_run_is_taken_over_within_the_lease_and_a_poll() {
    let job = || {
        Job::cron("long", "0 0 * * * ?").on_crash(OnCrash::Retry).lease(secs(10)).run(async |run: Run| {
            if run.attempt() == 1 {
                time::sleep(secs(600)).await;
            }
        })
    };
    let mut test = TestScheduler::at("2026-01-01T00:59:00Z").replicas(2).start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T01:00:05Z").await;
    let first = test.runs()[0].clone();
    test.crash(first.replica);
    test.advance(secs(45)).await;
    let runs = test.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!((runs[1].tick, runs[1].attempt), (first.tick, 2));
    assert_ne!(runs[1].replica, first.replica);
    let after = runs[1].began.millisecond() - first.began.millisecond();
    assert!(
        (10_000..=5_000 + 10_000 + 31_000).contains(&after),
        "not before the lease has expired, and at most one poll later: {after} ms"
    );
    let history = test.jobs().history("long").await.unwrap();
    let lines: Vec<_> = history.iter().map(|run| (run.state, run.attempt)).collect();
    assert_eq!(lines, [(State::Ok, 2), (State::Lost, 1)], "{history:?}");
}

// Promise: J19
#[tokio::test(start_paused = true)]
async fn a_job_that_kills_every_replica_is_abandoned_after_five_deaths() {
    let job = || {
        let job = Job::cron("poison", "0 0 * * * ?").on_crash(OnCrash::Retry).lease(secs(10));
        vec![job.run(async |_: Run| time::sleep(secs(3000)).await)]
    };
    let mut test = TestScheduler::at("2026-01-01T00:59:00Z").replicas(2).start(job).await.unwrap();
    test.advance_to("2026-01-01T01:00:05Z").await;
    for death in 1..=5 {
        let runs = test.runs();
        assert_eq!((runs.len(), runs.last().unwrap().attempt), (death, u32::try_from(death).unwrap()));
        test.crash(runs.last().unwrap().replica);
        test.join(job()).await.unwrap();
        test.advance(secs(45)).await;
    }
    assert_eq!(test.runs().len(), 5, "{:?}", test.runs());
    let (row, history) = (test.jobs().show("poison").await.unwrap(), test.jobs().history("poison").await.unwrap());
    assert_eq!((row.lost, row.queued, row.live.len(), history.len()), (1, 0, 0, 5), "{row:?}");
    assert!(history.iter().all(|run| run.state == State::Lost), "{history:?}");
    assert!(history[0].error.as_deref().unwrap().contains("death 5 of 5, the run is given up"), "{history:?}");
    test.advance_to("2026-01-01T02:00:05Z").await;
    assert_eq!(test.runs().len(), 6, "its next tick runs");
}

// Promise: J5
#[tokio::test(start_paused = true)]
async fn an_abandoned_run_is_recorded_as_lost_and_the_next_tick_runs() {
    let job = || Job::cron("long", "0 0/10 * * * ?").lease(secs(10)).run(async |_: Run| time::sleep(secs(120)).await);
    let mut test = TestScheduler::at("2026-01-01T00:59:00Z").replicas(2).start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T01:00:05Z").await;
    test.crash(test.runs()[0].replica);
    test.advance_to("2026-01-01T01:15:00Z").await;
    assert_eq!(test.ticks("long"), ["2026-01-01T01:00:00Z", "2026-01-01T01:10:00Z"]);
    let row = test.jobs().show("long").await.unwrap();
    assert_eq!((row.ok, row.lost), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_single_replica_that_lost_its_session_goes_on_with_the_next_tick() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let job = move || {
        let begun = Arc::clone(&counted);
        Job::cron("long", "0/30 * * * * ?").lease(secs(10)).run(move |_: Run| {
            begun.fetch_add(1, Relaxed);
            time::sleep(secs(20))
        })
    };
    let test = TestScheduler::at("2026-01-01T00:00:10Z").start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T00:00:35Z").await;
    assert_eq!(begun.load(Relaxed), 1);
    assert!(test.evict_session(1).await.unwrap());
    test.advance_to("2026-01-01T00:02:35Z").await;
    let row = test.jobs().show("long").await.unwrap();
    assert_eq!(row.lost, 1, "{row:?}");
    assert!(row.ok >= 2, "{row:?}");
}

// Promise: J3
#[tokio::test(start_paused = true)]
async fn an_outage_of_all_replicas_is_caught_up_by_policy() {
    for (catch_up, caught) in [(CatchUp::Skip, 0), (CatchUp::Once, 0), (CatchUp::All(3.try_into().unwrap()), 3)] {
        let job = || {
            let job = Job::cron("tick", "0 * * * * ?").catch_up(catch_up);
            job.overlap(Overlap::Queue(100.try_into().unwrap())).run(async |_: Run| ())
        };
        let mut test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![job()]).await.unwrap();
        test.advance_to("2026-01-01T00:02:30Z").await;
        test.crash(0);
        test.advance_to("2026-01-01T00:30:30Z").await;
        test.join(vec![job()]).await.unwrap();
        test.advance(secs(1)).await;
        let runs = test.runs();
        let kinds: Vec<Kind> = runs.iter().skip(2).map(|run| run.kind).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == Kind::CatchUp).count(), caught, "{runs:?}");
        assert_eq!(
            kinds.len(),
            caught + 1,
            "the caught-up ticks, and the tick of half a minute ago, which is in time: {runs:?}"
        );
        let row = test.jobs().show("tick").await.unwrap();
        assert_eq!(row.missed, 27 - u64::try_from(caught).unwrap());
    }
}

// Promise: J12
#[tokio::test(start_paused = true)]
async fn a_fixed_rate_does_not_drift() {
    let job = || Job::fixed_rate("rate", Duration::from_millis(7)).run(async |_: Run| ());
    let test = TestScheduler::at("2026-01-01T00:00:00Z").start(|| vec![job()]).await.unwrap();
    test.advance(secs(70)).await;
    let runs = test.runs();
    assert!(runs.len() >= 10_000, "{}", runs.len());
    let first = runs[0].tick.millisecond();
    for (nth, run) in runs.iter().enumerate() {
        assert_eq!(run.tick.millisecond() - first, 7 * i64::try_from(nth).unwrap());
        assert!(run.began.millisecond() - run.tick.millisecond() <= 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lower_revision_claims_nothing() {
    let job = |revision| Job::cron("tick", "0 * * * * ?").revision(revision).run(async |_: Run| ());
    let mut test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![job(1)]).await.unwrap();
    test.advance_to("2026-01-01T00:02:30Z").await;
    test.join(vec![job(2)]).await.unwrap();
    test.advance_to("2026-01-01T00:10:30Z").await;
    let runs = test.runs();
    assert_eq!(runs.len(), 10, "each tick once");
    assert!(runs.iter().skip(2).all(|run| run.replica == 1), "{runs:?}");
}

#[tokio::test(start_paused = true)]
async fn replicas_with_different_settings_of_a_job_both_log_it() {
    let (log, _guard) = LogCapture::of_thread("bandog");
    let job = |seconds: &str, revision| {
        Job::cron("tick", format!("{seconds} * * * * ?")).revision(revision).run(async |_: Run| ())
    };
    let lines = || (log.lines_with("the job has changed"), log.lines_with("another replica has changed the job"));
    let mut test = TestScheduler::at("2026-01-01T00:00:15Z").start(|| vec![job("0", 1)]).await.unwrap();
    test.join(vec![job("0", 1)]).await.unwrap();
    test.advance_to("2026-01-01T00:02:15Z").await;
    assert_eq!(lines(), (vec![], vec![]), "their settings are equal");
    test.join(vec![job("30", 1)]).await.unwrap();
    test.advance_to("2026-01-01T00:06:15Z").await;
    assert_eq!(test.runs().len(), 2 + 8, "each tick of both settings runs once");
    let (new, old) = lines();
    let what = "trigger: cron 0 * * * * ? (quartz, UTC) -> cron 30 * * * * ? (quartz, UTC)";
    assert!(new.iter().chain(&old).all(|line| line.starts_with("WARN") && line.contains(what)), "{new:?} {old:?}");
    assert_eq!(
        (new.len(), old.len()),
        (1, 2),
        "the replica that changed the job logs it, and both replicas with the old settings"
    );
    test.join(vec![job("30", 1)]).await.unwrap();
    test.advance_to("2026-01-01T00:07:15Z").await;
    assert_eq!((lines().0.len(), lines().1.len()), (1, 2), "nothing has changed");
    test.join(vec![job("45", 2)]).await.unwrap();
    test.advance_to("2026-01-01T00:12:15Z").await;
    let runs = test.runs();
    assert_eq!(runs.iter().filter(|run| run.replica == 4).count(), 5);
    assert_eq!(runs.len(), 2 + 8 + 2 + 5, "only the replica with the greater revision claims ticks");
    let (new, old) = lines();
    assert!(new.len() == 2 && new[1].starts_with("INFO") && old.len() == 2, "{new:?} {old:?}");
    assert_eq!(
        log.lines_with("newer revision").len(),
        4,
        "each of the four other replicas logs that it claims no more ticks"
    );
}

// Promise: J5
#[tokio::test(start_paused = true)]
async fn a_replica_that_stops_hands_its_run_over_immediately() {
    let job = || {
        Job::cron("long", "0 0 * * * ?").on_crash(OnCrash::Retry).run(async |run: Run| {
            if run.attempt() == 1 {
                time::sleep(secs(3600)).await;
            }
        })
    };
    let mut test = TestScheduler::at("2026-01-01T00:59:00Z").replicas(2).start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T01:00:05Z").await;
    let first = test.runs()[0].replica;
    test.stop_one(first, Duration::ZERO).await.unwrap();
    test.advance(secs(1)).await;
    let runs = test.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!((runs[1].attempt, runs[1].replica), (2, 1 - first));
}

// Promise: J4
#[tokio::test(start_paused = true)]
async fn a_replica_that_is_cut_off_drops_its_run_before_another_takes_it_over() {
    let alive = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }
    let (counted, seen) = (Arc::clone(&alive), Arc::clone(&most));
    let job = move || {
        let (alive, most) = (Arc::clone(&counted), Arc::clone(&seen));
        let job = Job::cron("long", "0 0 * * * ?").on_crash(OnCrash::Retry).lease(secs(10)).grace(secs(60));
        job.run(move |_: Run| {
            most.fetch_max(alive.fetch_add(1, Relaxed) + 1, Relaxed);
            let alive = Alive(Arc::clone(&alive));
            async move {
                time::sleep(secs(300)).await;
                drop(alive);
            }
        })
    };
    let test = TestScheduler::at("2026-01-01T00:59:00Z").replicas(2).start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T01:00:05Z").await;
    let first = test.runs()[0].replica;
    test.cut(first);
    test.advance(secs(60)).await;
    let runs = test.runs();
    assert_eq!((runs.len(), runs[1].replica), (2, 1 - first));
    assert_eq!(most.load(Relaxed), 1, "never two runs at the same time");
    test.mend(first);
    test.advance(secs(600)).await;
    let row = test.jobs().show("long").await.unwrap();
    assert_eq!((row.ok, row.lost, test.runs().len()), (1, 0, 2), "{row:?}");
    // The disconnected replica claims ticks again after the other has stopped.
    let mut test = test;
    test.crash(1 - first);
    test.advance_to("2026-01-01T02:00:30Z").await;
    assert_eq!(test.runs().last().unwrap().replica, first);
}

// Promise: J11
#[tokio::test(start_paused = true)]
async fn a_job_that_fails_open_runs_without_the_store_and_others_do_not() {
    let jobs = || {
        let job = |name| Job::cron(name, "0 * * * * ?").run(async |_: Run| time::sleep(secs(1)).await);
        vec![job("closed"), job("open").store_down(StoreDown::FailOpen)]
    };
    let test = TestScheduler::at("2026-01-01T00:00:30Z").replicas(2).pool(2).start(jobs).await.unwrap();
    test.advance_to("2026-01-01T00:02:30Z").await;
    [0, 1].into_iter().for_each(|replica| test.cut(replica));
    test.advance_to("2026-01-01T00:12:30Z").await;
    let unclaimed = test.runs().iter().filter(|run| run.kind == Kind::Unclaimed).count();
    assert_eq!(
        (test.ticks("closed").len(), test.ticks("open").len(), unclaimed),
        (2, 2 + 20, 20),
        "each replica runs the ticks of the job that fails open by itself"
    );
    [0, 1].into_iter().for_each(|replica| test.mend(replica));
    test.advance_to("2026-01-01T00:15:30Z").await;
    let rows = [test.jobs().show("closed").await.unwrap(), test.jobs().show("open").await.unwrap()];
    // The tick of 00:12 was within the misfire grace, so it ran late, and no older tick was caught up.
    assert_eq!((rows[0].ok, rows[0].missed), (2 + 1 + 3, 9), "{:?}", rows[0]);
    assert_eq!((rows[1].ok, rows[1].missed), (2 + 20 + 3, 0), "{:?}", rows[1]);
}

#[tokio::test(start_paused = true)]
async fn ticks_wait_for_an_unclaimed_run_until_its_end_or_the_death_of_its_node() {
    let jobs = || {
        let delay = Job::fixed_delay("delay", secs(60)).store_down(StoreDown::FailOpen);
        let cron = Job::cron("cron", "0 * * * * ?").store_down(StoreDown::FailOpen);
        let long = async |run: Run| time::sleep(secs(if run.kind() == Kind::Unclaimed { 300 } else { 1 })).await;
        vec![delay.run(long), cron.run(long)]
    };
    let mut test = TestScheduler::at("2026-01-01T00:00:30Z").pool(9).start(jobs).await.unwrap();
    test.advance_to("2026-01-01T00:05:00Z").await;
    test.cut(0);
    test.advance_to("2026-01-01T00:07:30Z").await;
    let unclaimed = test.runs().iter().filter(|run| run.kind == Kind::Unclaimed).count();
    assert_eq!(unclaimed, 2);
    test.mend(0);
    let before = test.runs().len();
    test.advance_to("2026-01-01T00:10:30Z").await;
    assert_eq!(test.runs().len(), before, "no run starts while the unclaimed runs are under way");
    test.crash(0);
    test.join(jobs()).await.unwrap();
    test.advance_to("2026-01-01T00:20:30Z").await;
    for job in ["delay", "cron"] {
        assert!(test.runs()[before..].iter().any(|run| run.job == job), "{job} never runs again");
    }
}

#[tokio::test(start_paused = true)]
async fn ticks_of_a_disabled_job_are_not_missed() {
    let job = || Job::cron("tick", "0 * * * * ?").run(async |_: Run| ());
    let mut test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![job().disabled()]).await.unwrap();
    test.advance_to("2026-01-01T00:10:30Z").await;
    test.jobs().pause("tick", "why not").await.unwrap();
    test.jobs().resume("tick").await.unwrap();
    test.stop_one(0, Duration::ZERO).await.unwrap();
    test.join(vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T00:12:30Z").await;
    assert_eq!(test.ticks("tick"), ["2026-01-01T00:11:00Z", "2026-01-01T00:12:00Z"]);
    let row = test.jobs().show("tick").await.unwrap();
    assert_eq!((row.ok, row.skipped, row.missed), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_trigger_changes_in_a_deploy_continues_from_the_present() {
    let of = |nth: usize| {
        let job = match nth {
            0 => Job::cron("job", "0 0/10 * * * ?"),
            1 => Job::fixed_delay("job", secs(60)),
            2 => Job::fixed_rate("job", secs(60)),
            _ => Job::cron("job", "30 * * * * ?"),
        };
        job.run(async |_: Run| time::sleep(secs(1)).await)
    };
    let mut test = TestScheduler::at("2026-01-01T00:00:30Z").start(|| vec![of(0)]).await.unwrap();
    for nth in 1..4 {
        test.advance(secs(605)).await;
        let before = test.runs().len();
        test.stop_one(nth - 1, Duration::ZERO).await.unwrap();
        test.join(vec![of(nth)]).await.unwrap();
        test.advance(secs(200)).await;
        let runs = test.runs();
        assert!((3..=5).contains(&(runs.len() - before)), "{nth}: {runs:?}");
        assert!(runs.iter().all(|run| run.kind == Kind::Scheduled), "{nth}: {runs:?}");
    }
    let row = test.jobs().show("job").await.unwrap();
    assert_eq!((row.missed, row.lost), (0, 0), "{row:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tick_without_any_replica_is_caught_up_although_the_last_replica_died_in_a_run() {
    let job = || {
        Job::cron("long", "0 0 * * * ?").run(async |run: Run| {
            if run.tick().to_string() == "2026-01-01T01:00:00Z" {
                time::sleep(secs(3600)).await;
            }
        })
    };
    let mut test = TestScheduler::at("2026-01-01T00:30:00Z").start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T01:00:30Z").await;
    test.crash(0);
    test.advance_to("2026-01-01T04:30:00Z").await;
    test.join(vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T04:40:00Z").await;
    assert_eq!(test.ticks("long"), ["2026-01-01T01:00:00Z", "2026-01-01T04:00:00Z"]);
    assert_eq!(test.runs()[1].kind, Kind::CatchUp);
    let row = test.jobs().show("long").await.unwrap();
    assert_eq!((row.lost, row.missed, row.skipped), (1, 2, 0), "{row:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_renewed_at_the_last_moment_starts_no_attempt_twice() {
    struct CountOnDrop(Arc<AtomicUsize>);
    impl Drop for CountOnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let (seen, over) = (Arc::new(std::sync::Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let (lines, ended) = (Arc::clone(&seen), Arc::clone(&over));
    let job = move || {
        let (seen, ended) = (Arc::clone(&lines), Arc::clone(&ended));
        let job = Job::cron("long", "0 0 * * * ?").on_crash(OnCrash::Retry).lease(secs(30)).grace(Duration::ZERO);
        job.run(move |run: Run| {
            seen.lock().unwrap().push((run.attempt(), run.fence()));
            let over = CountOnDrop(Arc::clone(&ended));
            async move {
                time::sleep(secs(300)).await;
                drop(over);
            }
        })
    };
    let test = TestScheduler::at("2026-01-01T00:59:00Z").start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T01:00:12Z").await;
    // The lease is renewed every 10 s. The run is cancelled 5 s before its expiry.
    test.cut(0);
    while over.load(Relaxed) == 0 {
        test.advance(Duration::from_millis(500)).await;
    }
    test.mend(0);
    test.advance(secs(60)).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2], "{seen:?}");
    assert!(seen[1].1 > seen[0].1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_a_full_pool_takes_over_dead_runs_as_soon_as_it_has_a_slot() {
    let jobs = || {
        let long = Job::cron("long", "0 0 1 * * ?").run(async |_: Run| time::sleep(secs(120)).await);
        let job = Job::cron("taken", "5 0 1 * * ?").on_crash(OnCrash::Retry).lease(secs(10));
        vec![long, job.run(async |run: Run| time::sleep(secs(if run.attempt() == 1 { 1000 } else { 1 })).await)]
    };
    let mut test = TestScheduler::at("2026-01-01T00:59:50Z").replicas(2).pool(1).start(jobs).await.unwrap();
    test.advance_to("2026-01-01T01:00:20Z").await;
    let runs = test.runs();
    assert!(runs.len() == 2 && runs[0].replica != runs[1].replica, "{runs:?}");
    test.crash(runs[1].replica);
    // The time is shorter than the interval at which a replica reads all jobs: a quarter of an hour here.
    test.advance_to("2026-01-01T01:04:00Z").await;
    let again = &test.runs()[2];
    assert_eq!((again.job.as_str(), again.attempt, again.replica), ("taken", 2, runs[0].replica));
    let after = again.began.millisecond() - runs[0].began.millisecond() - 120_000;
    assert!((0..=31_000).contains(&after), "at most one poll after a slot became free: {after} ms");
    test.stop().await.unwrap();
}
