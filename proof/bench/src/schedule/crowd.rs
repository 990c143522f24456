//! Very many jobs of one process: a million jobs that wait, and 100,000 jobs that are due at the same instant.

use std::time::{Duration, Instant, SystemTime};

use bandog::schedule::{Job, Run, Scheduler};
use serde_json::json;

use super::at_once as due;
use crate::{
    again::Again,
    driver::Row,
    held::{core_percent, resident},
    measure::Workers,
    report::{Report, Size, Wanted},
};

/// Number of waiting jobs, and the duration of the measurement while none is due.
fn waiting_jobs(size: Size) -> (usize, Duration) {
    size.pick((1_000_000, Duration::from_secs(20)), (10_000, Duration::from_millis(200)))
}

/// Measures a million waiting jobs, in a new process that has used no other memory before.
pub(crate) fn million(report: &mut Report) {
    let (number, idle) = waiting_jobs(report.size);
    let size = report.size.pick("full", "short");
    let name = json!({"what": "jobs that wait", "jobs": number, "expressions": 3_600, "idle_s": idle.as_secs_f64()});
    Row::new(name, &["resident_mib", "peak_mib", "loaded_s", "idle_core_percent"])
        .rounds(report.rounds.min(3))
        .side("one process", || serde_json::from_str(&Again::start(&["load", size]).output()).expect("the figures"))
        .wanted("resident_mib", [Some(Wanted::AtMost(300.0))])
        .wanted("loaded_s", [Some(Wanted::AtMost(3.0))])
        .wanted("idle_core_percent", [Some(Wanted::AtMost(1.0))])
        .measure(report);
}

/// The main function of the process that the function `million` starts.
pub(crate) fn load(size: &str) {
    let size = if size == "short" { Size::Short } else { Size::Full };
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
        let share = core_percent(idle).await;
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

/// Measures jobs that are due at the same instant, beside bare tasks. In the first round, the process has to allocate its
/// memory.
pub(crate) fn at_once(report: &mut Report) {
    let number = report.size.pick(100_000, 1_000);
    Row::new(json!({"what": "at once", "number": number}), &["last_ms", "p50_ms"])
        .side("jobs", || due::jobs(number))
        .wanted("last_ms", [Some(Wanted::AtMost(150.0))])
        .beside("bare tasks", || due::tasks(number))
        .measure(report);
}
