//! A rate limit for the queries of single jobs.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Maximum number of queries that are allowed immediately after a period without queries.
pub(crate) const BURST: u32 = 400;
/// Maximum number of queries per second in the long run.
pub(crate) const PER_SECOND: u32 = 100;

/// A budget of queries that grows with time up to a maximum. All queries of single jobs share one budget, for all
/// clients and all jobs.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<Budget>);

#[derive(Debug)]
struct Budget {
    /// Number of queries in the budget at the time `at`.
    left: f64,
    at: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Budget { left: f64::from(BURST), at: Instant::now() }))
    }

    /// Takes one query from the budget. After that, at least `reserve` queries must remain in the budget.
    ///
    /// # Errors
    /// Returns an error if the budget is too small. The error is the time after which the budget is large enough.
    pub(crate) fn take(&self, reserve: u32) -> Result<(), Duration> {
        let mut budget = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let more = now.duration_since(budget.at).as_secs_f64() * f64::from(PER_SECOND);
        budget.left = (budget.left + more).min(f64::from(BURST));
        budget.at = now;
        let lacking = 1.0 + f64::from(reserve) - budget.left;
        if lacking > 0.0 {
            return Err(Duration::from_secs_f64(lacking / f64::from(PER_SECOND)));
        }
        budget.left -= 1.0;
        Ok(())
    }
}
