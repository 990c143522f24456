//! A million ticks of a fixed rate in virtual time: each must be a multiple of the period after the first one.

use std::time::{Duration, Instant};

use bandog::schedule::{Job, Run, TestScheduler};
use serde_json::json;

use crate::report::Report;

const PERIOD: Duration = Duration::from_secs(1);

pub(crate) fn measure(report: &mut Report) {
    let ticks = report.size.pick(1_000_000, 1_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let (ran, drift, took) = runtime.expect("a runtime starts").block_on(async {
        let start = Instant::now();
        let jobs = || vec![Job::fixed_rate("tick", PERIOD).run(async |_: Run| ())];
        let test = TestScheduler::at("2026-01-01T00:00:00Z").start(jobs).await.expect("started");
        test.advance(PERIOD * (ticks - 1)).await;
        test.run_until_idle().await;
        let runs = test.runs();
        let period = i64::try_from(PERIOD.as_millis()).expect("a short one");
        let grid = runs.iter().zip(0..).map(|(run, number)| {
            let due = runs[0].tick.millisecond() + number * period;
            (run.tick.millisecond() - due).abs().max((run.began.millisecond() - due).abs())
        });
        (runs.len(), grid.max().unwrap_or(i64::MAX), start.elapsed().as_secs_f64())
    });
    report.raw(json!({"what": "drift", "ticks": ran, "drift_ms": drift, "seconds": took}));
    report.row(
        format!("fixed rate of 1 s over {ran} ticks of virtual time"),
        format!("{drift} ms off its grid"),
        format!("takes {took:.1} s"),
        "0 ms",
    );
}
