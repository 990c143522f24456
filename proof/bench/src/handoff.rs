//! Hand-offs: the time from one client's call of `release` until another client has the lock.

use std::time::{Duration, Instant};

use bandog_testkit::{RedisServer, Wire};
use serde_json::{Value, json};

use crate::{
    cycles::Engine,
    driver::Row,
    floor::{ByHand, Fenced, Floor},
    kinds::{Kind, Lock},
    measure::Workers,
    report::{Report, Wanted, quantile, times},
};

/// Hand-offs on Redis, in round trips of a bare command.
pub(crate) fn measure(report: &mut Report) {
    let server = RedisServer::start();
    let wire = Wire::to(server.addr());
    wire.delay(Duration::from_millis(4));
    for (place, url, turns, [p50, p99]) in [
        ("4 ms each way", wire.url(), report.size.pick(150, 5), [2.2, 2.6]),
        ("loopback", server.url(), report.size.pick(2000, 50), [4.0, 10.0]),
    ] {
        Row::new(json!({"what": "handoff", "place": place}), &["p50_trips", "p99_trips"])
            .engines(|engine| in_trips(&url, engine, turns))
            .wanted("p50_trips", [Some(Wanted::AtMost(p50)); 2])
            .wanted("p99_trips", [Some(Wanted::AtMost(p99)); 2])
            .measure(report);
    }
}

fn in_trips(url: &str, engine: Engine, turns: usize) -> Value {
    let trip = Workers::Two.runtime().block_on(trip(url, turns));
    // Before this time has passed, the waiter has claimed the lock, subscribed, and claimed again, which takes four round
    // trips. The rest ensures that no request is in flight.
    let pause = Duration::from_secs_f64(5.0 * trip) + Duration::from_millis(1);
    let mut passed = hand_offs(url, Kind::Mutex, engine, turns, pause);
    for (from, to) in [("p50_ms", "p50_trips"), ("p99_ms", "p99_trips")] {
        passed[to] = json!(passed[from].as_f64().map(|time| time / 1e3 / trip));
    }
    passed["trip_us"] = json!(trip * 1e6);
    passed
}

/// The median duration of a round trip, in seconds. A cycle of the floor has two round trips.
async fn trip(url: &str, turns: usize) -> f64 {
    let floor = Floor::dial(url, Fenced::Yes).await;
    let mut trips = Vec::new();
    for _ in 0..turns {
        let start = Instant::now();
        floor.cycle(0, "trip").await;
        trips.push(start.elapsed().as_secs_f64() / 2.0);
    }
    quantile(&mut trips, 0.5)
}

/// The durations of hand-offs between two clients. The lock is released when the waiter has waited for `pause`.
pub(crate) fn hand_offs(url: &str, kind: Kind, engine: Engine, turns: usize, pause: Duration) -> Value {
    times(Workers::Two.runtime().block_on(passes(url, kind, engine, turns, pause)))
}

async fn passes(url: &str, kind: Kind, engine: Engine, turns: usize, pause: Duration) -> Vec<f64> {
    let (one, other) = (engine.connect(url).await, engine.connect(url).await);
    let name = format!("ours-hand-off-{}", kind.name());
    let (held, wanted) = (Lock::new(&one, kind.holder(), &name, 1), Lock::new(&other, kind, &name, 1));
    let mut passed = Vec::with_capacity(turns);
    for _ in 0..turns {
        let guard = held.acquire().await;
        let wanted = wanted.clone();
        let waiting = tokio::spawn(async move {
            let guard = wanted.acquire().await;
            (guard, Instant::now())
        });
        tokio::time::sleep(pause).await;
        let released = Instant::now();
        guard.release().await.expect("released");
        let (taken, at) = waiting.await.expect("no panic");
        passed.push(at.duration_since(released).as_secs_f64());
        // If the engine runs on this runtime, it ends with the runtime. A guard that is only dropped might then not be
        // released.
        taken.release().await.expect("released");
    }
    one.close().await.expect("closed");
    other.close().await.expect("closed");
    passed
}
