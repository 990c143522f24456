//! Metrics, through the `metrics` facade.

use std::{sync::Arc, time::Duration};

use metrics::{counter, gauge, histogram};

use crate::{
    State,
    plan::{Plan, RunEnd},
    run::RunInfo,
    trigger::UnixMs,
};

/// Counts a claim by its result: `won`, `lost`, `early`, `error`.
pub(crate) fn claimed(result: &'static str) {
    counter!("bandog_claims_total", "result" => result).increment(1);
}

/// Records the delay of a run: the time between its planned start and its claim.
pub(crate) fn began(run: &RunInfo) {
    let late = run.started.saturating_sub(run.due.millisecond());
    histogram!("bandog_run_lag_seconds", "job" => Arc::clone(&run.name)).record(seconds(late));
}

/// Sets the number of runs under way.
pub(crate) fn running(runs: usize) {
    gauge!("bandog_runs_running").set(f64::from(u32::try_from(runs).unwrap_or(u32::MAX)));
}

/// Records a run that has ended.
pub(crate) fn ended(job: &Arc<str>, ended: &RunEnd, took: Duration) {
    histogram!("bandog_run_seconds", "job" => Arc::clone(job)).record(took.as_secs_f64());
    counter!("bandog_runs_total", "job" => Arc::clone(job), "outcome" => ended.state.as_str()).increment(1);
    if ended.state == State::Ok {
        succeeded(job, ended.at);
    }
}

/// Sets the time of the last success of a job.
pub(crate) fn succeeded(job: &Arc<str>, at: UnixMs) {
    gauge!("bandog_last_success_timestamp_seconds", "job" => Arc::clone(job)).set(seconds(at));
}

/// Sets whether a job is paused.
pub(crate) fn paused(job: &Arc<str>, is_paused: bool) {
    gauge!("bandog_job_paused", "job" => Arc::clone(job)).set(f64::from(u8::from(is_paused)));
}

/// Counts ticks that will not run.
pub(crate) fn left_out(job: &Arc<str>, plan: &Plan) {
    for (count, reason) in [(plan.skipped, "skipped"), (plan.missed.ticks, "missed"), (plan.lost.ticks, "lost")] {
        if count > 0 {
            counter!("bandog_ticks_missed_total", "job" => Arc::clone(job), "reason" => reason).increment(count);
        }
    }
}

/// Sets how far the store's clock is ahead of this machine's clock, in seconds.
pub(crate) fn clock(ahead: f64) {
    gauge!("bandog_clock_offset_seconds").set(ahead);
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 have 41 bits")]
/// Converts milliseconds to seconds.
fn seconds(ms: UnixMs) -> f64 {
    ms as f64 / 1000.0
}
