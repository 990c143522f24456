//! Many locks held for a while: none may be lost, and the watchdog may cost next to nothing.

use std::{
    fs,
    time::{Duration, Instant},
};

use bandog_testkit::RedisServer;
use serde_json::json;

use crate::{cycles::Engine, measure::Workers, report::Report};

const LOCKS: usize = 10_000;

pub(crate) fn measure(report: &mut Report, hold: Duration) {
    let server = RedisServer::start();
    let url = format!("{}?watchdog=30s", server.url());
    Workers::Two.runtime().block_on(async {
        let client = Engine::OwnThread.connect(&url).await;
        let before = resident();
        let start = Instant::now();
        let mut guards = Vec::with_capacity(LOCKS);
        while guards.len() < LOCKS {
            // Not all at once: what their tasks take for a moment would be counted as the locks' memory.
            let some = (0..100).map(|number| client.mutex(format!("held-{}", guards.len() + number)));
            let taking: Vec<_> = some.map(|mutex| tokio::spawn(async move { mutex.lock().await })).collect();
            for taken in taking {
                guards.push(taken.await.expect("no panic").expect("granted"));
            }
        }
        let taken = start.elapsed();
        let bytes = (resident() - before) as f64 / LOCKS as f64;
        let (cpu, clock) = (cpu_seconds(), Instant::now());
        tokio::time::sleep(hold).await;
        let share = 100.0 * (cpu_seconds() - cpu) / clock.elapsed().as_secs_f64();
        let lost = guards.iter().filter(|guard| guard.is_lost()).count();
        let start = Instant::now();
        drop(guards);
        client.close().await.expect("closed");
        let given = start.elapsed();
        report.raw(json!({"what": "held", "locks": LOCKS, "seconds": hold.as_secs_f64(), "lost": lost,
            "core_percent": share, "bytes_each": bytes, "taken_s": taken.as_secs_f64(), "given_s": given.as_secs_f64(),
            "keys_left": server.keys().iter().filter(|key| key.starts_with("held-")).count()}));
        let ours = format!("{lost} lost, {share:.2} % of a core, {bytes:.0} bytes each");
        let against = format!("taken in {:.2} s, given back in {:.2} s", taken.as_secs_f64(), given.as_secs_f64());
        report.row(
            format!("{LOCKS} locks held for {} s", hold.as_secs()),
            ours,
            against,
            "0 lost, ≤ 1 %, ≤ 1500 bytes",
        );
    });
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
