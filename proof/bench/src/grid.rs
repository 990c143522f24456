//! The objects of the grid, compared with the same commands through the bare client of Redis on one connection, and with
//! Redisson.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bandog::grid::{ClientGrid, Grid, Map, Queue, codec::Text};
use bandog_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use serde_json::json;

use crate::{
    floor::dial,
    java::Java,
    measure::{Workers, count},
    report::Report,
};

/// The numbers of tasks.
const TASKS: [usize; 3] = [1, 64, 1_024];
/// The number of entries of a call for many.
const MANY: usize = 1_000;
/// Number of calls for many, or of hand-offs, in a measurement.
const REPEATS: usize = 100;

/// The floor of a pop: a script that takes the first element.
const POP: &str = "return redis.call('LPOP', KEYS[1])";

/// Measures the objects. `redisson` is the folder of the Java side; without it, Redisson is not measured.
pub(crate) fn measure(report: &mut Report, redisson: Option<&Path>) {
    if let Some(folder) = redisson {
        beside_redisson(report, folder);
    }
    for workers in [Workers::Two, Workers::Current] {
        let server = RedisServer::start();
        let runtime = workers.runtime();
        runtime.block_on(measure_on(report, workers, &server));
    }
}

async fn measure_on(report: &mut Report, workers: Workers, server: &RedisServer) {
    let grid = bandog::connect(server.url()).await.expect("the server answers").grid();
    let floor = dial(&server.url()).await;
    for tasks in TASKS {
        calls(report, workers, (&grid, &floor), tasks).await;
    }
    many(report, workers, (&grid, &floor)).await;
    hand_off(report, workers, server, (&grid, &floor)).await;
    pops(report, workers, (&grid, &floor)).await;
}

/// The number of tasks and threads that are compared with Redisson.
const BESIDE: usize = 64;

/// Puts and gets of single entries, beside Redisson.
fn beside_redisson(report: &mut Report, folder: &Path) {
    let server = RedisServer::start();
    let mut redisson = Java::redisson(folder, &server.url());
    let runtime = Workers::Two.runtime();
    let grid = runtime.block_on(bandog::connect(server.url())).expect("the server answers").grid();
    for verb in ["put", "get"] {
        let kind = format!("map-{verb}");
        // Afterwards the JVM has compiled this code.
        for _ in 0..3 {
            redisson.cycles(&kind, BESIDE, BESIDE, Duration::from_secs(2));
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..report.rounds {
            theirs.push(redisson.cycles(&kind, BESIDE, BESIDE, report.span).per_second);
            ours.push(runtime.block_on(map_calls(&grid, verb, BESIDE, report.span)));
        }
        compare(report, &format!("map {verb}, {BESIDE} tasks"), &ours, ("Redisson 4.7.0", &theirs), "≥ ×2");
    }
}

fn value() -> String {
    "x".repeat(100)
}

/// Puts and gets of single entries.
async fn calls(report: &mut Report, workers: Workers, (grid, floor): (&Grid, &MultiplexedConnection), tasks: usize) {
    for verb in ["put", "get"] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..report.rounds {
            let bare = count(tasks, report.span, |task| {
                let (floor, key, value) = (floor.clone(), task.to_string(), value());
                move || {
                    let (mut floor, mut cmd) = (floor.clone(), redis::cmd(if verb == "put" { "HSET" } else { "HGET" }));
                    cmd.arg("map").arg(&key);
                    if verb == "put" {
                        cmd.arg(&value);
                    }
                    async move { cmd.exec_async(&mut floor).await.expect("the server answers") }
                }
            });
            theirs.push(bare.await.per_second);
            ours.push(map_calls(grid, verb, tasks, report.span).await);
        }
        compare(
            report,
            &format!("map {verb}, {tasks} tasks, {}", workers.name()),
            &ours,
            ("bare client", &theirs),
            "≥ ×0.95",
        );
    }
}

/// Puts or gets of the grid per second.
async fn map_calls(grid: &Grid, verb: &'static str, tasks: usize, span: Duration) -> f64 {
    let map: Map<String, String, Text> = grid.map("map").expect("a name").codec(Text);
    let own = count(tasks, span, |task| {
        let (map, key, value) = (map.clone(), task.to_string(), value());
        move || {
            let call = match verb {
                "put" => Either::Put(map.put(key.as_str(), value.as_str())),
                _ => Either::Get(map.get(key.as_str())),
            };
            async move {
                match call {
                    Either::Put(call) => call.await.expect("the server answers"),
                    Either::Get(call) => drop(call.await.expect("the server answers")),
                }
            }
        }
    });
    own.await.per_second
}

enum Either<A, B> {
    Put(A),
    Get(B),
}

/// A thousand values with one call.
async fn many(report: &mut Report, workers: Workers, (grid, floor): (&Grid, &MultiplexedConnection)) {
    let map: Map<String, String, Text> = grid.map("many").expect("a name").codec(Text);
    let keys: Vec<String> = (0..MANY).map(|key| key.to_string()).collect();
    let entries: Vec<(String, String)> = keys.iter().map(|key| (key.clone(), value())).collect();
    map.put_all(&entries).await.expect("the server answers");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..report.rounds {
        let start = Instant::now();
        for _ in 0..REPEATS {
            let mut pipe = redis::pipe();
            keys.iter().for_each(|key| _ = pipe.hget("many", key));
            let found: Vec<String> = pipe.query_async(&mut floor.clone()).await.expect("the server answers");
            assert_eq!(found.len(), MANY);
        }
        theirs.push(per_second(start));
        let start = Instant::now();
        for _ in 0..REPEATS {
            let found = map.get_all(&keys).await.expect("the server answers");
            assert!(found.iter().all(|value| matches!(value, Ok(Some(_)))));
        }
        ours.push(per_second(start));
    }
    compare(report, &format!("get_all of {MANY}, {}", workers.name()), &ours, ("bare client", &theirs), "≥ ×0.9");
}

fn per_second(start: Instant) -> f64 {
    REPEATS as f64 / start.elapsed().as_secs_f64()
}

/// The time from a push to the return of a call that waits.
async fn hand_off(
    report: &mut Report,
    workers: Workers,
    server: &RedisServer,
    (grid, floor): (&Grid, &MultiplexedConnection),
) {
    let queue: Queue<String, Text> = grid.queue("hand-off").expect("a name").codec(Text);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let blocking = dial(&server.url()).await;
    for _ in 0..report.rounds {
        for own in [false, true] {
            let mut total = Duration::ZERO;
            for _ in 0..REPEATS {
                let (queue, mut blocking) = (queue.clone(), blocking.clone());
                let waiting = tokio::spawn(async move {
                    match own {
                        true => drop(queue.pop_wait(Duration::from_secs(3)).await.expect("the server answers")),
                        false => {
                            redis::cmd("BLPOP").arg("bare").arg(2).exec_async(&mut blocking).await.expect("an answer");
                        }
                    }
                    Instant::now()
                });
                tokio::time::sleep(Duration::from_millis(5)).await;
                let start = Instant::now();
                let key = if own { "hand-off" } else { "bare" };
                let mut push = redis::cmd("RPUSH");
                push.arg(key).arg("x").exec_async(&mut floor.clone()).await.expect("the server answers");
                total += waiting.await.expect("no panic").duration_since(start);
            }
            if own { &mut ours } else { &mut theirs }.push(REPEATS as f64 / total.as_secs_f64());
        }
    }
    compare(report, &format!("push to waiting pop, {}", workers.name()), &ours, ("bare client", &theirs), "≥ ×0.77");
}

/// Pops from a full queue.
async fn pops(report: &mut Report, workers: Workers, (grid, floor): (&Grid, &MultiplexedConnection)) {
    let queue: Queue<String, Text> = grid.queue("full").expect("a name").codec(Text);
    let script = redis::Script::new(POP);
    let elements = vec![value(); 10_000];
    for tasks in [1, 64] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..report.rounds {
            for own in [false, true] {
                let of_millis = if own { 200 } else { 400 };
                let wanted = usize::try_from(report.span.as_millis()).unwrap_or(0) * of_millis;
                for _ in 0..wanted.div_ceil(elements.len()) {
                    queue.push_all(&elements).await.expect("the server answers");
                }
                let counted = count(tasks, report.span, |_| {
                    let (queue, floor, script) = (queue.clone(), floor.clone(), script.clone());
                    move || {
                        let (queue, mut floor, script) = (queue.clone(), floor.clone(), script.clone());
                        async move {
                            match own {
                                true => drop(queue.pop().await.expect("the server answers").expect("an element")),
                                false => {
                                    let popped = script.key("full").invoke_async::<String>(&mut floor).await;
                                    drop(popped.expect("an element"));
                                }
                            }
                        }
                    }
                });
                if own { &mut ours } else { &mut theirs }.push(counted.await.per_second);
                queue.delete().await.expect("the server answers");
            }
        }
        compare(report, &format!("pop, {tasks} tasks, {}", workers.name()), &ours, ("bare client", &theirs), "≥ ×0.85");
    }
}

fn compare(report: &mut Report, what: &str, ours: &[f64], (who, theirs): (&str, &[f64]), target: &str) {
    let median = |all: &[f64]| {
        let mut all = all.to_vec();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (own, other) = (median(ours), median(theirs));
    report.raw(
        json!({"what": "grid", "part": what, "bandog_per_second": ours, "beside": who, "beside_per_second": theirs}),
    );
    report.row(what.to_owned(), format!("{own:.0}/s"), format!("{who} {other:.0}/s, ×{:.2}", own / other), target);
}
