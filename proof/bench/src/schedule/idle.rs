//! The cost of a node whose jobs are not due: queries of the store, CPU time and memory.

use std::time::{Duration, Instant};

use bandog::schedule::{Job, Run, Scheduler};
use bandog_testkit::RedisServer;
use serde_json::json;

use crate::{
    cycles::Engine,
    held::{cpu_seconds, resident},
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
        let server = RedisServer::start();
        let (bytes, share, rate) = Workers::Two.runtime().block_on(node(&server, jobs, span));
        let on_server = used(&server) as f64 / jobs as f64;
        report.raw(json!({"what": "idle node", "jobs": jobs, "bytes_each": bytes, "core_percent": share,
            "commands_per_second": rate, "server_bytes_each": on_server}));
        let memory =
            if jobs < 1000 { String::new() } else { format!("{bytes:.0} bytes a job here, {on_server:.0} in Redis") };
        report.row(
            format!("a node with {jobs} cluster jobs, none due"),
            format!("{share:.2} % of a core, {rate:.1} commands/s"),
            memory,
            "",
        );
    }
}

/// Bytes per job, CPU time in percent of a core, and commands per second.
async fn node(server: &RedisServer, count: usize, span: Duration) -> (f64, f64, f64) {
    let client = Engine::OwnThread.connect(&server.url()).await;
    let before = resident("VmRSS:");
    let jobs = (0..count).map(|number| Job::cron(format!("job-{number}"), "0 0 0 1 1 ? 2099").run(async |_: Run| ()));
    let running = Scheduler::over(&client).jobs(jobs).start().await.expect("started");
    running.idle().await;
    let bytes = resident("VmRSS:").saturating_sub(before) as f64 / count as f64;
    let (commands, cpu, clock) = (processed(server), cpu_seconds(), Instant::now());
    tokio::time::sleep(span).await;
    let seconds = clock.elapsed().as_secs_f64();
    let share = 100.0 * (cpu_seconds() - cpu) / seconds;
    let rate = (processed(server) - commands) as f64 / seconds;
    running.stop().await.expect("stopped");
    client.close().await.expect("closed");
    (bytes, share, rate)
}

/// Memory that the server uses for its data, in bytes.
fn used(server: &RedisServer) -> u64 {
    let info = server.cmd(&["INFO", "memory"]).text().to_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).expect("the server counts its bytes")
}
