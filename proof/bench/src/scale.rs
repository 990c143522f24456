//! Many waiters: their cost while they wait, and a check that all are served.

use std::time::{Duration, Instant};

use bandog_testkit::RedisServer;
use serde_json::json;

use crate::{cycles::Engine, held::core_percent, measure::Workers, report::Report};

/// Duration of the measurement of idle waiters, in full and with `--short`.
const IDLE: [Duration; 2] = [Duration::from_secs(10), Duration::from_millis(200)];

pub(crate) fn measure(report: &mut Report) {
    crowd(report, 1, report.size.pick(10_000, 200));
    crowd(report, report.size.pick(1_000, 20), 10);
}

/// One client holds `names` names. For each name, `each` calls of another client wait.
fn crowd(report: &mut Report, names: usize, each: usize) {
    let server = RedisServer::start();
    let waiters = names * each;
    let [full, short] = IDLE;
    let idle = report.size.pick(full, short);
    Workers::Two.runtime().block_on(async {
        let (holder, client) = (Engine::OwnThread.connect(&server.url()).await, Engine::OwnThread.connect(&server.url()).await);
        let mut held = Vec::with_capacity(names);
        for name in 0..names {
            held.push(holder.mutex(format!("crowd-{name}")).lock().await.expect("granted"));
        }
        let waiting: Vec<_> = (0..waiters)
            .map(|number| {
                let mutex = client.mutex(format!("crowd-{}", number % names));
                tokio::spawn(async move { mutex.lock().await.expect("granted").release().await.expect("released") })
            })
            .collect();
        // A waiting call subscribes to its name after the first refusal. So this loop ends when each name has a waiter.
        while server.cmd(&["PUBSUB", "CHANNELS"]).array().len() < names {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (commands, clock) = (processed(&server), Instant::now());
        let share = core_percent(idle).await;
        let rate = (processed(&server) - commands) as f64 / clock.elapsed().as_secs_f64();
        let channels = server.cmd(&["PUBSUB", "CHANNELS"]).array().len();
        // One of these connections is the connection of this query.
        let connections = server.cmd(&["CLIENT", "LIST"]).text().lines().count() - 1;
        let start = Instant::now();
        drop(held);
        for waiter in waiting {
            waiter.await.expect("served");
        }
        let served = start.elapsed().as_secs_f64();
        client.close().await.expect("closed");
        holder.close().await.expect("closed");
        let left = server.keys().iter().filter(|key| key.starts_with("crowd-")).count();
        report.raw(json!({"what": "crowd", "names": names, "each": each, "connections": connections,
            "subscriptions": channels, "commands_per_second": rate, "core_percent": share, "served_s": served, "keys_left": left}));
        let ours = format!(
            "{connections} connections of two clients, {channels} subscriptions, {rate:.0} commands/s, {share:.1} % of a core"
        );
        report.row(
            format!("{each} waiters on each of {names} names, for {} s", idle.as_secs_f64()),
            ours,
            format!("then all {waiters} served in {served:.2} s, {left} keys left"),
            "bounded: 2 connections a client, 1 subscription a name, ≤ 4 commands/s a name, those inside scripts counted",
        );
    });
}

/// Number of commands that the server has processed, including this one.
pub(crate) fn processed(server: &RedisServer) -> u64 {
    let info = server.cmd(&["INFO", "stats"]).text().to_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.and_then(|number| number.trim().parse().ok()).expect("the server counts its commands")
}
