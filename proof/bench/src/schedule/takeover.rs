//! The time until another node takes over the run of a node that was killed or stopped.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use bandog::schedule::{Job, OnCrash, Run, Scheduler};
use bandog_testkit::RedisServer;
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    again::{Again, input_ends},
    cycles::Engine,
    measure::Workers,
    report::{Report, quantile},
};

const LEASE: Duration = Duration::from_secs(2);
const TRIES: u32 = 10;

/// How the first node ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    Stopped,
}

pub(crate) fn measure(report: &mut Report) {
    for (end, what, target) in [
        (End::Killed, "killed in a run with a lease of 2 s", "≤ 3 s"),
        (End::Stopped, "stopped in a run, without a drain", "at once"),
    ] {
        let server = RedisServer::start();
        let mut took = Vec::new();
        let tries = report.size.pick(TRIES, 1);
        for number in 0..tries {
            server.cmd(&["FLUSHALL"]);
            let one = Workers::Two.runtime().block_on(take_over(&server.url(), end, number));
            report.raw(json!({"what": "take-over", "end": what, "try": number, "seconds": one}));
            took.push(one);
        }
        let (p50, most) = (quantile(&mut took, 0.5), quantile(&mut took, 1.0));
        report.row(
            format!("a node is {what}: it runs elsewhere"),
            format!("p50 {:.0}, at most {:.0} ms later", p50 * 1e3, most * 1e3),
            format!("{tries} tries on Redis"),
            target,
        );
    }
}

async fn take_over(url: &str, end: End, number: u32) -> f64 {
    let mut node = Again::start(&["node", url]);
    node.wait_for("began");
    let client = Engine::OwnThread.connect(url).await;
    let (began, mut begins) = mpsc::unbounded_channel();
    let running = Scheduler::over(&client).job(job(move |run| _ = began.send((Instant::now(), run.attempt())))).start();
    let running = running.await.expect("started");
    // In each attempt, the first node ends at a different moment of its lease, and of the poll interval of this node.
    tokio::time::sleep(Duration::from_secs(1) + LEASE / 3 / TRIES * number).await;
    assert!(begins.is_empty(), "this node took the run over too early");
    let start = Instant::now();
    match end {
        End::Killed => node.kill(),
        End::Stopped => node.stop(),
    }
    let (at, attempt) = begins.recv().await.expect("the job runs here");
    assert_eq!(attempt, 2, "the run is not the second attempt of the same run");
    drop(running);
    client.close().await.expect("closed");
    at.duration_since(start).as_secs_f64()
}

/// A job whose run fails when it is cancelled.
fn job(began: impl Fn(&Run) + Send + Sync + 'static) -> Job {
    Job::once("long").lease(LEASE).on_crash(OnCrash::Retry).run(move |run: Run| {
        began(&run);
        async move {
            run.cancelled().await;
            Err("the run was cancelled")
        }
    })
}

/// The main function of the first node's process: it begins the run, and stops when its standard input ends.
pub(crate) fn run_node(url: &str) {
    Workers::Two.runtime().block_on(async {
        let client = Engine::OwnThread.connect(url).await;
        let said = Mutex::new(false);
        let say = move |_: &Run| {
            let mut said = said.lock().expect("no task panicked");
            if !std::mem::replace(&mut *said, true) {
                println!("began");
            }
        };
        let running = Scheduler::over(&client).drain(Duration::ZERO).job(job(say)).start().await.expect("started");
        input_ends().await;
        running.stop().await.expect("stopped");
        client.close().await.expect("closed");
    });
}
