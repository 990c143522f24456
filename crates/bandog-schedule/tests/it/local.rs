//! Schedulers without a store, and jobs of one process: fixed rates and delays, the pool, and clocks that are set.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::Clock;
use bandog_schedule::{Job, Run, Scheduler, Scope, TestScheduler, Time};
use tokio::time::{self, Instant};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Start times of the runs of a job with these durations, in milliseconds.
async fn starts(
    job: impl FnOnce(Box<dyn Fn() -> Duration + Send + Sync>, Arc<Mutex<Vec<u128>>>, Instant) -> Job,
    took: &[u64],
) -> Vec<u128> {
    let started = Arc::new(Mutex::new(Vec::new()));
    let (times, nth) = (took.to_vec(), Mutex::new(0));
    let next = Box::new(move || {
        let mut nth = nth.lock().unwrap();
        *nth += 1;
        ms(*times.get(*nth - 1).unwrap_or(&5))
    });
    let began = Instant::now();
    let job = job(next, Arc::clone(&started), began);
    let running = Scheduler::new().clock(Clock::tokio()).job(job).start().await.unwrap();
    time::sleep(ms(650)).await;
    running.stop().await.unwrap();
    started.lock().unwrap().clone()
}

// Promise: J12
#[tokio::test(start_paused = true)]
async fn a_fixed_rate_runs_overdue_ticks_back_to_back() {
    let started = starts(
        |took, started, began| {
            let took = Arc::new(took);
            Job::fixed_rate("rate", ms(100)).run(move |_: Run| {
                started.lock().unwrap().push(began.elapsed().as_millis());
                let took = took();
                time::sleep(took)
            })
        },
        &[350],
    )
    .await;
    assert_eq!(started, [0, 350, 355, 360, 400, 500, 600]);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_delay_counts_from_the_end() {
    let started = starts(
        |took, started, began| {
            let took = Arc::new(took);
            Job::fixed_delay("delay", ms(100)).run(move |_: Run| {
                started.lock().unwrap().push(began.elapsed().as_millis());
                let took = took();
                time::sleep(took)
            })
        },
        &[350, 20],
    )
    .await;
    assert_eq!(started, [0, 450, 570]);
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_one_runs_one_job_at_a_time_and_alternates_between_jobs() {
    let started = Arc::new(Mutex::new(Vec::new()));
    let job = |name: &str| {
        let started = Arc::clone(&started);
        Job::fixed_rate(name, ms(100)).run(move |run: Run| {
            started.lock().unwrap().push(run.name().to_owned());
            time::sleep(ms(70))
        })
    };
    let running = Scheduler::new().clock(Clock::tokio()).jobs([job("a"), job("b")]).start().await.unwrap();
    time::sleep(ms(1000)).await;
    running.stop().await.unwrap();
    let started = started.lock().unwrap().clone();
    assert!(started.len() >= 13, "{started:?}");
    assert!(started.windows(2).all(|two| two[0] != two[1]), "the jobs alternate: {started:?}");
}

// Promise: J10
#[tokio::test(start_paused = true)]
async fn a_panic_and_an_error_do_not_stop_the_schedule() {
    let runs = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&runs);
    let panics = Job::fixed_rate("panics", ms(10)).run(move |_: Run| {
        *counted.lock().unwrap() += 1;
        async {
            if true {
                panic!("as it must");
            }
        }
    });
    let fails = Job::fixed_rate("fails", ms(10)).run(async |_: Run| Err::<(), _>("no"));
    let running = Scheduler::new().clock(Clock::tokio()).pool(2).jobs([panics, fails]).start().await.unwrap();
    time::sleep(ms(100)).await;
    running.stop().await.unwrap();
    assert!(*runs.lock().unwrap() >= 9);
}

/// Start times of the runs of each job, in seconds. The wall clock is set by this number of seconds after 40 s.
async fn while_the_clock_jumps(by: i64) -> HashMap<String, Vec<u64>> {
    let jumps: &'static AtomicI64 = Box::leak(Box::default());
    let wall = "2026-01-01T00:00:30Z".parse::<Time>().unwrap().into();
    let clock = Clock::tokio().set_to(wall).jumping_by(jumps);
    let seen: Arc<Mutex<HashMap<String, Vec<u64>>>> = Arc::default();
    let began = Instant::now();
    let watched = |job: Job| {
        let (seen, name) = (Arc::clone(&seen), job.name().to_owned());
        job.run(move |_: Run| {
            seen.lock().unwrap().entry(name.clone()).or_default().push(began.elapsed().as_secs());
            time::sleep(ms(5_000))
        })
    };
    let jobs = [
        Job::fixed_rate("rate", ms(20_000)),
        Job::fixed_rate("later", ms(20_000)).initial_delay(ms(50_000)),
        Job::fixed_delay("delay", ms(20_000)),
        Job::once("once").initial_delay(ms(70_000)),
        Job::cron("cron", "0 * * * * ?"),
        Job::at("at", "2026-01-01T00:02:10Z".parse().unwrap()),
    ];
    let running = Scheduler::new().pool(16).clock(clock).jobs(jobs.map(watched)).start().await.unwrap();
    time::sleep(ms(39_500)).await;
    jumps.store(by * 1_000_000_000, Relaxed);
    time::sleep(ms(80_000)).await;
    running.stop().await.unwrap();
    seen.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn periods_are_kept_though_the_wall_clock_jumps_and_cron_follows_it() {
    for by in [0, -3600, 3600] {
        let seen = while_the_clock_jumps(by).await;
        let of = |name: &str| seen.get(name).cloned().unwrap_or_default();
        assert_eq!(of("rate"), [0, 20, 40, 60, 80, 100], "{by}");
        assert_eq!(of("later"), [50, 70, 90, 110], "{by}");
        assert_eq!(of("delay"), [0, 25, 50, 75, 100], "{by}");
        assert_eq!(of("once"), [70], "{by}");
        let (cron, at) = match by {
            0 => (vec![30, 90], vec![100]),
            // The clock was set back by an hour. So all further ticks of the test lie before the watermark (the newest
            // tick that was ever claimed), and none of them fires.
            -3600 => (vec![30], vec![]),
            // The ticks of the skipped hour were missed, except the latest, which is still in time.
            _ => (vec![30, 40, 90], vec![40]),
        };
        assert_eq!((of("cron"), of("at")), (cron, at), "{by}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_wrong_keeps_the_periods_of_its_own_jobs() {
    let setting = TestScheduler::at("2026-01-01T00:00:00Z").replicas(2).skew([3600, -3600]);
    let job = || Job::fixed_rate("cache", ms(10_000)).scope(Scope::EachNode).run(async |_: Run| ());
    let test = setting.start(|| vec![job()]).await.unwrap();
    test.advance_to("2026-01-01T00:01:05Z").await;
    assert_eq!(test.ticks("cache").len(), 14, "{:?}", test.ticks("cache"));
    test.stop().await.unwrap();
}
