//! The cost of a node whose jobs are not due: queries of the store, CPU time and memory.

use std::time::{Duration, Instant};

use bandog::schedule::{Job, Run, Scheduler};
use bandog_testkit::RedisServer;
use serde_json::{Value, json};

use crate::{
    cycles::Engine,
    driver::Row,
    held::{core_percent, resident},
    measure::Workers,
    report::Report,
    scale::processed,
};

/// Duration of the measurement. A node reads all records every 30 s, so one such read is included.
const SPAN: Duration = Duration::from_secs(31);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) fn measure(report: &mut Report) {
    let span = report.size.pick(SPAN, SHORT);
    for jobs in [1, 100, report.size.pick(10_000, 1_000)] {
        let shown = &["core_percent", "commands_per_second", "bytes_each", "server_bytes_each"];
        Row::new(json!({"what": "idle node", "jobs": jobs}), shown)
            .rounds(1)
            .side("on Redis", || {
                let server = RedisServer::start();
                let mut figures = Workers::Two.runtime().block_on(node(&server, jobs, span));
                figures["server_bytes_each"] = json!(used(&server) as f64 / jobs as f64);
                figures
            })
            .measure(report);
    }
}

/// The cost of a node with jobs that are not due.
async fn node(server: &RedisServer, count: usize, span: Duration) -> Value {
    let client = Engine::OwnThread.connect(&server.url()).await;
    let before = resident("VmRSS:");
    let jobs = (0..count).map(|number| Job::cron(format!("job-{number}"), "0 0 0 1 1 ? 2099").run(async |_: Run| ()));
    let running = Scheduler::over(&client).jobs(jobs).start().await.expect("started");
    running.idle().await;
    let bytes = resident("VmRSS:").saturating_sub(before) as f64 / count as f64;
    let (commands, clock) = (processed(server), Instant::now());
    let share = core_percent(span).await;
    let rate = (processed(server) - commands) as f64 / clock.elapsed().as_secs_f64();
    running.stop().await.expect("stopped");
    client.close().await.expect("closed");
    json!({"bytes_each": bytes, "core_percent": share, "commands_per_second": rate})
}

/// Memory that the server uses for its data, in bytes.
fn used(server: &RedisServer) -> u64 {
    let info = server.cmd(&["INFO", "memory"]).text().to_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).expect("the server counts its bytes")
}
