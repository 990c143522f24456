//! Very many jobs of one process: a million that wait, and 100,000 that are due at the same instant.

use std::{
    num::NonZeroUsize,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use bandog::schedule::{Job, Run, Scheduler};
use bandog_cron::Time;
use serde_json::{Value, json};

use super::{Lags, late};
use crate::{
    held::{cpu_seconds, resident},
    measure::Workers,
    report::{Report, median, quantile},
};

const MILLION: usize = 1_000_000;
/// How long they are watched while nothing is due.
const IDLE: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 100_000;
/// How long after the making of the jobs they are due.
const AHEAD: Duration = Duration::from_secs(3);

/// In a process of its own, which has held no other memory.
pub(crate) fn million(report: &mut Report) {
    let program = std::env::current_exe().expect("this program has a path");
    let figure = |name: &str, one: &Value| one[name].as_f64().expect("a figure");
    let (mut sizes, mut peaks, mut loads, mut shares) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..report.rounds.min(3) {
        let output = Command::new(&program).arg("--load").output().expect("this program starts again");
        let one: Value = serde_json::from_slice(&output.stdout).expect("what it measured");
        sizes.push(figure("resident_mib", &one));
        peaks.push(figure("peak_mib", &one));
        loads.push(figure("loaded_s", &one));
        shares.push(figure("idle_core_percent", &one));
        report.raw(json!({"what": "jobs that wait", "round": round, "jobs": MILLION, "figures": one}));
    }
    let ours = format!(
        "{:.0} MiB ({:.0} at most), loaded in {:.2} s, idle {:.2} % of a core",
        median(sizes),
        median(peaks),
        median(loads),
        median(shares)
    );
    report.row(
        "1,000,000 jobs of one process, cron expressions of 3,600 kinds",
        ours,
        format!("nothing due for {} s", IDLE.as_secs()),
        "≤ 300 MiB, ≤ 3 s, ≤ 1 %",
    );
}

/// What the process of `million` does.
pub(crate) fn load() {
    let figures = Workers::Two.runtime().block_on(async {
        let start = Instant::now();
        let jobs = (0..MILLION).map(|number| {
            Job::cron(format!("job-{number}"), waiting(number)).run(move |_: Run| async move {
                std::hint::black_box(number);
            })
        });
        let running = Scheduler::new().jobs(jobs).start().await.expect("started");
        // Answered after everything has been put into the agenda.
        running.idle().await;
        let loaded = start.elapsed();
        let (cpu, clock) = (cpu_seconds(), Instant::now());
        tokio::time::sleep(IDLE).await;
        let share = 100.0 * (cpu_seconds() - cpu) / clock.elapsed().as_secs_f64();
        json!({"resident_mib": mib(resident("VmRSS:")), "peak_mib": mib(resident("VmHWM:")),
            "loaded_s": loaded.as_secs_f64(), "idle_core_percent": share})
    });
    println!("{figures}");
}

/// Once a day, 6 to 18 hours from now.
fn waiting(number: usize) -> String {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let (second, minute, hour) = (number % 5 * 12, number / 5 % 60, number / 300 % 12);
    let hour = (since_1970 / 3600 + 6 + hour as u64) % 24;
    format!("{second} {minute} {hour} * * ?")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

pub(crate) fn at_once(report: &mut Report) {
    let (mut p50s, mut worst) = (Vec::new(), Vec::new());
    for round in 0..report.rounds {
        let mut lags = Workers::Two.runtime().block_on(all_at_once());
        let (p50, most) = (quantile(&mut lags, 0.5) * 1e3, quantile(&mut lags, 1.0) * 1e3);
        report.raw(json!({"what": "jobs at once", "round": round, "jobs": AT_ONCE, "p50_ms": p50, "last_ms": most}));
        p50s.push(p50);
        worst.push(most);
    }
    report.row(
        "100,000 jobs of one process, due at the same instant",
        format!("the last begins after {:.0} ms", median(worst)),
        format!("half of them after {:.0} ms", median(p50s)),
        "≤ 150 ms",
    );
}

async fn all_at_once() -> Vec<f64> {
    let due = Time::from(SystemTime::now() + AHEAD);
    let lags = Lags::default();
    let jobs = (0..AT_ONCE).map(|number| {
        let lags = lags.clone();
        Job::at(format!("job-{number}"), due).run(move |run: Run| {
            lags.add(late(&run));
            std::future::ready(())
        })
    });
    let pool = NonZeroUsize::new(AT_ONCE).expect("not zero");
    let running = Scheduler::new().pool(pool).jobs(jobs).start().await.expect("started");
    tokio::time::sleep(AHEAD).await;
    let mut all = Vec::with_capacity(AT_ONCE);
    while all.len() < AT_ONCE {
        tokio::time::sleep(Duration::from_millis(200)).await;
        all.append(&mut lags.take());
    }
    running.stop().await.expect("stopped");
    all
}
