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
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    driver::Row,
    floor::dial,
    measure::{Workers, count},
    report::{Report, Wanted},
};

/// The number of keys whose copies are read.
const KEYS: usize = 1_000;
/// The duration of a load.
const LOAD: Duration = Duration::from_millis(50);
/// The number of callers that miss the same entry.
const WAITERS: usize = 1_000;
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn measure(report: &mut Report) {
    let (server, runtime) = (RedisServer::start(), Workers::Two.runtime());
    let grid = runtime.block_on(connect(&server));
    near_hits(report, &runtime, &grid);
    let floor = runtime.block_on(dial(&server.url()));
    for tasks in [1, 64] {
        hits(report, &runtime, (&grid, &floor), tasks);
    }
    misses(report, &runtime, (&grid, &floor));
    waiters(report, &runtime, &server, &floor);
}

async fn connect(server: &RedisServer) -> Grid {
    bandog::connect(server.url()).await.expect("the server answers").grid()
}

fn cache(grid: &Grid, name: &str) -> Cache<String, String, Text> {
    grid.cache(name).expect("a name").codec(Text).fresh(MINUTE)
}

/// Reads of copies: in ns for each.
fn near_hits(report: &mut Report, runtime: &Runtime, grid: &Grid) {
    let (keys, span): (Vec<String>, _) = ((0..KEYS).map(|key| format!("price-{key}")).collect(), report.span);
    let ours = cache(grid, "near").near(2 * KEYS);
    let theirs = moka::sync::Cache::<String, Arc<String>>::new(2 * KEYS as u64);
    runtime.block_on(async {
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
    });
    let read_ours = async || {
        for key in &keys {
            black_box(ours.get(key).await.expect("the server answers").expect("a copy"));
        }
    };
    let read_theirs = async || {
        for key in &keys {
            black_box(theirs.get(key).expect("a copy"));
        }
    };
    Row::new(json!({"what": "cache", "part": "near hit"}), &["each_ns"])
        .side("bandog", || runtime.block_on(nanos(span, &read_ours)))
        .wanted("each_ns_ratio", [Some(Wanted::AtMost(1.5))])
        .beside("moka", || runtime.block_on(nanos(span, &read_theirs)))
        .measure(report);
}

/// The duration of one of `KEYS` reads.
async fn nanos(span: Duration, read: impl AsyncFn()) -> Value {
    let (mut reads, start) = (0, Instant::now());
    while start.elapsed() < span {
        read().await;
        reads += KEYS;
    }
    json!({"each_ns": start.elapsed().as_secs_f64() * 1e9 / reads as f64})
}

/// Reads of fresh entries in the store, beside a GET.
fn hits(report: &mut Report, runtime: &Runtime, (grid, floor): (&Grid, &MultiplexedConnection), tasks: usize) {
    let (ours, value, span) = (cache(grid, "hits"), "x".repeat(100), report.span);
    runtime.block_on(async {
        for task in 0..tasks {
            ours.put(&task.to_string(), &value).await.expect("the server answers");
            let mut set = redis::cmd("SET");
            set.arg(format!("bare-{task}")).arg(&value);
            set.exec_async(&mut floor.clone()).await.expect("the server answers");
        }
    });
    let bare = |task: usize| {
        let (floor, key) = (floor.clone(), format!("bare-{task}"));
        move || {
            let (mut floor, mut get) = (floor.clone(), redis::cmd("GET"));
            get.arg(&key);
            async move {
                black_box(get.query_async::<String>(&mut floor).await.expect("the server answers"));
            }
        }
    };
    let cached = |task: usize| {
        let (ours, key) = (ours.clone(), task.to_string());
        move || {
            let (ours, key) = (ours.clone(), key.clone());
            async move {
                let load = async |_| Ok::<_, Infallible>("loaded".to_owned());
                black_box(ours.get_or_load(&key, load).await.expect("the server answers"));
            }
        }
    };
    Row::new(json!({"what": "cache", "part": "hit", "tasks": tasks}), &["per_second"])
        .side("get_or_load", || runtime.block_on(count(tasks, span, &cached)))
        .wanted("per_second_ratio", [Some(Wanted::AtLeast(0.95))])
        .beside("GET", || runtime.block_on(count(tasks, span, &bare)))
        .measure(report);
}

/// What a miss takes beside the load, in round trips.
fn misses(report: &mut Report, runtime: &Runtime, (grid, floor): (&Grid, &MultiplexedConnection)) {
    let (ours, number, span) = (cache(grid, "misses"), AtomicU32::new(0), report.span);
    let miss = async || {
        let trip = round_trip(span, floor).await;
        let (mut calls, start) = (0, Instant::now());
        while start.elapsed() < span {
            let (key, load) = (number.fetch_add(1, Relaxed).to_string(), async |key| Ok::<_, Infallible>(key));
            black_box(ours.get_or_load(&key, load).await.expect("the server answers"));
            calls += 1;
        }
        json!({"round_trips": start.elapsed().as_secs_f64() / f64::from(calls) / trip.as_secs_f64()})
    };
    Row::new(json!({"what": "cache", "part": "miss"}), &["round_trips"])
        .side("beside the load", || runtime.block_on(miss()))
        .wanted("round_trips", [Some(Wanted::AtMost(3.0))])
        .measure(report);
}

/// The time of a GET.
async fn round_trip(span: Duration, floor: &MultiplexedConnection) -> Duration {
    let (mut calls, start) = (0, Instant::now());
    while start.elapsed() < span {
        let mut get = redis::cmd("GET");
        get.arg("none");
        get.exec_async(&mut floor.clone()).await.expect("the server answers");
        calls += 1;
    }
    start.elapsed() / calls
}

/// From the first of a thousand calls that miss one entry to the last answer: in one process, and in ten.
fn waiters(report: &mut Report, runtime: &Runtime, server: &RedisServer, floor: &MultiplexedConnection) {
    let (round, span) = (AtomicU32::new(0), report.span);
    for clients in [1, 10] {
        let grids = (0..clients).map(|_| runtime.block_on(connect(server)));
        let caches: Vec<_> = grids.map(|grid| cache(&grid, "waiters")).collect();
        let wait = async || {
            let trip = round_trip(span, floor).await;
            let (key, loads) = (round.fetch_add(1, Relaxed).to_string(), Arc::new(AtomicU32::new(0)));
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
            let time = start.elapsed().saturating_sub(LOAD).as_secs_f64();
            assert_eq!(loads.load(Relaxed), 1, "one load");
            json!({"last_ms": time * 1e3, "round_trips": time / trip.as_secs_f64()})
        };
        Row::new(
            json!({"what": "cache", "part": "waiters", "waiters": WAITERS, "clients": clients}),
            &["last_ms", "round_trips"],
        )
        .side("beside the load", || runtime.block_on(wait()))
        .wanted("round_trips", [Some(Wanted::AtMost(3.0))])
        .measure(report);
    }
}
