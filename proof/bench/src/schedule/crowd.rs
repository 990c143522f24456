//! Very many jobs of one process: a million jobs that wait, and 100,000 jobs that are due at the same instant.

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
    report::{Report, Size, median},
};

/// Number of waiting jobs, and the duration of the measurement while none is due.
fn waiting_jobs(size: Size) -> (usize, Duration) {
    size.pick((1_000_000, Duration::from_secs(20)), (10_000, Duration::from_millis(200)))
}

/// Measures a million waiting jobs, in a new process that has used no other memory before.
pub(crate) fn million(report: &mut Report) {
    let program = std::env::current_exe().expect("this program has a path");
    let figure = |name: &str, one: &Value| one[name].as_f64().expect("a figure");
    let (number, idle) = waiting_jobs(report.size);
    let (mut sizes, mut peaks, mut loads, mut shares) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..report.rounds.min(3) {
        let output = Command::new(&program)
            .arg("--load")
            .args(report.size.pick(None, Some("--short")))
            .output()
            .expect("this program starts again");
        let one: Value = serde_json::from_slice(&output.stdout).expect("the figures");
        sizes.push(figure("resident_mib", &one));
        peaks.push(figure("peak_mib", &one));
        loads.push(figure("loaded_s", &one));
        shares.push(figure("idle_core_percent", &one));
        report.raw(json!({"what": "jobs that wait", "round": round, "jobs": number, "figures": one}));
    }
    let ours = format!(
        "{:.0} MiB ({:.0} at most), loaded in {:.2} s, idle {:.2} % of a core",
        median(sizes),
        median(peaks),
        median(loads),
        median(shares)
    );
    report.row(
        format!("{number} jobs of one process, cron expressions of 3,600 kinds"),
        ours,
        format!("nothing due for {} s", idle.as_secs_f64()),
        "≤ 300 MiB, ≤ 3 s, ≤ 1 %",
    );
}

/// The main function of the process that the function `million` starts.
pub(crate) fn load(size: Size) {
    let (number, idle) = waiting_jobs(size);
    let figures = Workers::Two.runtime().block_on(async {
        let start = Instant::now();
        let jobs = (0..number).map(|number| {
            Job::cron(format!("job-{number}"), waiting(number)).run(move |_: Run| async move {
                std::hint::black_box(number);
            })
        });
        let running = Scheduler::new().jobs(jobs).start().await.expect("started");
        // `idle` returns after all jobs are in the agenda.
        running.idle().await;
        let loaded = start.elapsed();
        let (cpu, clock) = (cpu_seconds(), Instant::now());
        tokio::time::sleep(idle).await;
        let share = 100.0 * (cpu_seconds() - cpu) / clock.elapsed().as_secs_f64();
        json!({"resident_mib": mib(resident("VmRSS:")), "peak_mib": mib(resident("VmHWM:")),
            "loaded_s": loaded.as_secs_f64(), "idle_core_percent": share})
    });
    println!("{figures}");
}

/// An expression that fires once a day, 6 to 18 hours from now.
fn waiting(number: usize) -> String {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let (second, minute, hour) = (number % 5 * 12, number / 5 % 60, number / 300 % 12);
    let hour = (since_1970 / 3600 + 6 + hour as u64) % 24;
    format!("{second} {minute} {hour} * * ?")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Measures jobs that are due at the same instant. The first round is reported separately, because in this round the
/// process has to allocate its memory.
pub(crate) fn at_once(report: &mut Report) {
    let number = report.size.pick(100_000, 1_000);
    let rounds: Vec<_> = (0..report.rounds).map(|_| [due::jobs(number), due::tasks(number)]).collect();
    for (round, [jobs, tasks]) in rounds.iter().enumerate() {
        report.raw(json!({"what": "at once", "round": round, "number": number, "jobs_p50_ms": jobs[0],
            "jobs_last_ms": jobs[1], "tasks_last_ms": tasks[1]}));
    }
    let middle = |figure: fn(&[[f64; 2]; 2]) -> f64| median(rounds.iter().map(figure).collect());
    let (p50, last, floor) = (middle(|round| round[0][0]), middle(|round| round[0][1]), middle(|round| round[1][1]));
    let first = rounds[0][0][1];
    report.row(
        format!("{number} jobs of one process, due at the same instant"),
        format!("the last begins after {last:.0} ms, half of them after {p50:.0} ms; the first time {first:.0} ms"),
        format!("bare tasks: the last after {floor:.0} ms"),
        "≤ 150 ms",
    );
}
