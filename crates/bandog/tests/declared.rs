//! A program whose jobs are declared by functions with `#[bandog::scheduled]`. The strict lints below also apply to the
//! code that this attribute generates.
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, missing_debug_implementations, unreachable_pub, clippy::pedantic)]
#![allow(clippy::unwrap_used, clippy::unused_async, reason = "tests")]

use std::{collections::HashSet, thread::ThreadId};

use bandog::schedule::{Run, Scheduler, Shared, TestScheduler, declared};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A run: its job, its tick, its attempt, and its thread.
#[derive(Debug)]
struct Done {
    job: String,
    tick: String,
    attempt: u32,
    thread: ThreadId,
}

/// The channel to which each run sends itself.
type RunSender = Shared<UnboundedSender<Done>>;

fn send(runs_sent: &RunSender, run: &Run) {
    let (job, tick) = (run.name().to_owned(), run.tick().to_string());
    runs_sent.send(Done { job, tick, attempt: run.attempt(), thread: std::thread::current().id() }).unwrap();
}

#[bandog::scheduled(fixed_rate = "20ms")]
async fn sweep(run: Run, runs_sent: RunSender) {
    send(&runs_sent, &run);
}

/// Has documentation.
#[bandog::scheduled(cron = "* * * * * ?", name = "every second")]
fn without_async(runs_sent: &RunSender, run: &Run) {
    send(runs_sent, run);
}

mod elsewhere {
    use super::{Run, RunSender, send};

    #[bandog::scheduled(fixed_delay = "${bandog.declared.delay:15ms}", retry = "1 from 1ms")]
    pub(crate) async fn fails_first(runs_sent: &RunSender, run: Run) -> Result<(), String> {
        send(runs_sent, &run);
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

// Promise: A6
#[tokio::test]
async fn all_declared_jobs_run_once_per_tick_on_two_nodes() {
    let (runs_sent, mut runs) = unbounded_channel::<Done>();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let client = bandog::connect("memory:declared").await.unwrap();
        nodes.push(Scheduler::over(&client).declared().share(runs_sent.clone()).start().await.unwrap());
    }

    let mut runs_seen = HashSet::new();
    let mut runs_left: Vec<(&str, u32)> = vec![("sweep", 20), ("every second", 2), ("fails_first", 10)];
    while !runs_left.is_empty() {
        let done = runs.recv().await.unwrap();
        assert!(runs_seen.insert((done.job.clone(), done.tick.clone(), done.attempt)), "{done:?} ran twice");
        let is_here = done.thread == std::thread::current().id();
        assert_eq!(is_here, done.job != "every second", "{done:?}: only a job without async runs in another thread");
        for (_, left) in runs_left.iter_mut().filter(|(job, _)| *job == done.job) {
            *left -= 1;
        }
        runs_left.retain(|(_, left)| *left > 0);
    }
    assert!(runs_seen.iter().any(|(job, _, attempt)| job == "fails_first" && *attempt == 2), "a failed run is retried");
    for node in nodes {
        node.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn declared_jobs_run_on_a_virtual_clock() {
    let (runs_sent, mut runs) = unbounded_channel::<Done>();
    let setting = TestScheduler::at("2026-01-01T00:00:00.5Z").replicas(3).share(runs_sent);
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
async fn a_declared_function_has_a_type_of_its_name_that_makes_its_job() {
    let job = elsewhere::fails_first::job().disabled();
    assert_eq!(job.name(), "fails_first");
    let (runs_sent, _runs) = unbounded_channel::<Done>();
    Scheduler::new().job(job).share(runs_sent).start().await.unwrap().stop().await.unwrap();
    assert_eq!(without_async::job().name(), "every second");
}
