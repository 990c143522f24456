//! Locks and releases per second on a Redis Cluster of three masters against the floor. The floor sends the same scripts
//! directly to the node of each name, over one connection to each node. Each task has its own name.

use std::collections::HashMap;

use bandog_testkit::RedisCluster;
use serde_json::json;

use crate::{
    cycles::{self, Engine},
    floor::{Fenced, Floor},
    measure::{Workers, count},
    report::{Report, median},
};

pub(crate) fn measure(report: &mut Report) {
    let cluster = RedisCluster::start(3, 0);
    for workers in [Workers::Two, Workers::Current] {
        for tasks in [1, 64] {
            compare(report, &cluster, workers, tasks);
        }
    }
}

fn compare(report: &mut Report, cluster: &RedisCluster, workers: Workers, tasks: usize) {
    let engines = [Engine::OwnThread, Engine::CurrentRuntime];
    let (mut floors, mut ratios) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..report.rounds {
        let floor = floor(report, cluster, workers, tasks);
        for (engine, ratios) in engines.into_iter().zip(&mut ratios) {
            let ours = cycles::ours(report, &cluster.url(), workers, tasks, engine);
            report.raw(json!({"what": "cluster", "round": round, "workers": workers.name(), "tasks": tasks,
                "engine": engine.name(), "ours": ours, "floor": floor, "ratio": ours / floor}));
            ratios.push(ours / floor);
        }
        floors.push(floor);
    }
    for (engine, ratios) in engines.into_iter().zip(ratios) {
        let what = format!("cluster, {tasks} tasks, {}, {}", workers.name(), engine.name());
        let target = if tasks == 64 { "≥ 0.9" } else { "" };
        report.row(what, format!("×{:.2}", median(ratios)), format!("floor {:.0}/s", median(floors.clone())), target);
    }
}

fn floor(report: &Report, cluster: &RedisCluster, workers: Workers, tasks: usize) -> f64 {
    let names: Vec<_> = (0..tasks).map(|number| format!("floor-{number}")).collect();
    let nodes: Vec<_> = names.iter().map(|name| cluster.master_of(cluster.slot(name)).url()).collect();
    workers.runtime().block_on(async {
        let mut floors = HashMap::new();
        for url in &nodes {
            if !floors.contains_key(url) {
                floors.insert(url.clone(), Floor::dial(url, Fenced::Yes).await);
            }
        }
        let cycle = |number: usize| {
            let (floor, name) = (floors[&nodes[number]].clone(), names[number].clone());
            move || {
                let (floor, name) = (floor.clone(), name.clone());
                async move { floor.cycle(&name).await }
            }
        };
        count(tasks, report.span, cycle).await.per_second
    })
}
