//! Caches: a copy in the process compared with moka, an entry compared with a GET, and what callers wait for a load.

use std::{
    convert::Infallible,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bandog::grid::{Cache, ClientGrid, Grid, codec::Text};
use bandog_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use serde_json::json;

use crate::{
    floor::dial,
    measure::{Workers, count},
    report::{Report, Wanted, median},
};

/// The number of keys whose copies are read.
const KEYS: usize = 1_000;
/// The duration of a load.
const LOAD: Duration = Duration::from_millis(50);
/// The number of callers that miss the same entry.
const WAITERS: usize = 1_000;
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn measure(report: &mut Report) {
    let server = RedisServer::start();
    let runtime = Workers::Two.runtime();
    runtime.block_on(async {
        let grid = connect(&server).await;
        near_hits(report, &grid).await;
        let floor = dial(&server.url()).await;
        for tasks in [1, 64] {
            hits(report, &grid, &floor, tasks).await;
        }
        misses(report, &grid, &floor).await;
        waiters(report, &server, &floor).await;
    });
}

async fn connect(server: &RedisServer) -> Grid {
    bandog::connect(server.url()).await.expect("the server answers").grid()
}

fn cache(grid: &Grid, name: &str) -> Cache<String, String, Text> {
    grid.cache(name).expect("a name").codec(Text).fresh(MINUTE)
}

/// Reads of copies: in ns for each.
async fn near_hits(report: &mut Report, grid: &Grid) {
    let keys: Vec<String> = (0..KEYS).map(|key| format!("price-{key}")).collect();
    let ours = cache(grid, "near").near(2 * KEYS);
    let theirs = moka::sync::Cache::<String, Arc<String>>::new(2 * KEYS as u64);
    for key in &keys {
        ours.put(key, &"x".repeat(100)).await.expect("the server answers");
        theirs.insert(key.clone(), Arc::new("x".repeat(100)));
    }
    // The reports have begun when all reads are answered by copies.
    let until = Instant::now() + MINUTE;
    loop {
        let before = ours.stats().near_hits;
        for key in &keys {
            black_box(ours.get(key).await.expect("the server answers"));
        }
        if ours.stats().near_hits - before == KEYS as u64 {
            break;
        }
        assert!(Instant::now() < until, "there are no copies");
    }
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..report.rounds {
        let (mut reads, start) = (0, Instant::now());
        while start.elapsed() < report.span {
            for key in &keys {
                black_box(theirs.get(key).expect("a copy"));
            }
            reads += KEYS;
        }
        other.push(nanos(start.elapsed(), reads));
        let (mut reads, start) = (0, Instant::now());
        while start.elapsed() < report.span {
            for key in &keys {
                black_box(ours.get(key).await.expect("the server answers").expect("a copy"));
            }
            reads += KEYS;
        }
        own.push(nanos(start.elapsed(), reads));
    }
    report.raw(json!({"what": "cache", "part": "near hit", "bandog_ns": own, "moka_ns": other}));
    let (own, other) = (median(own), median(other));
    report.row("near hit", format!("{own:.0} ns"), format!("moka {other:.0} ns, ×{:.2}", own / other), "≤ ×1.5");
    report.judge("near hit, of moka's get", Wanted::AtMost(1.5), Some(own / other));
}

fn nanos(time: Duration, reads: usize) -> f64 {
    time.as_secs_f64() * 1e9 / reads as f64
}

/// Reads of fresh entries in the store, per second.
async fn hits(report: &mut Report, grid: &Grid, floor: &MultiplexedConnection, tasks: usize) {
    let ours = cache(grid, "hits");
    let value = "x".repeat(100);
    for task in 0..tasks {
        ours.put(&task.to_string(), &value).await.expect("the server answers");
        let mut set = redis::cmd("SET");
        set.arg(format!("bare-{task}")).arg(&value);
        set.exec_async(&mut floor.clone()).await.expect("the server answers");
    }
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..report.rounds {
        let bare = count(tasks, report.span, |task| {
            let (floor, key) = (floor.clone(), format!("bare-{task}"));
            move || {
                let (mut floor, mut get) = (floor.clone(), redis::cmd("GET"));
                get.arg(&key);
                async move {
                    black_box(get.query_async::<String>(&mut floor).await.expect("the server answers"));
                }
            }
        });
        other.push(bare.await.per_second);
        let cached = count(tasks, report.span, |task| {
            let (ours, key) = (ours.clone(), task.to_string());
            move || {
                let (ours, key) = (ours.clone(), key.clone());
                async move {
                    let load = async |_| Ok::<_, Infallible>("loaded".to_owned());
                    black_box(ours.get_or_load(&key, load).await.expect("the server answers"));
                }
            }
        });
        own.push(cached.await.per_second);
    }
    report.raw(
        json!({"what": "cache", "part": "hit", "tasks": tasks, "bandog_per_second": own, "get_per_second": other}),
    );
    let (own, other) = (median(own), median(other));
    let name = format!("hit, {tasks} tasks");
    report.row(name.as_str(), format!("{own:.0}/s"), format!("GET {other:.0}/s, ×{:.2}", own / other), "≥ ×0.95");
    report.judge(&format!("{name}, of a GET"), Wanted::AtLeast(0.95), Some(own / other));
}

/// What a miss takes beside the load, in round trips.
async fn misses(report: &mut Report, grid: &Grid, floor: &MultiplexedConnection) {
    let ours = cache(grid, "misses");
    let (mut trips, mut number) = (Vec::new(), 0);
    for _ in 0..report.rounds {
        let trip = round_trip(report, floor).await;
        let (mut calls, start) = (0, Instant::now());
        while start.elapsed() < report.span {
            number += 1;
            let load = async |key| Ok::<_, Infallible>(key);
            black_box(ours.get_or_load(&number.to_string(), load).await.expect("the server answers"));
            calls += 1;
        }
        trips.push(start.elapsed().as_secs_f64() / f64::from(calls) / trip.as_secs_f64());
    }
    report.raw(json!({"what": "cache", "part": "miss", "round_trips": trips}));
    let trips = median(trips);
    report.row("miss, beside the load", format!("{trips:.1} round trips"), String::new(), "≤ 3");
}

/// The time of a GET.
async fn round_trip(report: &Report, floor: &MultiplexedConnection) -> Duration {
    let (mut calls, start) = (0, Instant::now());
    while start.elapsed() < report.span {
        let mut get = redis::cmd("GET");
        get.arg("none");
        get.exec_async(&mut floor.clone()).await.expect("the server answers");
        calls += 1;
    }
    start.elapsed() / calls
}

/// From the first of a thousand calls that miss one entry to the last answer: in one process, and in ten.
async fn waiters(report: &mut Report, server: &RedisServer, floor: &MultiplexedConnection) {
    let mut grids = Vec::new();
    for _ in 0..10 {
        grids.push(connect(server).await);
    }
    for (clients, name) in [(1, "one client"), (10, "ten clients")] {
        let caches: Vec<_> = grids[..clients].iter().map(|grid| cache(grid, "waiters")).collect();
        let (mut beside, mut trips) = (Vec::new(), Vec::new());
        for round in 0..report.rounds {
            let trip = round_trip(report, floor).await;
            let (key, loads) = (format!("{name}-{round}"), Arc::new(AtomicU32::new(0)));
            let start = Instant::now();
            let calls: Vec<_> = (0..WAITERS)
                .map(|number| {
                    let (cache, key, loads) = (caches[number % clients].clone(), key.clone(), loads.clone());
                    tokio::spawn(async move {
                        let load = async move |key| {
                            loads.fetch_add(1, Relaxed);
                            tokio::time::sleep(LOAD).await;
                            Ok::<_, Infallible>(key)
                        };
                        cache.get_or_load(&key, load).await.expect("the server answers");
                    })
                })
                .collect();
            for call in calls {
                call.await.expect("no panic");
            }
            let time = start.elapsed().saturating_sub(LOAD);
            assert_eq!(loads.load(Relaxed), 1, "one load");
            beside.push(time.as_secs_f64() * 1e3);
            trips.push(time.as_secs_f64() / trip.as_secs_f64());
        }
        report.raw(json!({"what": "cache", "part": "waiters", "clients": clients, "ms_beside_the_load": beside,
            "round_trips": trips}));
        let (beside, trips) = (median(beside), median(trips));
        report.row(
            format!("last of {WAITERS} waiters, {name}, beside the load"),
            format!("{beside:.1} ms"),
            format!("{trips:.0} round trips"),
            "≤ 3 round trips",
        );
    }
}
