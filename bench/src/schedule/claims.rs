//! The number of runs that one node claims, executes and records per second. The bodies are empty, and jobs are always
//! due.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bandog::schedule::{Job, Run, Scheduler};
use bandog_testkit::RedisServer;
use serde_json::json;

use crate::{
    cycles::Engine,
    held::cpu_seconds,
    measure::Workers,
    report::{Report, median},
};

pub(crate) fn measure(report: &mut Report) {
    let server = RedisServer::start();
    for jobs in [1, 100, 4000] {
        let mut figures = Vec::new();
        let mut commands = Vec::new();
        for round in 0..report.rounds {
            server.cmd(&["FLUSHALL"]);
            let (runs, calls, share) = Workers::Two.runtime().block_on(runs(report, &server, jobs));
            report.raw(json!({"what": "claims", "round": round, "jobs": jobs, "runs_per_second": runs,
                "commands_a_run": calls, "core_percent": share}));
            figures.push(runs);
            commands.push(calls);
        }
        report.row(
            format!("runs of {jobs} empty jobs, each due 1 ms after its last one, one node on Redis"),
            format!("{:.0}/s", median(figures)),
            format!("{:.2} commands a run, which is two swaps", median(commands)),
            "",
        );
    }
}

/// Runs per second, commands per run, and the CPU time of this process in percent of a core.
async fn runs(report: &Report, server: &RedisServer, count: usize) -> (f64, f64, f64) {
    let client = Engine::OwnThread.connect(&server.url()).await;
    let done = Arc::new(AtomicU64::new(0));
    let jobs = (0..count).map(|number| {
        let done = Arc::clone(&done);
        Job::fixed_delay(format!("job-{number}"), Duration::from_millis(1)).run(move |_: Run| {
            done.fetch_add(1, Relaxed);
            std::future::ready(())
        })
    });
    let running = Scheduler::over(&client).pool(count).jobs(jobs).start().await.expect("started");
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, calls, cpu, clock) = (done.load(Relaxed), server.calls("evalsha"), cpu_seconds(), Instant::now());
    tokio::time::sleep(report.span).await;
    let (after, seconds) = (done.load(Relaxed), clock.elapsed().as_secs_f64());
    let (calls, share) = (server.calls("evalsha") - calls, 100.0 * (cpu_seconds() - cpu) / seconds);
    running.stop().await.expect("stopped");
    client.close().await.expect("closed");
    let runs = (after - before) as f64;
    (runs / seconds, calls as f64 / runs, share)
}
