//! Compares a quorum of three servers with one server: cycles of a lock and its release, and hand-offs.

use std::time::Duration;

use bandog_testkit::{RedisServer, Wire};
use serde_json::json;

use crate::{
    cycles::{self, Engine},
    handoff::{Passed, passes},
    measure::Workers,
    report::{Report, median, quantile},
};

pub(crate) fn measure(report: &mut Report) {
    let servers = [0; 3].map(|_| RedisServer::start());
    let wires = servers.each_ref().map(|server| Wire::to(server.addr()));
    for wire in &wires {
        wire.delay(Duration::from_millis(1));
    }
    let near = servers.each_ref().map(RedisServer::url);
    let far = wires.each_ref().map(Wire::url);
    let ttl = report.size.pick(10, 1);
    for (place, urls, turns) in
        [("loopback", near, report.size.pick(1000, 5)), ("1 ms each way", far, report.size.pick(300, 5))]
    {
        let quorum = quorum(&urls, ttl);
        Workers::Two.runtime().block_on(wait_for_votes(&quorum));
        for tasks in [1, 64] {
            compare_cycles(report, place, &urls[0], &quorum, tasks);
        }
        compare_hand_offs(report, place, &urls[0], &quorum, turns);
    }
}

/// The URL of a quorum of these servers. A server has a vote when it has run for longer than `ttl`, in seconds.
fn quorum(urls: &[String; 3], ttl: u64) -> String {
    let places: Vec<_> = urls.iter().map(|url| url.trim_start_matches("redis://").trim_end_matches("/0")).collect();
    format!("redis+quorum://{}?max_ttl={ttl}s&watchdog={ttl}s", places.join(","))
}

/// Waits until a majority of the servers has a vote.
async fn wait_for_votes(quorum: &str) {
    let client = Engine::OwnThread.connect(quorum).await;
    while !matches!(client.mutex("votes").try_lock().await, Ok(Some(_))) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    client.close().await.expect("closed");
}

fn compare_cycles(report: &mut Report, place: &str, one: &str, quorum: &str, tasks: usize) {
    let (mut singles, mut quorums, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..report.rounds {
        let [single, quorum] =
            [one, quorum].map(|url| cycles::ours(report, url, Workers::Two, tasks, Engine::OwnThread));
        report
            .raw(json!({"what": "quorum-cycles", "round": round, "place": place, "tasks": tasks, "one_server": single,
            "quorum": quorum, "ratio": quorum / single}));
        singles.push(single);
        quorums.push(quorum);
        ratios.push(quorum / single);
    }
    report.row(
        format!("quorum of 3, {tasks} tasks, {place}"),
        format!("{:.0}/s, ×{:.2}", median(quorums), median(ratios)),
        format!("one server {:.0}/s", median(singles)),
        "",
    );
}

fn compare_hand_offs(report: &mut Report, place: &str, one: &str, quorum: &str, turns: usize) {
    let (mut ours, mut against) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..report.rounds {
        for (store, url, figures) in [("one server", one, &mut against), ("quorum", quorum, &mut ours)] {
            let measured = Workers::Two.runtime().block_on(passes(one, url, Engine::OwnThread, turns));
            let Passed { trip, mut passed } = measured;
            let [p50, p99] = [0.5, 0.99].map(|share| quantile(&mut passed, share) * 1e3);
            report.raw(json!({"what": "quorum-handoff", "round": round, "place": place, "store": store,
                "trip_us": trip * 1e6, "p50_ms": p50, "p99_ms": p99}));
            figures[0].push(p50);
            figures[1].push(p99);
        }
    }
    let text = |[p50, p99]: [Vec<f64>; 2]| format!("p50 {:.2} ms, p99 {:.2} ms", median(p50), median(p99));
    report.row(format!("quorum of 3, hand-off, {place}"), text(ours), format!("one server {}", text(against)), "");
}
