//! Many locks that are held for a minute: no lock must be lost, and the watchdog must use little CPU time.

use std::{
    fs,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bandog::{Client, Guard, SharedHold};
use bandog_testkit::RedisServer;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    cycles::Engine,
    kinds::{Kind, Lock},
    measure::Workers,
    report::Report,
};

/// Interval at which the bystander locks its own name.
const BYSTANDER: Duration = Duration::from_millis(20);

/// Holds this number of locks. At the same time a bystander (another process) repeatedly locks and releases its own
/// name, and measures the time, while the watchdog renews the locks.
pub(crate) fn measure(report: &mut Report, hold: Duration, locks: usize, target: &str) {
    let server = RedisServer::start();
    let url = format!("{}?watchdog=30s", server.url());
    Workers::Two.runtime().block_on(async {
        let client = Engine::OwnThread.connect(&url).await;
        let before = resident("VmRSS:");
        let start = Instant::now();
        let guards = take(&client, Kind::Mutex, locks).await;
        let taken = start.elapsed();
        let bytes = (resident("VmRSS:") - before) as f64 / locks as f64;
        let mut bystander = Bystander::start(&url);
        let (cpu, clock) = (cpu_seconds(), Instant::now());
        tokio::time::sleep(hold).await;
        let share = 100.0 * (cpu_seconds() - cpu) / clock.elapsed().as_secs_f64();
        let times = bystander.end();
        let lost = guards.iter().filter(|guard| guard.is_lost()).count();
        let start = Instant::now();
        drop(guards);
        client.close().await.expect("closed");
        let given = start.elapsed();
        report.raw(
            json!({"what": "held", "locks": locks, "bystander_us": times, "seconds": hold.as_secs_f64(), "lost": lost,
            "core_percent": share, "bytes_each": bytes, "taken_s": taken.as_secs_f64(), "given_s": given.as_secs_f64(),
            "keys_left": server.keys().iter().filter(|key| key.starts_with("held-")).count()}),
        );
        let ours = format!(
            "{lost} lost, {share:.2} % of a core, {bytes:.0} bytes each; bystander p50 {} µs, p99 {} µs",
            times.p50, times.p99
        );
        let against = format!("taken in {:.2} s, given back in {:.2} s", taken.as_secs_f64(), given.as_secs_f64());
        report.row(format!("{locks} locks held for {} s", hold.as_secs()), ours, against, target);
    });
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

/// The bystander. It is a separate process, so that its CPU time is not counted as CPU time of the measured process.
struct Bystander(Child);

/// How often the bystander locked its name, and the times that a lock with its release took, in microseconds.
#[derive(Serialize, Deserialize)]
struct BystanderTimes {
    turns: usize,
    p50: u64,
    p99: u64,
    most: u64,
}

impl Bystander {
    fn start(url: &str) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        let child = command.args(["--bystander", url]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self(child.expect("this program starts again"))
    }

    fn end(&mut self) -> BystanderTimes {
        drop(self.0.stdin.take());
        let times = self.0.stdout.take().map(|out| serde_json::from_reader(out).expect("the figures"));
        self.0.wait().expect("the bystander ends");
        times.expect("the bystander has an output")
    }
}

/// The main function of the bystander's process.
pub(crate) fn run_bystander(url: &str) {
    let took = Workers::Current.runtime().block_on(async {
        let client = Engine::CurrentRuntime.connect(url).await;
        let mut end = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
        let mutex = client.mutex("bystander");
        let mut took = Vec::new();
        let turn = async || {
            let start = Instant::now();
            mutex.lock().await.expect("granted").release().await.expect("released");
            let took = start.elapsed();
            tokio::time::sleep(BYSTANDER).await;
            u64::try_from(took.as_micros()).expect("less than a lifetime")
        };
        // If the benchmark ends early, its server ends too, and a turn could wait for the server forever.
        while let Some(time) = tokio::select! { time = turn() => Some(time), _ = &mut end => None } {
            took.push(time);
        }
        took.sort_unstable();
        took
    });
    let at = |percent: usize| took.get(took.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default();
    let times = BystanderTimes { turns: took.len(), p50: at(50), p99: at(99), most: at(100) };
    // If the benchmark has ended early, the pipe is closed.
    let _ = writeln!(std::io::stdout(), "{}", json!(times));
}

/// Memory of this process, in bytes. With the line `VmRSS:` it is the present size, with `VmHWM:` the maximum so far.
pub(crate) fn resident(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_default();
    size.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() * 1024
}

/// CPU time of this process so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
