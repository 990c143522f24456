//! Many tasks lock the same name.

use std::time::Duration;

use bandog::Client;
use bandog_testkit::RedisServer;
use serde_json::json;

use crate::{
    cycles::Engine,
    floor::{Fenced, Floor},
    measure::{Counted, Workers, count},
    report::{Report, median},
};

/// Measures 64 tasks that lock one name with an empty section. The result is compared with the floor (the scripts
/// without bandog) of one task.
pub(crate) fn one_name(report: &mut Report) {
    let server = RedisServer::start();
    for workers in [Workers::Two, Workers::Current] {
        for engine in [Engine::OwnThread, Engine::CurrentRuntime] {
            let (mut ratios, mut rates, mut least) = (Vec::new(), Vec::new(), u64::MAX);
            for round in 0..report.rounds {
                let floor = workers.runtime().block_on(one_floor(&server.url(), report.span));
                let ours = workers.runtime().block_on(async {
                    let client = engine.connect(&server.url()).await;
                    together(&client, 64, report.span).await
                });
                least = least.min(*ours.each.iter().min().expect("64 tasks"));
                report.raw(json!({"what": "one-name", "round": round, "workers": workers.name(),
                    "engine": engine.name(), "ours": ours.per_second, "floor": floor, "each": ours.each}));
                ratios.push(ours.per_second / floor);
                rates.push(ours.per_second);
            }
            let what = format!("64 tasks on one name, {}, {}", workers.name(), engine.name());
            let ours = format!("×{:.2} ({:.0}/s; the least served {least})", median(ratios), median(rates));
            report.row(what, ours, "floor of 1 task".into(), "≥ 2.5, all served");
        }
    }
}

/// Number of cycles per second of the floor, with one task.
async fn one_floor(url: &str, span: Duration) -> f64 {
    let floor = Floor::dial(url, Fenced::Yes).await;
    let cycle = |_| {
        let floor = floor.clone();
        move || {
            let floor = floor.clone();
            async move { floor.cycle("floor").await }
        }
    };
    count(1, span, cycle).await.per_second
}

/// Counts the cycles of the tasks of one client, which all lock the same name.
pub(crate) async fn together(client: &Client, tasks: usize, span: Duration) -> Counted {
    let cycle = |_| {
        let mutex = client.mutex("one");
        move || {
            let mutex = mutex.clone();
            async move { mutex.lock().await.expect("granted").release().await.expect("released") }
        }
    };
    count(tasks, span, cycle).await
}

/// Measures several clients with 16 tasks each on one name: how evenly they share the lock, and the number of commands
/// for each grant.
pub(crate) fn shares(report: &mut Report) {
    for clients in [2, 8] {
        let (mut spreads, mut costs) = (Vec::new(), Vec::new());
        for round in 0..report.rounds {
            let server = RedisServer::start();
            let before = server.calls("evalsha");
            let shares = Workers::Two.runtime().block_on(client_shares(&server.url(), clients, report.span));
            let grants: f64 = shares.iter().sum();
            let cost = (server.calls("evalsha") - before) as f64 / grants;
            let mean = grants / clients as f64;
            let spread = shares.iter().map(|share| (share / mean - 1.0).abs()).fold(0.0, f64::max);
            report.raw(json!({"what": "shares", "round": round, "clients": clients, "grants": shares,
                "spread": spread, "evalsha_a_grant": cost}));
            spreads.push(spread);
            costs.push(cost);
        }
        let ours = format!("shares within {:.0} %, {:.2} EVALSHA a grant", 100.0 * median(spreads), median(costs));
        let target = if clients == 2 { "within 20 %" } else { "≤ 2 EVALSHA a grant" };
        report.row(
            format!("{clients} clients × 16 tasks on one name"),
            ours,
            "a grant = one served task".into(),
            target,
        );
    }
}

/// Number of grants of each client.
async fn client_shares(url: &str, clients: usize, span: Duration) -> Vec<f64> {
    let mut running = Vec::new();
    for _ in 0..clients {
        let client = Engine::OwnThread.connect(url).await;
        running.push(tokio::spawn(async move { together(&client, 16, span).await.each.iter().sum::<u64>() as f64 }));
    }
    let mut shares = Vec::new();
    for client in running {
        shares.push(client.await.expect("no panic"));
    }
    shares
}
