//! Work queues: elements per second in a file of SQLite, the time from a push to the start of a handler, and what workers
//! that wait cost the server.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bandog::work::{ClientWork, Delivery, Running, WorkQueue};
use bandog_testkit::{MariaDbServer, PostgresServer, RedisServer};
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use crate::{
    measure::Workers,
    report::{Report, Wanted, median, quantile},
};

/// The number of elements of a push.
const BATCH: usize = 100;
const SLOTS: u32 = 100;
/// The interval between two pushes whose elements meet waiting workers.
const PAUSE: Duration = Duration::from_millis(5);
/// The ticks of the CPU time in /proc per second.
const TICKS: f64 = 100.0;

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn queue(url: &str) -> WorkQueue<String> {
    let client = bandog::connect(url).await.expect("the store answers");
    client.work_queue("bench").expect("a name")
}

fn handler<F: Future<Output = ()> + Send + 'static>(
    workers: bandog::work::Workers<String>,
    handle: impl Fn(Delivery<String>) -> F + Send + Sync + 'static,
) -> Running {
    workers.run(move |delivery| {
        let handled = handle(delivery);
        async {
            handled.await;
            Ok::<_, Failure>(())
        }
    })
}

/// Elements per second from the first push to the last settlement, in a file of SQLite whose commits reach the disk.
pub(crate) fn rate(report: &mut Report) {
    let elements = report.size.pick(50_000, 500);
    let mut rates = Vec::new();
    for round in 0..report.rounds {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("work.db").display());
        let (push, work) = Workers::Two.runtime().block_on(pass(&url, elements));
        report
            .raw(json!({"what": "work-rate", "store": "SQLite", "round": round, "elements": elements, "push_s": push,
            "work_s": work}));
        rates.push(elements as f64 / (push + work));
    }
    let rate = median(rates);
    report.row("push, take and done in SQLite", format!("{rate:.0}/s"), String::new(), "≥ 20,000/s");
    report.judge("elements/s in SQLite", Wanted::AtLeast(20_000.0), Some(rate));
}

/// Pushes the elements, and then handles them. In seconds.
async fn pass(url: &str, elements: usize) -> (f64, f64) {
    let queue = queue(url).await;
    queue.status().await.expect("the store answers"); // The tables exist.
    let batch = vec!["x".repeat(100); BATCH];
    let start = Instant::now();
    for _ in 0..elements / BATCH {
        queue.push_all(&batch).await.expect("pushed");
    }
    let (push, start) = (start.elapsed(), Instant::now());
    let (handled, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let told = all.clone();
    let workers = handler(queue.workers(SLOTS), move |_| {
        if handled.fetch_add(1, Relaxed) + 1 == elements {
            told.notify_one();
        }
        async {}
    });
    all.notified().await;
    workers.stop().await.expect("settled");
    (push.as_secs_f64(), start.elapsed().as_secs_f64())
}

/// The time from a push to the start of the handler of another client, whose workers wait.
pub(crate) fn latency(report: &mut Report) {
    let redis = RedisServer::start();
    latency_on(report, "Redis", &redis.url());
    let (_postgres, url) = postgres();
    latency_on(report, "PostgreSQL", &url);
    let folder = tempfile::tempdir().expect("a folder");
    latency_on(report, "SQLite", &format!("sqlite:{}", folder.path().join("work.db").display()));
}

fn latency_on(report: &mut Report, store: &str, url: &str) {
    let pushes = report.size.pick(2_000, 20);
    let mut times = Workers::Two.runtime().block_on(async {
        let (from, to) = (queue(url).await, queue(url).await);
        let (outbox, mut started) = mpsc::channel(pushes);
        let workers = handler(to.workers(SLOTS), move |_| {
            let (outbox, now) = (outbox.clone(), Instant::now());
            async move { outbox.send(now).await.expect("the receiver waits") }
        });
        let mut times = Vec::new();
        for number in 0..pushes {
            let start = Instant::now();
            from.push("x").await.expect("pushed");
            let begun = started.recv().await.expect("the workers run");
            if number > 0 {
                times.push(begun.saturating_duration_since(start).as_secs_f64() * 1e3);
            }
            tokio::time::sleep(PAUSE).await;
        }
        workers.stop().await.expect("settled");
        times
    });
    let (p50, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    report.raw(json!({"what": "work-latency", "store": store, "pushes": pushes, "p50_ms": p50, "p99_ms": p99}));
    report.row(
        format!("push to start, {store}"),
        format!("p50 {p50:.2} ms, p99 {p99:.2} ms"),
        String::new(),
        "p99 < 5 ms",
    );
    report.judge(&format!("push to start, p99, {store}, in ms"), Wanted::Below(5.0), Some(p99));
}

/// What clients whose workers wait cost the server, in percent of a core.
pub(crate) fn idle(report: &mut Report) {
    let redis = RedisServer::start();
    idle_on(report, "Redis", &redis.url(), &[redis.pid()]);
    let (server, url) = postgres();
    idle_on(report, "PostgreSQL", &url, &[pid(&server.directory().join("data/postmaster.pid"))]);
    let server = MariaDbServer::start_with(&["max-connections=1000"]);
    server.create_database("work");
    let url = format!("mysql://{}@{}/work", MariaDbServer::LOCKS, server.addr());
    idle_on(report, "MariaDB", &url, &[pid(&server.directory().join("pid"))]);
}

/// The pid in the first line of a file.
fn pid(file: &Path) -> u32 {
    let pid = fs::read_to_string(file).expect("the server runs");
    pid.lines().next().and_then(|pid| pid.trim().parse().ok()).expect("a pid")
}

fn idle_on(report: &mut Report, store: &str, url: &str, server: &[u32]) {
    let span = report.size.pick(Duration::from_secs(20), Duration::from_millis(200));
    let mut shares = Vec::new();
    for clients in [1, report.size.pick(100, 4)] {
        let share = Workers::Two.runtime().block_on(async {
            let mut running = Vec::new();
            for _ in 0..clients {
                running.push(handler(queue(url).await.workers(SLOTS), |_| async {}));
            }
            // Each client learns the number of workers with its second report.
            tokio::time::sleep(span * 5 / 4).await;
            let (before, clock) = (ticks(server), Instant::now());
            tokio::time::sleep(span).await;
            let share = 100.0 * (ticks(server) - before) / TICKS / clock.elapsed().as_secs_f64();
            for workers in running {
                workers.stop().await.expect("no delivery is left");
            }
            share
        });
        report.raw(json!({"what": "work-idle", "store": store, "clients": clients, "core_percent": share}));
        shares.push(format!("{share:.2} % of a core with {clients}"));
    }
    report.row(format!("idle clients with workers, {store}"), shares.join(", "), String::new(), "flat");
}

/// The CPU time of these processes and of their children so far. A connection of PostgreSQL is a child, and stays until the
/// end of the measurement.
fn ticks(servers: &[u32]) -> f64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    let ticks = stats.filter_map(|stat| {
        // The name of the command can contain blanks: the fields begin after it.
        let pid: u32 = stat.split(' ').next()?.parse().ok()?;
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let parent: u32 = fields.get(1)?.parse().ok()?;
        let is_counted = servers.contains(&pid) || servers.contains(&parent);
        is_counted.then(|| Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?))?
    });
    ticks.sum()
}

/// A server whose commits reach the disk, and the URL of a database.
fn postgres() -> (PostgresServer, String) {
    let settings = ["fsync=on", "shared_buffers=128MB", "max_connections=1000"];
    let server = PostgresServer::start_with(&settings);
    server.create_database("work");
    let url = format!("postgres://{}@{}/work", PostgresServer::LOCKS, server.addr());
    (server, url)
}
