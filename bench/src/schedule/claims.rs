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
    sql,
};

/// A store with the jobs.
struct Store<'a> {
    name: &'a str,
    /// What the server counts.
    unit: &'a str,
    /// The URL of the store, after a removal of all its data.
    empty: &'a dyn Fn() -> String,
    /// The number of commands or transactions that the server has executed.
    calls: &'a (dyn Fn() -> u64 + Sync),
}

/// On Redis.
pub(crate) fn measure(report: &mut Report) {
    let server = RedisServer::start();
    let empty = || {
        server.cmd(&["FLUSHALL"]);
        server.url()
    };
    let store = Store {
        name: "Redis",
        unit: "commands a run, which is two swaps",
        empty: &empty,
        calls: &|| server.calls("evalsha"),
    };
    figures(report, &store, [1, 100, 4000]);
}

/// On PostgreSQL and MariaDB.
pub(crate) fn measure_on_sql(report: &mut Report) {
    for server in &*sql::SERVERS {
        let store = Store {
            name: server.name(),
            unit: if server.postgres().is_some() { "transactions a run" } else { "statements a run" },
            empty: &|| server.empty_url(),
            calls: &|| server.statements(),
        };
        figures(report, &store, [1, 100, 1000]);
    }
}

fn figures(report: &mut Report, store: &Store<'_>, jobs: [usize; 3]) {
    for jobs in jobs {
        let (mut figures, mut calls_of_a_run) = (Vec::new(), Vec::new());
        for round in 0..report.rounds {
            let url = (store.empty)();
            let (runs, calls, share) = Workers::Two.runtime().block_on(runs(report, &url, store.calls, jobs));
            report.raw(json!({"what": "claims", "store": store.name, "round": round, "jobs": jobs,
                "runs_per_second": runs, "commands_a_run": calls, "core_percent": share}));
            figures.push(runs);
            calls_of_a_run.push(calls);
        }
        report.row(
            format!("runs of {jobs} empty jobs, each due 1 ms after its last one, one node on {}", store.name),
            format!("{:.0}/s", median(figures)),
            format!("{:.2} {}", median(calls_of_a_run), store.unit),
            "",
        );
    }
}

/// Runs per second, commands per run, and the CPU time of this process in percent of a core.
async fn runs(report: &Report, url: &str, server_calls: &(dyn Fn() -> u64 + Sync), count: usize) -> (f64, f64, f64) {
    let client = Engine::OwnThread.connect(url).await;
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
    let (before, calls, cpu, clock) = (done.load(Relaxed), server_calls(), cpu_seconds(), Instant::now());
    tokio::time::sleep(report.span).await;
    let (after, seconds) = (done.load(Relaxed), clock.elapsed().as_secs_f64());
    let (calls, share) = (server_calls() - calls, 100.0 * (cpu_seconds() - cpu) / seconds);
    running.stop().await.expect("stopped");
    client.close().await.expect("closed");
    let runs = (after - before) as f64;
    (runs / seconds, calls as f64 / runs, share)
}
