//! The scheduler: what jobs cost that wait, how late runs begin, how many ticks a node claims, how soon others take over.

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

use crate::report::Report;

pub(crate) use self::{crowd::load, takeover::stand_in};

pub(crate) fn measure(report: &mut Report) {
    crowd::million(report);
    crowd::at_once(report);
    lag::measure(report);
    claims::measure(report);
    takeover::measure(report);
    idle::measure(report);
    // Last: it pauses the runtime's clock, which makes the clock slower for good.
    drift::measure(report);
}

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
