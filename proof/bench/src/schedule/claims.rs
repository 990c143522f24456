//! The number of runs that one node claims, executes and records per second. The bodies are empty, and jobs are always
//! due.

use std::{
    path::Path,
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
    java::Java,
    kinds::Kind,
    measure::Workers,
    report::{Report, Wanted, median},
    sql,
};

/// A store with the jobs.
struct Store<'a> {
    name: &'a str,
    /// The unit of the server's count.
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

/// On PostgreSQL and MariaDB, beside the jobs of ShedLock and of Quartz. Without the folder of a Java side, that library is
/// not measured.
pub(crate) fn measure_on_sql(report: &mut Report, shedlock: Option<&Path>, quartz: Option<&Path>) {
    for server in &*sql::SERVERS {
        if let Some(folder) = quartz {
            of_quartz(report, server, folder);
        }
        let theirs = shedlock.map(|folder| of_shedlock(report, server, folder));
        let store = Store {
            name: server.name(),
            unit: if server.postgres().is_some() { "transactions a run" } else { "statements a run" },
            empty: &|| server.empty_url(),
            calls: &|| server.statements(),
        };
        let [_, ours, _] = figures(report, &store, [1, 100, 1000]);
        let figure = format!("runs of 100 jobs a second on {}, beside one job of ShedLock", store.name);
        report.judge(&figure, Wanted::AtLeast(5.0), theirs.map(|theirs| ours / theirs));
    }
}

/// Cycles of ShedLock's lock and unlock per second, over one connection. A job under ShedLock is at least such a cycle.
fn of_shedlock(report: &mut Report, server: &sql::Server, folder: &Path) -> f64 {
    let url = server.empty_url();
    server.create_table_of_shedlock();
    let mut java = Java::shedlock(folder, &url);
    let mut cycles = |span| java.cycles(Kind::Mutex.name(), 1, 1, span).per_second;
    // Afterwards the JVM has compiled this code.
    for _ in 0..2 {
        cycles(Duration::from_secs(1).max(report.span));
    }
    let mut figures = Vec::new();
    for round in 0..report.rounds {
        let per_second = cycles(report.span);
        report
            .raw(json!({"what": "claims-shedlock", "store": server.name(), "round": round, "per_second": per_second}));
        figures.push(per_second);
    }
    let all = median(figures);
    report.row(
        format!("lock and unlock of ShedLock, one connection to {}", server.name()),
        format!("{all:.0}/s"),
        String::new(),
        "",
    );
    all
}

/// Firings of one node of Quartz per second: with its default number of threads, and with more threads and batches.
fn of_quartz(report: &mut Report, server: &sql::Server, folder: &Path) {
    let url = server.empty_url();
    server.allow_tables_of_others();
    let mut java = Java::quartz(folder, &url);
    // Afterwards the JVM has compiled this code.
    java.firings(100, 10, 1, Duration::from_secs(2).max(report.span));
    for (threads, batch) in [(10, 1), (25, 25)] {
        let mut figures = Vec::new();
        for round in 0..report.rounds {
            let per_second = java.firings(100, threads, batch, report.span);
            report.raw(json!({"what": "claims-quartz", "store": server.name(), "round": round, "threads": threads,
                "batch": batch, "per_second": per_second}));
            figures.push(per_second);
        }
        report.row(
            format!(
                "firings of 100 triggers of Quartz, one node on {}, {threads} threads, at most {batch} at once",
                server.name()
            ),
            format!("{:.0}/s", median(figures)),
            String::new(),
            "",
        );
    }
}

/// The runs per second for each number of jobs.
fn figures(report: &mut Report, store: &Store<'_>, jobs: [usize; 3]) -> [f64; 3] {
    jobs.map(|jobs| {
        let (mut figures, mut calls_of_a_run) = (Vec::new(), Vec::new());
        for round in 0..report.rounds {
            let url = (store.empty)();
            let (runs, calls, share) = Workers::Two.runtime().block_on(runs(report, &url, store.calls, jobs));
            report.raw(json!({"what": "claims", "store": store.name, "round": round, "jobs": jobs,
                "runs_per_second": runs, "commands_a_run": calls, "core_percent": share}));
            figures.push(runs);
            calls_of_a_run.push(calls);
        }
        let all = median(figures);
        report.row(
            format!("runs of {jobs} empty jobs, each due 1 ms after its last one, one node on {}", store.name),
            format!("{all:.0}/s"),
            format!("{:.2} {}", median(calls_of_a_run), store.unit),
            "",
        );
        all
    })
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
