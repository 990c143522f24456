//! The scheduler: what jobs cost that wait, how late runs begin, how many ticks a node claims, how soon others take over.

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
    claims::measure as claims,
    crowd::{at_once, load, million},
    drift::measure as drift,
    idle::measure as idle,
    lag::measure as lag,
    takeover::{measure as takeover, stand_in},
};

/// How late runs began, in seconds.
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

/// How long ago the run was due, in seconds. Stores are on this machine, so its clock is theirs.
fn late(run: &Run) -> f64 {
    let now = SystemTime::now();
    match now.duration_since(run.due().into()) {
        Ok(late) => late.as_secs_f64(),
        Err(early) => -early.duration().as_secs_f64(),
    }
}
