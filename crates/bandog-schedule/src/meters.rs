//! What is counted, through the `metrics` facade.

use std::{sync::Arc, time::Duration};

use metrics::{counter, gauge, histogram};

use crate::{
    State,
    plan::{Ended, Plan},
    run::Facts,
    trigger::Ms,
};

/// A claim's end: `won`, `lost`, `early`, `error`.
pub(crate) fn claimed(result: &'static str) {
    counter!("bandog_claims_total", "result" => result).increment(1);
}

/// A run begins.
pub(crate) fn began(run: &Facts) {
    let late = run.started.saturating_sub(run.due.millisecond());
    histogram!("bandog_run_lag_seconds", "job" => Arc::clone(&run.name)).record(seconds(late));
}

/// So many run now.
pub(crate) fn running(runs: usize) {
    gauge!("bandog_runs_running").set(f64::from(u32::try_from(runs).unwrap_or(u32::MAX)));
}

/// A run has ended.
pub(crate) fn ended(job: &Arc<str>, ended: &Ended, took: Duration) {
    histogram!("bandog_run_seconds", "job" => Arc::clone(job)).record(took.as_secs_f64());
    counter!("bandog_runs_total", "job" => Arc::clone(job), "outcome" => ended.state.as_str()).increment(1);
    if ended.state == State::Ok {
        gauge!("bandog_last_success_timestamp_seconds", "job" => Arc::clone(job)).set(seconds(ended.at));
    }
}

/// Ticks that will not run.
pub(crate) fn left_out(job: &Arc<str>, plan: &Plan) {
    for (count, reason) in [(plan.skipped, "skipped"), (plan.missed.ticks, "missed"), (plan.lost.ticks, "lost")] {
        if count > 0 {
            counter!("bandog_ticks_missed_total", "job" => Arc::clone(job), "reason" => reason).increment(count);
        }
    }
}

/// How much the store's clock is ahead of ours.
pub(crate) fn clock(ahead: f64) {
    gauge!("bandog_clock_offset_seconds").set(ahead);
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 have 41 bits")]
fn seconds(ms: Ms) -> f64 {
    ms as f64 / 1000.0
}
