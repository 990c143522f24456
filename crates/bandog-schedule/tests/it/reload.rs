//! Failures that are reported to the program, and schedulers that make room for others.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bandog_core::{Clock, Memory};
use bandog_schedule::{Job, Jobs, Retry, Run, RunRow, Running, Scheduler, Scope, State};
use bandog_sync::Client;
use tokio::time;

type Failures = Arc<Mutex<Vec<RunRow>>>;

fn client(store: &Memory) -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(store.clone()).unwrap()
}

async fn start(client: &Client, jobs: impl IntoIterator<Item = Job>, failures: &Failures) -> Running {
    let failures = Arc::clone(failures);
    let report = move |run| {
        failures.lock().unwrap().push(run);
        std::future::ready(())
    };
    Scheduler::over(client).pool(9).jobs(jobs).on_failure(report).start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_run_that_has_failed_for_good_is_reported_once() {
    let (store, failures) = (Memory::new(Clock::tokio()), Failures::default());
    let client = client(&store);
    let retry = Retry::times(2).from(Duration::from_secs(1));
    let fails = |name: &str| {
        Job::once(name)
            .retry(retry)
            .run(async |run: Run| if run.attempt() < 3 || run.name() != "recovers" { Err("no paper") } else { Ok(()) })
    };
    let slow = |name: &str| Job::once(name).run(async |_: Run| time::sleep(Duration::from_secs(3600)).await);
    let slow_with_timeout = Job::once("slow")
        .timeout(Duration::from_secs(5))
        .run(async |_: Run| time::sleep(Duration::from_secs(60)).await);
    let jobs =
        [fails("fails"), fails("local").scope(Scope::EachNode), fails("recovers"), slow_with_timeout, slow("stopped")];
    let running = start(&client, jobs.into_iter().chain([slow("cancelled")]), &failures).await;
    time::sleep(Duration::from_secs(20)).await;
    Jobs::over(&client).cancel("cancelled", None).await.unwrap();
    time::sleep(Duration::from_secs(20)).await;
    running.stop().await.unwrap();
    let mut seen: Vec<_> =
        failures.lock().unwrap().iter().map(|run| (run.job.clone(), run.state, run.attempt)).collect();
    seen.sort_by_key(|(job, _, _)| job.clone());
    let expected = [("fails", State::Failed, 3), ("local", State::Failed, 3), ("slow", State::TimedOut, 1)];
    assert_eq!(seen, expected.map(|(job, state, attempt)| (job.to_owned(), state, attempt)));
    client.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_retired_scheduler_claims_nothing_and_its_runs_go_on_until_a_stop() {
    let (store, ran) = (Memory::new(Clock::tokio()), Arc::new(AtomicU32::new(0)));
    let client = client(&store);
    let long = |ran: &Arc<AtomicU32>, seconds: u64| {
        let ran = Arc::clone(ran);
        Job::fixed_rate("long", Duration::from_secs(10)).run(move |_: Run| {
            let ran = Arc::clone(&ran);
            async move {
                time::sleep(Duration::from_secs(seconds)).await;
                ran.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let old = Scheduler::over(&client).drain(Duration::from_secs(5)).job(long(&ran, 3600)).start().await.unwrap();
    time::sleep(Duration::from_secs(1)).await;
    let retired = async { old.retire().await.unwrap() };
    assert!(time::timeout(Duration::from_secs(3500), retired).await.is_err(), "the run goes on");
    old.retire().await.unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1, "the ticks that were due meanwhile are not claimed");
    old.stop().await.unwrap();

    let new = Scheduler::over(&client).drain(Duration::from_secs(5)).job(long(&ran, 7200)).start().await.unwrap();
    time::sleep(Duration::from_secs(60)).await;
    assert!(time::timeout(Duration::from_secs(60), new.retire()).await.is_err());
    let begun = time::Instant::now();
    new.stop().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60), "a stop ends the wait");
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    client.close().await.unwrap();
}
