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
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::{
    driver::Row,
    measure::Workers,
    report::{Report, Wanted, times},
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
    Row::new(json!({"what": "work-rate", "elements": elements}), &["per_second", "push_s", "work_s"])
        .side("SQLite", || {
            let folder = tempfile::tempdir().expect("a folder");
            let url = format!("sqlite:{}", folder.path().join("work.db").display());
            Workers::Two.runtime().block_on(pass(&url, elements))
        })
        .wanted("per_second", [Some(Wanted::AtLeast(20_000.0))])
        .measure(report);
}

/// Pushes the elements, and then handles them.
async fn pass(url: &str, elements: usize) -> Value {
    let queue = queue(url).await;
    queue.status().await.expect("the store answers"); // The tables exist.
    let batch = vec!["x".repeat(100); BATCH];
    let start = Instant::now();
    for _ in 0..elements / BATCH {
        queue.push_all(&batch).await.expect("pushed");
    }
    let (push, start) = (start.elapsed().as_secs_f64(), Instant::now());
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
    let work = start.elapsed().as_secs_f64();
    json!({"per_second": elements as f64 / (push + work), "push_s": push, "work_s": work})
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
    Row::new(json!({"what": "work-latency", "pushes": pushes}), &["p50_ms", "p99_ms"])
        .rounds(1)
        .side(store, || times(Workers::Two.runtime().block_on(starts(url, pushes))))
        .wanted("p99_ms", [Some(Wanted::Below(5.0))])
        .measure(report);
}

/// The times until the handlers start, in seconds. The first one is not counted.
async fn starts(url: &str, pushes: usize) -> Vec<f64> {
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
            times.push(begun.saturating_duration_since(start).as_secs_f64());
        }
        tokio::time::sleep(PAUSE).await;
    }
    workers.stop().await.expect("settled");
    times
}

/// What clients whose workers wait cost the server, in percent of a core.
pub(crate) fn idle(report: &mut Report) {
    let redis = RedisServer::start();
    idle_on(report, "Redis", &redis.url(), redis.pid());
    let (server, url) = postgres();
    idle_on(report, "PostgreSQL", &url, pid(&server.directory().join("data/postmaster.pid")));
    let server = MariaDbServer::start_with(&["max-connections=1000"]);
    server.create_database("work");
    let url = format!("mysql://{}@{}/work", MariaDbServer::LOCKS, server.addr());
    idle_on(report, "MariaDB", &url, pid(&server.directory().join("pid")));
}

/// The pid in the first line of a file.
fn pid(file: &Path) -> u32 {
    let pid = fs::read_to_string(file).expect("the server runs");
    pid.lines().next().and_then(|pid| pid.trim().parse().ok()).expect("a pid")
}

fn idle_on(report: &mut Report, store: &str, url: &str, server: u32) {
    let span = report.size.pick(Duration::from_secs(20), Duration::from_millis(200));
    for clients in [1, report.size.pick(100, 4)] {
        Row::new(json!({"what": "work-idle", "clients": clients}), &["core_percent"])
            .rounds(1)
            .side(store, || Workers::Two.runtime().block_on(idle_clients(url, server, clients, span)))
            .measure(report);
    }
}

async fn idle_clients(url: &str, server: u32, clients: usize, span: Duration) -> Value {
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
    json!({"core_percent": share})
}

/// The CPU time of this process and of its children so far. A connection of PostgreSQL is a child, and stays until the end
/// of the measurement.
fn ticks(server: u32) -> f64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    let ticks = stats.filter_map(|stat| {
        // The name of the command can contain blanks: the fields begin after it.
        let pid: u32 = stat.split(' ').next()?.parse().ok()?;
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let parent: u32 = fields.get(1)?.parse().ok()?;
        let is_counted = [pid, parent].contains(&server);
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
