//! The scheduler: the cost of waiting jobs, the delay of runs, the number of ticks that a node claims, and the time
//! until another node takes a run over.

mod at_once;
mod claims;
mod crowd;
mod drift;
mod idle;
mod lag;
mod takeover;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use bandog::schedule::Run;

pub(crate) use self::{
    claims::{measure as claims, measure_on_sql as claims_on_sql},
    crowd::{at_once, load, million},
    drift::measure as drift,
    idle::measure as idle,
    lag::measure as lag,
    takeover::{measure as takeover, run_node},
};

/// The delays of runs, in seconds.
#[derive(Debug, Clone, Default)]
struct Lags(Arc<Mutex<Vec<f64>>>);

impl Lags {
    fn add(&self, late: f64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(late);
    }

    fn take(&self) -> Vec<f64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Time since the run was due, in seconds. The stores are on this machine, so they use the same clock.
fn late(run: &Run) -> f64 {
    let now = SystemTime::now();
    match now.duration_since(run.due().into()) {
        Ok(late) => late.as_secs_f64(),
        Err(early) => -early.duration().as_secs_f64(),
    }
}
