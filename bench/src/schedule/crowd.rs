//! Very many jobs of one process: a million that wait, and 100,000 that are due at the same instant.

use std::{
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use bandog::schedule::{Job, Run, Scheduler};
use serde_json::{Value, json};

use super::at_once as due;
use crate::{
    held::{cpu_seconds, resident},
    measure::Workers,
    report::{Report, median},
};

const MILLION: usize = 1_000_000;
/// How long they are watched while nothing is due.
const IDLE: Duration = Duration::from_secs(20);

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

/// Here, with the C library's allocator, and in a program of its own that has another one.
pub(crate) fn at_once(report: &mut Report) {
    let program = std::env::current_exe().expect("this program has a path").with_file_name("at_once");
    let others = || {
        let output = Command::new(&program).output().expect("`cargo build --release -p bandog-bench` has made it");
        let told: Value = serde_json::from_slice(&output.stdout).expect("what it measured");
        ["jobs", "tasks"].map(|what| [0, 1].map(|at| told[what][at].as_f64().expect("a figure")))
    };
    let mut kinds = [const { Vec::new() }; 4];
    for round in 0..report.rounds {
        let [jobs, tasks] = others();
        for (kind, (what, [p50, last])) in kinds.iter_mut().zip([
            ("jobs", due::jobs()),
            ("tasks", due::tasks()),
            ("jobs, mimalloc", jobs),
            ("tasks, mimalloc", tasks),
        ]) {
            report.raw(json!({"what": "at once", "of": what, "round": round, "number": due::AT_ONCE,
                "p50_ms": p50, "last_ms": last}));
            kind.push([p50, last]);
        }
    }
    let [jobs, tasks, mi_jobs, mi_tasks] =
        kinds.map(|kind| [0, 1].map(|at| median(kind.iter().map(|one| one[at]).collect())));
    for (allocator, [p50, last], [_, floor]) in
        [("the C library's allocator", jobs, tasks), ("mimalloc", mi_jobs, mi_tasks)]
    {
        report.row(
            format!("100,000 jobs of one process, due at the same instant, {allocator}"),
            format!("the last begins after {last:.0} ms, half of them after {p50:.0} ms"),
            format!("bare tasks: the last after {floor:.0} ms"),
            "≤ 150 ms",
        );
    }
}
