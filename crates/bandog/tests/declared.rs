//! A program whose jobs are declared by functions. It is a crate as strict as any: no unsafe code, no warning.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, missing_debug_implementations, unreachable_pub, clippy::pedantic)]
#![allow(clippy::unwrap_used, clippy::unused_async, reason = "tests")]

use std::{collections::HashSet, thread::ThreadId};

use bandog::schedule::{Run, Scheduler, Shared, TestScheduler, declared};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Who ran, for which tick, in which thread.
#[derive(Debug)]
struct Done {
    job: String,
    tick: String,
    attempt: u32,
    thread: ThreadId,
}

/// Where runs tell of themselves.
type Told = Shared<UnboundedSender<Done>>;

fn tell(told: &Told, run: &Run) {
    let (job, tick) = (run.name().to_owned(), run.tick().to_string());
    told.send(Done { job, tick, attempt: run.attempt(), thread: std::thread::current().id() }).unwrap();
}

#[bandog::scheduled(fixed_rate = "20ms")]
async fn sweep(run: Run, told: Told) {
    tell(&told, &run);
}

/// Has documentation.
#[bandog::scheduled(cron = "* * * * * ?", name = "every second")]
fn without_async(told: &Told, run: &Run) {
    tell(told, run);
}

mod elsewhere {
    use super::{Run, Told, tell};

    #[bandog::scheduled(fixed_delay = "${bandog.declared.delay:15ms}", retry = "1 from 1ms")]
    pub(crate) async fn fails_first(told: &Told, run: Run) -> Result<(), String> {
        tell(told, &run);
        if run.attempt() == 1 { Err("on purpose".to_owned()) } else { Ok(()) }
    }
}

#[bandog::scheduled(fixed_rate = "1ms", enabled = "${bandog.declared.enabled:false}")]
async fn disabled() {
    unreachable!("it is disabled");
}

#[cfg(any())]
#[bandog::scheduled(fixed_rate = "1ms")]
async fn not_there(nothing: NoSuchType) {}

#[bandog::scheduled(cron = "-")]
#[cfg(any())]
async fn not_there_either(nothing: NoSuchType) {}

#[tokio::test]
async fn all_declared_jobs_run_once_per_tick_on_two_nodes() {
    let (told, mut runs) = unbounded_channel::<Done>();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let client = bandog::connect("memory:declared").await.unwrap();
        nodes.push(Scheduler::over(&client).declared().share(told.clone()).start().await.unwrap());
    }

    let mut seen = HashSet::new();
    let mut enough: Vec<(&str, u32)> = vec![("sweep", 20), ("every second", 2), ("fails_first", 10)];
    while !enough.is_empty() {
        let done = runs.recv().await.unwrap();
        assert!(seen.insert((done.job.clone(), done.tick.clone(), done.attempt)), "{done:?} ran twice");
        let here = done.thread == std::thread::current().id();
        assert_eq!(here, done.job != "every second", "{done:?}: what is not async runs in the blocking pool");
        for (_, left) in enough.iter_mut().filter(|(job, _)| *job == done.job) {
            *left -= 1;
        }
        enough.retain(|(_, left)| *left > 0);
    }
    assert!(seen.iter().any(|(job, _, attempt)| job == "fails_first" && *attempt == 2), "it is tried again");
    for node in nodes {
        node.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn declared_jobs_run_on_a_virtual_clock() {
    let (told, mut runs) = unbounded_channel::<Done>();
    let setting = TestScheduler::at("2026-01-01T00:00:00.5Z").replicas(3).share(told);
    let every_second = || declared().into_iter().filter(|job| job.name() == "every second").collect();
    let test = setting.start(every_second).await.unwrap();
    test.advance_to("2026-01-01T00:01:00Z").await;
    test.stop().await.unwrap();
    let mut ticks = Vec::new();
    while let Some(done) = runs.recv().await {
        ticks.push(done.tick);
    }
    assert_eq!((ticks.len(), ticks.last().unwrap().as_str()), (60, "2026-01-01T00:01:00Z"));
}

#[tokio::test]
async fn a_declared_function_is_an_ordinary_function_and_gives_its_job() {
    let job = elsewhere::fails_first::job().disabled();
    assert_eq!(job.name(), "fails_first");
    let (told, _runs) = unbounded_channel::<Done>();
    Scheduler::new().job(job).share(told).start().await.unwrap().stop().await.unwrap();
    assert_eq!(without_async::job().name(), "every second");
}
