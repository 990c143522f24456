//! Hand-offs of each kind: the time from one client's call of `release` until another client has the lock.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bandog_testkit::RedisServer;
use serde_json::json;

use super::{Kind, Lock};
use crate::{
    cycles::Engine,
    java::Java,
    measure::Workers,
    report::{Report, median, quantile},
};

/// Time from the call of a waiter until the lock is released. In this time the waiter claims the lock, subscribes and
/// claims again.
const PAUSE: Duration = Duration::from_millis(3);

/// The medians and the 99th percentiles of the rounds, in microseconds.
#[derive(Default)]
struct Times {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Times {
    fn add(&mut self, report: &mut Report, (round, kind, side): (usize, Kind, &str), mut seconds: Vec<f64>) {
        let (p50, p99) = (quantile(&mut seconds, 0.5) * 1e6, quantile(&mut seconds, 0.99) * 1e6);
        report.raw(json!({"what": "kinds-handoff", "round": round, "kind": kind.name(), "side": side, "p50_us": p50,
            "p99_us": p99}));
        self.p50.push(p50);
        self.p99.push(p99);
    }

    fn text(self) -> String {
        format!("p50 {:.0}, p99 {:.0} µs", median(self.p50), median(self.p99))
    }
}

/// Measures the hand-offs of each kind. Without the folder of the Java side, Redisson is not measured.
pub(crate) fn measure(report: &mut Report, redisson: Option<&Path>) {
    let server = RedisServer::start();
    let mut redisson = redisson.map(|folder| Java::redisson(folder, &server.url()));
    let turns = report.size.pick(150, 10);
    for kind in Kind::ALL {
        let (mut own, mut current, mut java) = (Times::default(), Times::default(), Times::default());
        if let Some(redisson) = &mut redisson {
            // Afterwards the JVM has compiled this code.
            for _ in 0..2 {
                redisson.hand_offs(kind, turns, PAUSE);
            }
        }
        for round in 0..report.rounds {
            for (engine, times) in [(Engine::OwnThread, &mut own), (Engine::CurrentRuntime, &mut current)] {
                let passed = Workers::Two.runtime().block_on(passes(&server.url(), kind, engine, turns, PAUSE));
                times.add(report, (round, kind, engine.name()), passed);
            }
            if let Some(redisson) = &mut redisson {
                java.add(report, (round, kind, "Redisson 4.7.0"), redisson.hand_offs(kind, turns, PAUSE));
            }
        }
        let against = if redisson.is_some() { format!("Redisson {}", java.text()) } else { String::new() };
        for (engine, times) in [(Engine::OwnThread, own), (Engine::CurrentRuntime, current)] {
            report.row(format!("hand-off, {}, {}", kind.name(), engine.name()), times.text(), against.clone(), "");
        }
    }
}

/// The duration of each hand-off, in seconds. The lock is released when the waiter has waited for `pause`.
pub(crate) async fn passes(url: &str, kind: Kind, engine: Engine, turns: usize, pause: Duration) -> Vec<f64> {
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
        taken.release().await.expect("released");
    }
    one.close().await.expect("closed");
    other.close().await.expect("closed");
    passed
}
