//! Several Redis servers: a cluster of three masters beside the floor, a quorum of three servers beside one server, and the
//! cost of `?replicas=1`.

use std::{collections::HashMap, time::Duration};

use bandog_testkit::{RedisCluster, RedisServer, Wire};
use serde_json::{Value, json};

use crate::{
    cycles::{Engine, Load, ours},
    driver::Row,
    floor::{Fenced, Floor, by_hand},
    handoff::hand_offs,
    kinds::Kind,
    measure::Workers,
    report::{Report, Wanted},
};

/// The default client in a runtime with two workers.
const DEFAULT: (Workers, Engine) = (Workers::Two, Engine::OwnThread);

/// The floor sends the scripts directly to the node of each name, over one connection to each node.
pub(crate) fn cluster(report: &mut Report) {
    let (cluster, span) = (RedisCluster::start(3, 0), report.span);
    let url = &*cluster.url();
    for workers in Workers::ALL {
        for tasks in [1, 64] {
            let nodes = (0..tasks).map(|task| cluster.master_of(cluster.slot(&format!("floor-{task}"))).url());
            let nodes: Vec<_> = nodes.collect();
            Row::new(json!({"what": "cluster", "workers": workers.name(), "tasks": tasks}), &["per_second"])
                .engines(|engine| ours(url, (workers, engine), Kind::Mutex, Load::own_names(tasks), span))
                .wanted("per_second_ratio", [(tasks == 64).then_some(Wanted::AtLeast(0.9)); 2])
                .beside("floor", || by_hand(dial(&nodes), workers, tasks, span))
                .measure(report);
        }
    }
}

/// A connection for each of these nodes. Equal nodes share one.
async fn dial(nodes: &[String]) -> Vec<Floor> {
    let (mut floors, mut each) = (HashMap::new(), Vec::new());
    for url in nodes {
        if !floors.contains_key(url) {
            floors.insert(url, Floor::dial(url, Fenced::Yes).await);
        }
        each.push(floors[url].clone());
    }
    each
}

/// A quorum of three servers beside one of them: cycles, and hand-offs.
pub(crate) fn quorum(report: &mut Report) {
    let servers = [0; 3].map(|_| RedisServer::start());
    let wires = servers.each_ref().map(|server| Wire::to(server.addr()));
    for wire in &wires {
        wire.delay(Duration::from_millis(1));
    }
    let near = servers.each_ref().map(RedisServer::url);
    let far = wires.each_ref().map(Wire::url);
    let (ttl, turns) = (report.size.pick(10, 1), report.size.pick([1000, 300], [5, 5]));
    // Before a pause has passed, the waiter has claimed the lock, subscribed and claimed again. A claim of a quorum can
    // take two round trips, and its servers share the machine.
    for (place, urls, turns, pause) in [("loopback", near, turns[0], 6), ("1 ms each way", far, turns[1], 25)] {
        let (one, quorum) = (&*urls[0], &*quorum_of(&urls, ttl));
        Workers::Two.runtime().block_on(wait_for_votes(quorum));
        for tasks in [1, 64] {
            let cycles = |url: &str, span| ours(url, DEFAULT, Kind::Mutex, Load::own_names(tasks), span);
            let name = json!({"what": "quorum-cycles", "place": place, "tasks": tasks});
            compare(report, name, &["per_second"], [("quorum of 3", quorum), ("one server", one)], cycles);
        }
        let pause = Duration::from_millis(pause);
        let passes = |url: &str, _: Duration| hand_offs(url, Kind::Mutex, Engine::OwnThread, turns, pause);
        let name = json!({"what": "quorum-handoff", "place": place});
        compare(report, name, &["p50_ms", "p99_ms"], [("quorum of 3", quorum), ("one server", one)], passes);
    }
}

/// The URL of a quorum of these servers. A server has a vote when it has run for longer than `ttl`, in seconds.
fn quorum_of(urls: &[String; 3], ttl: u64) -> String {
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

/// Cycles with `?replicas=1` beside those without, with a replica that is near, 5 ms or 50 ms behind.
pub(crate) fn replicas(report: &mut Report) {
    let master = RedisServer::start_on_machine(&[]);
    let replica = RedisServer::replica_of(&master);
    let without = &*master.url();
    let with = &*format!("{without}?replicas=1");
    for lag in [0, 5, 50] {
        replica.stream().delay_replies(Duration::from_millis(lag));
        for tasks in [1, 64] {
            let cycles = |url: &str, span| ours(url, DEFAULT, Kind::Mutex, Load::own_names(tasks), span);
            let name = json!({"what": "replicas", "lag_ms": lag, "tasks": tasks});
            compare(report, name, &["per_second"], [("replicas=1", with), ("without", without)], cycles);
        }
    }
}

/// Measures the first URL beside the second one.
fn compare(
    report: &mut Report,
    name: Value,
    shown: &'static [&'static str],
    [(ours, our_url), (beside, other_url)]: [(&str, &str); 2],
    measure: impl Fn(&str, Duration) -> Value,
) {
    let span = report.span;
    Row::new(name, shown)
        .side(ours, || measure(our_url, span))
        .beside(beside, || measure(other_url, span))
        .measure(report);
}
