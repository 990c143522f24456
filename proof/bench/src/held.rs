//! Many locks that are held for a minute: no lock must be lost, and the watchdog must use little CPU time.

use std::{
    fs,
    io::Write,
    time::{Duration, Instant},
};

use bandog::{Client, Guard, SharedHold};
use bandog_testkit::RedisServer;
use serde_json::{Value, json};

use crate::{
    again::{Again, input_ends},
    cycles::Engine,
    driver::{Row, with},
    kinds::{Kind, Lock},
    measure::Workers,
    report::{Report, Wanted, quantile},
};

/// Interval at which the bystander locks its own name.
const BYSTANDER: Duration = Duration::from_millis(20);

/// Holds this number of locks. At the same time a bystander (another process) repeatedly locks and releases its own
/// name, and measures the time, while the watchdog renews the locks. The limits are maxima of figures.
pub(crate) fn measure(report: &mut Report, span: Duration, locks: usize, limits: &[(&'static str, f64)]) {
    let server = RedisServer::start();
    let name = json!({"what": "held", "locks": locks, "seconds": span.as_secs()});
    let shown = &["lost", "core_percent", "bytes_each", "bystander_p50_us", "bystander_p99_us", "taken_s", "given_s"];
    let row = Row::new(name, shown).rounds(1).side("held", || {
        // The bystander is a separate process, so that its CPU time is not counted as CPU time of the measured process.
        let mut held = hold(&server.url(), locks, span, || Some(Again::start(&["bystander", &server.url()])));
        held["keys_left"] = json!(server.keys().iter().filter(|key| key.starts_with("held-")).count());
        held
    });
    let row = limits.iter().fold(row, |row, &(figure, limit)| row.wanted(figure, [Some(Wanted::AtMost(limit))]));
    row.measure(report);
}

/// Holds this number of locks for this time, beside a bystander that prints its figures.
pub(crate) fn hold(url: &str, locks: usize, span: Duration, bystander: impl FnOnce() -> Option<Again>) -> Value {
    Workers::Two.runtime().block_on(async {
        let client = Engine::OwnThread.connect(&format!("{url}?watchdog=30s")).await;
        let (before, start) = (resident("VmRSS:"), Instant::now());
        let guards = take(&client, Kind::Mutex, locks).await;
        let taken = start.elapsed().as_secs_f64();
        let bytes = resident("VmRSS:").saturating_sub(before) as f64 / locks as f64;
        let bystander = bystander();
        let share = core_percent(span).await;
        let times = bystander.map(|bystander| serde_json::from_str(&bystander.output()).expect("the figures"));
        let lost = guards.iter().filter(|guard| guard.is_lost()).count();
        let start = Instant::now();
        drop(guards);
        client.close().await.expect("closed");
        let figures = json!({"lost": lost, "core_percent": share, "bytes_each": bytes, "taken_s": taken,
            "given_s": start.elapsed().as_secs_f64()});
        with(figures, &times.unwrap_or_default())
    })
}

/// Takes this number of locks, each with a name of its own.
pub(crate) async fn take(client: &Client, kind: Kind, locks: usize) -> Vec<Guard<SharedHold>> {
    let mut guards = Vec::with_capacity(locks);
    while guards.len() < locks {
        // The locks are taken in groups of 100. If all tasks existed at the same time, their memory would be counted as
        // memory of the locks.
        let some = (0..100).map(|number| Lock::new(client, kind, &format!("held-{}", guards.len() + number), 1));
        let taking: Vec<_> = some.map(|lock| tokio::spawn(async move { lock.acquire().await })).collect();
        for taken in taking {
            guards.push(taken.await.expect("no panic"));
        }
    }
    guards
}

/// The main function of the bystander's process.
pub(crate) fn run_bystander(url: &str) {
    let took = Workers::Current.runtime().block_on(async {
        let client = Engine::CurrentRuntime.connect(url).await;
        let mut end = std::pin::pin!(input_ends());
        let mutex = client.mutex("bystander");
        let mut took = Vec::new();
        let turn = async || {
            let start = Instant::now();
            mutex.lock().await.expect("granted").release().await.expect("released");
            let took = start.elapsed();
            tokio::time::sleep(BYSTANDER).await;
            took.as_secs_f64() * 1e6
        };
        // If the benchmark ends early, its server ends too, and a turn could wait for the server forever.
        while let Some(time) = tokio::select! { time = turn() => Some(time), () = &mut end => None } {
            took.push(time);
        }
        took
    });
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&mut took.clone(), share));
    let figures = json!({"bystander_turns": took.len(), "bystander_p50_us": p50, "bystander_p99_us": p99,
        "bystander_most_us": most});
    // If the benchmark has ended early, the pipe is closed.
    let _ = writeln!(std::io::stdout(), "{figures}");
}

/// Memory of this process, in bytes. With the line `VmRSS:` it is the present size, with `VmHWM:` the maximum so far.
pub(crate) fn resident(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_default();
    size.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// CPU time of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Waits for this time. Returns the CPU time of this process in it, in percent of a core.
pub(crate) async fn core_percent(span: Duration) -> f64 {
    let (cpu, clock) = (cpu_seconds(), Instant::now());
    tokio::time::sleep(span).await;
    100.0 * (cpu_seconds() - cpu) / clock.elapsed().as_secs_f64()
}
