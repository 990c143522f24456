//! The cost of `?replicas=1`: cycles of a lock and its release, with a replica that is near, 5 ms or 50 ms behind.

use std::time::Duration;

use bandog_testkit::RedisServer;
use serde_json::json;

use crate::{
    cycles::{self, Engine},
    measure::Workers,
    report::{Report, median},
};

pub(crate) fn measure(report: &mut Report) {
    let master = RedisServer::start_on_machine(&[]);
    let replica = RedisServer::replica_of(&master);
    let without = master.url();
    let with = format!("{without}?replicas=1");
    for lag in [0, 5, 50] {
        replica.stream().delay_replies(Duration::from_millis(lag));
        for tasks in [1, 64] {
            compare(report, lag, &without, &with, tasks);
        }
    }
}

fn compare(report: &mut Report, lag: u64, without: &str, with: &str, tasks: usize) {
    let (mut plain, mut acknowledged, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..report.rounds {
        let [without, with] =
            [without, with].map(|url| cycles::ours(report, url, Workers::Two, tasks, Engine::OwnThread));
        report.raw(json!({"what": "replicas", "round": round, "lag_ms": lag, "tasks": tasks, "without": without,
            "with": with, "ratio": with / without}));
        plain.push(without);
        acknowledged.push(with);
        ratios.push(with / without);
    }
    report.row(
        format!("replicas=1, {tasks} tasks, {lag} ms behind"),
        format!("{:.0}/s, ×{:.3}", median(acknowledged), median(ratios)),
        format!("without {:.0}/s", median(plain)),
        "",
    );
}
