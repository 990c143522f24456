use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::Clock;
use bandog_schedule::{Job, Run, Scheduler};
use tokio::time::{self, Instant};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// When the runs of a job that takes these times started, in milliseconds.
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

#[tokio::test(start_paused = true)]
async fn a_fixed_rate_runs_what_is_overdue_back_to_back() {
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
async fn a_pool_of_one_runs_one_at_a_time_and_everybody_in_turn() {
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
    assert!(started.windows(2).all(|two| two[0] != two[1]), "in turn: {started:?}");
}

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
    let pool = NonZeroUsize::new(2).unwrap();
    let running = Scheduler::new().clock(Clock::tokio()).pool(pool).jobs([panics, fails]).start().await.unwrap();
    time::sleep(ms(100)).await;
    running.stop().await.unwrap();
    assert!(*runs.lock().unwrap() >= 9);
}
