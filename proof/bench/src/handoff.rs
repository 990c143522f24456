//! Measures a hand-off: the time from one client's call of `release` until another client has the lock, in round trips.

use std::time::{Duration, Instant};

use bandog::Client;
use bandog_testkit::{RedisServer, Wire};
use serde_json::json;

use crate::{
    cycles::Engine,
    measure::Workers,
    report::{Report, median, quantile},
};

pub(crate) fn measure(report: &mut Report) {
    let server = RedisServer::start();
    let wire = Wire::to(server.addr());
    wire.delay(Duration::from_millis(4));
    for engine in [Engine::OwnThread, Engine::CurrentRuntime] {
        for (place, url, turns, target) in [
            ("4 ms each way", wire.url(), report.size.pick(150, 5), "p50 ≤ 2.2, p99 ≤ 2.6"),
            ("loopback", server.url(), report.size.pick(2000, 50), "p50 ≤ 4, p99 ≤ 10"),
        ] {
            let (mut p50s, mut p99s) = (Vec::new(), Vec::new());
            for round in 0..report.rounds {
                let passed = Workers::Two.runtime().block_on(passes(&url, &url, engine, turns));
                let Passed { trip, mut passed } = passed;
                let (p50, p99) = (quantile(&mut passed, 0.5) / trip, quantile(&mut passed, 0.99) / trip);
                report.raw(json!({"what": "handoff", "round": round, "place": place, "engine": engine.name(),
                    "trip_us": trip * 1e6, "p50_trips": p50, "p99_trips": p99}));
                p50s.push(p50);
                p99s.push(p99);
            }
            let ours = format!("p50 {:.2}, p99 {:.2} trips", median(p50s), median(p99s));
            report.row(
                format!("hand-off, {place}, {}", engine.name()),
                ours,
                "round trip of a bare command".into(),
                target,
            );
        }
    }
}

/// The duration of a round trip, and of each hand-off, in seconds.
pub(crate) struct Passed {
    pub(crate) trip: f64,
    pub(crate) passed: Vec<f64>,
}

/// Passes a lock of the store at `url` to and fro between two clients. The round trip is that of `server`.
pub(crate) async fn passes(server: &str, url: &str, engine: Engine, turns: usize) -> Passed {
    let trip = trip(server, turns).await;
    // A claim of a quorum can take two round trips, and its servers share the machine.
    let (trips, rest) = if server == url { (5.0, 1) } else { (10.0, 5) };
    let (one, other) = (engine.connect(url).await, engine.connect(url).await);
    let mut passed = Vec::with_capacity(turns);
    let mut guard = one.mutex("baton").lock().await.expect("granted");
    for turn in 0..turns {
        let next: &Client = if turn % 2 == 0 { &other } else { &one };
        let mutex = next.mutex("baton");
        let waiting = tokio::spawn(async move {
            let guard = mutex.lock().await.expect("granted");
            (guard, Instant::now())
        });
        // Before this time has passed, the waiter has claimed the lock, subscribed, and claimed again, which takes four
        // round trips. The rest ensures that no request is in flight.
        tokio::time::sleep(Duration::from_secs_f64(trip * trips) + Duration::from_millis(rest)).await;
        let released = Instant::now();
        guard.release().await.expect("released");
        let (taken, at) = waiting.await.expect("no panic");
        passed.push(at.duration_since(released).as_secs_f64());
        guard = taken;
    }
    // If the engine runs on this runtime, it ends with the runtime. A guard that is only dropped might then not be
    // released. Its lock would block the next round until the ttl has passed.
    guard.release().await.expect("released");
    one.close().await.expect("closed");
    other.close().await.expect("closed");
    Passed { trip, passed }
}

/// The median duration of a round trip, in seconds. A cycle of the floor has two round trips.
async fn trip(url: &str, turns: usize) -> f64 {
    let floor = crate::floor::Floor::dial(url, crate::floor::Fenced::Yes).await;
    let mut trips = Vec::new();
    for _ in 0..turns {
        let start = Instant::now();
        floor.cycle("trip").await;
        trips.push(start.elapsed().as_secs_f64() / 2.0);
    }
    quantile(&mut trips, 0.5)
}
