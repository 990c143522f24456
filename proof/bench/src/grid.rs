//! The objects of the grid, compared with the same commands through the bare client of Redis on one connection, and with
//! Redisson.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bandog::grid::{ClientGrid, Grid, Map, Queue, codec::Text};
use bandog_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    cycles::Load,
    driver::Row,
    floor::dial,
    java::{Java, REDISSON},
    measure::{Workers, count},
    report::{Report, Wanted},
};

/// The numbers of tasks.
const TASKS: [usize; 3] = [1, 64, 1_024];
/// The number of entries of a call for many.
const MANY: usize = 1_000;
/// Number of calls for many, or of hand-offs, in a measurement.
const REPEATS: usize = 100;

const RATE: &[&str] = &["per_second"];
/// The floor of a pop: a script that takes the first element.
const POP: &str = "return redis.call('LPOP', KEYS[1])";

/// A grid, and the bare client beside it.
struct Beside {
    grid: Grid,
    floor: MultiplexedConnection,
    server: RedisServer,
    workers: Workers,
    runtime: Runtime,
}

impl Beside {
    fn start(workers: Workers) -> Self {
        let (runtime, server) = (workers.runtime(), RedisServer::start());
        let grid = runtime.block_on(bandog::connect(server.url())).expect("the server answers").grid();
        let floor = runtime.block_on(dial(&server.url()));
        Self { grid, floor, server, workers, runtime }
    }

    /// Measures calls of the grid beside those of the bare client.
    fn compare(
        &self,
        report: &mut Report,
        what: &str,
        wanted: f64,
        ours: impl AsyncFn() -> Value,
        bare: impl AsyncFn() -> Value,
    ) {
        Row::new(json!({"what": "grid", "part": what, "workers": self.workers.name()}), RATE)
            .side("bandog", || self.runtime.block_on(ours()))
            .wanted("per_second_ratio", [Some(Wanted::AtLeast(wanted))])
            .beside("bare client", || self.runtime.block_on(bare()))
            .measure(report);
    }
}

/// Measures the objects. `redisson` is the folder of the Java side; without it, Redisson is not measured.
pub(crate) fn measure(report: &mut Report, redisson: Option<&Path>) {
    beside_redisson(report, redisson);
    for workers in Workers::ALL {
        let beside = Beside::start(workers);
        for tasks in TASKS {
            calls(report, &beside, tasks);
        }
        many(report, &beside);
        hand_off(report, &beside);
        pops(report, &beside);
    }
}

/// Puts and gets of single entries by 64 tasks and threads, beside Redisson.
fn beside_redisson(report: &mut Report, folder: Option<&Path>) {
    let (Beside { runtime, server, grid, .. }, span) = (Beside::start(Workers::Two), report.span);
    let mut redisson = Java::start(REDISSON, folder, &server.url());
    if redisson.is_none() {
        return;
    }
    for verb in ["put", "get"] {
        Row::new(json!({"what": "grid", "part": format!("map {verb}"), "tasks": Load::OWN_NAMES.tasks}), RATE)
            .side("bandog", || runtime.block_on(map_calls(&grid, verb, Load::OWN_NAMES.tasks, span)))
            .wanted("per_second_ratio", [Some(Wanted::AtLeast(2.0))])
            .java(&mut redisson, |java| java.cycles(&format!("map-{verb}"), Load::OWN_NAMES, span))
            .measure(report);
    }
}

fn value() -> String {
    "x".repeat(100)
}

/// Puts and gets of single entries.
fn calls(report: &mut Report, beside: &Beside, tasks: usize) {
    let span = report.span;
    for verb in ["put", "get"] {
        let bare = || {
            count(tasks, span, |task| {
                let (floor, key, value) = (beside.floor.clone(), task.to_string(), value());
                move || {
                    let (mut floor, mut cmd) = (floor.clone(), redis::cmd(if verb == "put" { "HSET" } else { "HGET" }));
                    cmd.arg("map").arg(&key);
                    if verb == "put" {
                        cmd.arg(&value);
                    }
                    async move { cmd.exec_async(&mut floor).await.expect("the server answers") }
                }
            })
        };
        let ours = || map_calls(&beside.grid, verb, tasks, span);
        beside.compare(report, &format!("map {verb}, {tasks} tasks"), 0.95, ours, bare);
    }
}

/// Puts or gets of the grid.
async fn map_calls(grid: &Grid, verb: &'static str, tasks: usize, span: Duration) -> Value {
    let map: Map<String, String, Text> = grid.map("map").expect("a name").codec(Text);
    count(tasks, span, |task| {
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
    })
    .await
}

enum Either<A, B> {
    Put(A),
    Get(B),
}

/// A thousand values with one call.
fn many(report: &mut Report, beside: &Beside) {
    let map: Map<String, String, Text> = beside.grid.map("many").expect("a name").codec(Text);
    let keys: Vec<String> = (0..MANY).map(|key| key.to_string()).collect();
    let entries: Vec<(String, String)> = keys.iter().map(|key| (key.clone(), value())).collect();
    beside.runtime.block_on(map.put_all(&entries).into_future()).expect("the server answers");
    let bare = async || {
        let start = Instant::now();
        for _ in 0..REPEATS {
            let mut pipe = redis::pipe();
            keys.iter().for_each(|key| _ = pipe.hget("many", key));
            let found: Vec<String> = pipe.query_async(&mut beside.floor.clone()).await.expect("the server answers");
            assert_eq!(found.len(), MANY);
        }
        per_second(start.elapsed())
    };
    let ours = async || {
        let start = Instant::now();
        for _ in 0..REPEATS {
            let found = map.get_all(&keys).await.expect("the server answers");
            assert!(found.iter().all(|value| matches!(value, Ok(Some(_)))));
        }
        per_second(start.elapsed())
    };
    beside.compare(report, &format!("get_all of {MANY}"), 0.9, ours, bare);
}

fn per_second(time: Duration) -> Value {
    json!({"per_second": REPEATS as f64 / time.as_secs_f64()})
}

/// The time from a push to the return of a call that waits.
fn hand_off(report: &mut Report, beside: &Beside) {
    let queue: Queue<String, Text> = beside.grid.queue("hand-off").expect("a name").codec(Text);
    let blocking = beside.runtime.block_on(dial(&beside.server.url()));
    let bare = || {
        pass(&beside.floor, "bare", || {
            let (mut blocking, mut pop) = (blocking.clone(), redis::cmd("BLPOP"));
            pop.arg("bare").arg(2);
            async move { pop.exec_async(&mut blocking).await.expect("an answer") }
        })
    };
    let ours = || {
        pass(&beside.floor, "hand-off", || {
            let queue = queue.clone();
            async move { drop(queue.pop_wait(Duration::from_secs(3)).await.expect("the server answers")) }
        })
    };
    beside.compare(report, "push to waiting pop", 0.77, ours, bare);
}

/// Pushes an element when a call waits for one, and measures the time until the call returns.
async fn pass<F>(floor: &MultiplexedConnection, key: &str, pop: impl Fn() -> F) -> Value
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut total = Duration::ZERO;
    for _ in 0..REPEATS {
        let pop = pop();
        let waiting = tokio::spawn(async move {
            pop.await;
            Instant::now()
        });
        tokio::time::sleep(Duration::from_millis(5)).await;
        let (start, mut push) = (Instant::now(), redis::cmd("RPUSH"));
        push.arg(key).arg("x").exec_async(&mut floor.clone()).await.expect("the server answers");
        total += waiting.await.expect("no panic").duration_since(start);
    }
    per_second(total)
}

/// Pops from a full queue.
fn pops(report: &mut Report, beside: &Beside) {
    let (queue, span): (Queue<String, Text>, _) = (beside.grid.queue("full").expect("a name").codec(Text), report.span);
    let (script, elements) = (redis::Script::new(POP), vec![value(); 10_000]);
    let fill = async |of_millis: usize| {
        let wanted = usize::try_from(span.as_millis()).unwrap_or(0) * of_millis;
        for _ in 0..wanted.div_ceil(elements.len()) {
            queue.push_all(&elements).await.expect("the server answers");
        }
    };
    let empty = async || _ = queue.delete().await.expect("the server answers");
    for tasks in [1, 64] {
        let bare = async || {
            fill(400).await;
            let counted = count(tasks, span, |_| {
                let (floor, script) = (beside.floor.clone(), script.clone());
                move || {
                    let (mut floor, script) = (floor.clone(), script.clone());
                    async move {
                        let popped = script.key("full").invoke_async::<String>(&mut floor).await;
                        drop(popped.expect("an element"));
                    }
                }
            });
            let counted = counted.await;
            empty().await;
            counted
        };
        let ours = async || {
            fill(200).await;
            let counted = count(tasks, span, |_| {
                let queue = queue.clone();
                move || {
                    let queue = queue.clone();
                    async move { drop(queue.pop().await.expect("the server answers").expect("an element")) }
                }
            });
            let counted = counted.await;
            empty().await;
            counted
        };
        beside.compare(report, &format!("pop, {tasks} tasks"), 0.85, ours, bare);
    }
}
