//! Locks and releases per second against the floor. Each task has its own name.

use bandog::{Client, ConnectOptions};
use bandog_testkit::RedisServer;
use serde_json::json;

use crate::{
    floor::{Fenced, Floor},
    measure::{Workers, count},
    report::{Report, median},
};

/// The place where the client's engine (its background task) runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Engine {
    OwnThread,
    CurrentRuntime,
}

impl Engine {
    pub(crate) async fn connect(self, url: &str) -> Client {
        let options = ConnectOptions::parse(url).expect("a URL");
        let options = match self {
            Self::OwnThread => options,
            Self::CurrentRuntime => options.on_current_runtime(),
        };
        options.connect().await.expect("the server answers")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OwnThread => "own thread",
            Self::CurrentRuntime => "current runtime",
        }
    }
}

pub(crate) fn measure(report: &mut Report) {
    let server = RedisServer::start();
    for workers in [Workers::Two, Workers::Current] {
        for tasks in [1, 8, 64, 512] {
            compare(report, &server.url(), workers, tasks);
        }
    }
}

fn compare(report: &mut Report, url: &str, workers: Workers, tasks: usize) {
    let engines = [Engine::OwnThread, Engine::CurrentRuntime];
    let mut floors = Vec::new();
    let mut plain = Vec::new();
    let mut ratios = [Vec::new(), Vec::new()];
    for round in 0..report.rounds {
        let floor = floor(report, url, workers, tasks, Fenced::Yes);
        plain.push(self::floor(report, url, workers, tasks, Fenced::No) / floor);
        for (engine, ratios) in engines.into_iter().zip(&mut ratios) {
            let ours = ours(report, url, workers, tasks, engine);
            report.raw(json!({"what": "cycles", "round": round, "workers": workers.name(), "tasks": tasks,
                "engine": engine.name(), "ours": ours, "floor": floor, "ratio": ours / floor}));
            ratios.push(ours / floor);
        }
        floors.push(floor);
    }
    for (engine, ratios) in engines.into_iter().zip(ratios) {
        let what = format!("{tasks} tasks, {}, {}", workers.name(), engine.name());
        let against = format!("floor {:.0}/s; without a fence ×{:.2}", median(floors.clone()), median(plain.clone()));
        report.row(what, format!("×{:.2}", median(ratios)), against, target(workers, tasks, engine));
    }
}

fn target(workers: Workers, tasks: usize, engine: Engine) -> &'static str {
    match (workers, engine, tasks) {
        (Workers::Two, Engine::OwnThread, 1) => "≥ 0.68",
        (Workers::Two, Engine::OwnThread, 8) => "≥ 0.7",
        (Workers::Two, Engine::OwnThread, 64) => "≥ 1.15",
        (Workers::Two, Engine::OwnThread, 512) => "≥ 1.08",
        (Workers::Two, Engine::CurrentRuntime, 1) => "≥ 0.92",
        (Workers::Two, Engine::CurrentRuntime, 64) => "≥ 0.95",
        _ => "",
    }
}

fn floor(report: &Report, url: &str, workers: Workers, tasks: usize, fenced: Fenced) -> f64 {
    workers.runtime().block_on(async {
        let floor = Floor::dial(url, fenced).await;
        let cycle = |number| {
            let (floor, name) = (floor.clone(), format!("floor-{number}"));
            move || {
                let (floor, name) = (floor.clone(), name.clone());
                async move { floor.cycle(&name).await }
            }
        };
        count(tasks, report.span, cycle).await.per_second
    })
}

pub(crate) fn ours(report: &Report, url: &str, workers: Workers, tasks: usize, engine: Engine) -> f64 {
    workers.runtime().block_on(async {
        let client = engine.connect(url).await;
        let cycle = |number| {
            let mutex = client.mutex(format!("ours-{number}"));
            move || {
                let mutex = mutex.clone();
                async move { mutex.lock().await.expect("granted").release().await.expect("released") }
            }
        };
        let counted = count(tasks, report.span, cycle).await;
        client.close().await.expect("closed");
        counted.per_second
    })
}
