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
use serde_json::{Value, json};

use crate::{
    cycles::{Engine, Load},
    driver::{Row, with},
    held::core_percent,
    java::{Java, QUARTZ, SHEDLOCK},
    kinds::Kind,
    measure::Workers,
    report::{Report, Wanted},
    sql,
};

const RATE: &[&str] = &["per_second"];

/// A store with the jobs.
struct Store<'a> {
    name: &'a str,
    /// The URL of the store, after a removal of all its data.
    empty: &'a dyn Fn() -> String,
    /// The number of scripts, transactions (of PostgreSQL) or statements that the server has executed. A run has two swaps.
    calls: &'a (dyn Fn() -> u64 + Sync),
}

/// On Redis.
pub(crate) fn measure(report: &mut Report) {
    let server = RedisServer::start();
    let empty = || {
        server.cmd(&["FLUSHALL"]);
        server.url()
    };
    let store = Store { name: "Redis", empty: &empty, calls: &|| server.calls("evalsha") };
    for jobs in [1, 100, 4000] {
        figures(report, &store, jobs);
    }
}

/// On PostgreSQL and MariaDB, beside the jobs of ShedLock and of Quartz. Without the folder of a Java side, that library is
/// not measured.
pub(crate) fn measure_on_sql(report: &mut Report, shedlock: Option<&Path>, quartz: Option<&Path>) {
    let span = report.span;
    for server in &*sql::SERVERS {
        let name = |what: &str| json!({"what": what, "store": server.name()});
        let url = server.empty_url();
        server.allow_tables_of_others();
        let mut java = Java::start(QUARTZ, quartz, &url);
        // Firings of one node: with its default number of threads, and with more threads and batches.
        for (threads, batch) in [(10, 1), (25, 25)] {
            let name = with(name("claims-quartz"), &json!({"threads": threads, "batch": batch}));
            Row::new(name, RATE)
                .java(&mut java, |java| json!({"per_second": java.firings(100, threads, batch, span)}))
                .measure(report);
        }
        drop(java);
        let url = server.empty_url();
        server.create_table_of_shedlock();
        // A job under ShedLock is at least a cycle of its lock and unlock, here over one connection.
        let shedlock = Row::new(name("claims-shedlock"), RATE)
            .java(&mut Java::start(SHEDLOCK, shedlock, &url), |java| java.cycles(Kind::Mutex.name(), Load::ALONE, span))
            .measure(report);
        let store = Store { name: server.name(), empty: &|| server.empty_url(), calls: &|| server.statements() };
        let [_, ours, _] = [1, 100, 1000].map(|jobs| figures(report, &store, jobs));
        let figure = format!("runs of 100 jobs a second on {}, beside one job of ShedLock", store.name);
        let ratio = ours.zip(shedlock.middle(SHEDLOCK.0, "per_second")).map(|(ours, theirs)| ours / theirs);
        report.judge(&figure, Wanted::AtLeast(5.0), ratio);
    }
}

/// The runs of empty jobs per second, each of which is due 1 ms after its last run.
fn figures(report: &mut Report, store: &Store<'_>, jobs: usize) -> Option<f64> {
    let span = report.span;
    let measured =
        Row::new(json!({"what": "claims", "store": store.name, "jobs": jobs}), &["per_second", "calls_a_run"])
            .side("one node", || {
                let url = (store.empty)();
                Workers::Two.runtime().block_on(runs(span, &url, store.calls, jobs))
            })
            .measure(report);
    measured.middle("one node", "per_second")
}

/// Runs per second, calls of the server for each run, and the CPU time of this process in percent of a core.
async fn runs(span: Duration, url: &str, server_calls: &(dyn Fn() -> u64 + Sync), count: usize) -> Value {
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
    let (before, calls, clock) = (done.load(Relaxed), server_calls(), Instant::now());
    let share = core_percent(span).await;
    let (after, seconds) = (done.load(Relaxed), clock.elapsed().as_secs_f64());
    let calls = server_calls() - calls;
    running.stop().await.expect("stopped");
    client.close().await.expect("closed");
    let runs = (after - before) as f64;
    json!({"per_second": runs / seconds, "calls_a_run": calls as f64 / runs, "core_percent": share})
}
