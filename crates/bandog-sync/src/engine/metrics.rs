//! The engine's metrics, reported through the `metrics` crate. docs/observability.md explains them.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// The client's metrics, in the recorder that was installed when the client was made.
pub(super) struct Metrics {
    /// Turns that have started.
    acquired: Counter,
    /// Calls that were answered with "the lock is held".
    refused: Counter,
    /// How long each call waited until its turn started.
    wait: Histogram,
    /// How long each turn lasted.
    held: Histogram,
    /// Renewals that succeeded.
    renewals: Counter,
    /// Holds that were lost.
    lost: Counter,
    /// Calls that ended because of a deadlock.
    deadlocks: Counter,
    /// Releases that were sent again.
    reaped: Counter,
    holds: Gauge,
    waiting: Gauge,
    pending_releases: Gauge,
    /// The share of this client in each gauge. All clients of the process share the gauges.
    added: [f64; 3],
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            acquired: counter!("bandog_acquired_total"),
            refused: counter!("bandog_refused_total"),
            wait: histogram!("bandog_wait_seconds"),
            held: histogram!("bandog_held_seconds"),
            renewals: counter!("bandog_renewals_total"),
            lost: counter!("bandog_lost_total"),
            deadlocks: counter!("bandog_deadlocks_total"),
            reaped: counter!("bandog_reaped_total"),
            holds: gauge!("bandog_holds"),
            waiting: gauge!("bandog_waiting"),
            pending_releases: gauge!("bandog_owed"),
            added: [0.0; 3],
        }
    }

    pub(super) fn acquired(&self, waited: Duration) {
        self.acquired.increment(1);
        self.wait.record(waited);
    }

    pub(super) fn refused(&self) {
        self.refused.increment(1);
    }

    pub(super) fn held(&self, time: Duration) {
        self.held.record(time);
    }

    pub(super) fn renewed(&self) {
        self.renewals.increment(1);
    }

    pub(super) fn lost(&self) {
        self.lost.increment(1);
    }

    pub(super) fn deadlock(&self) {
        self.deadlocks.increment(1);
    }

    /// Counts a release that was sent again.
    pub(super) fn reaped(&self) {
        self.reaped.increment(1);
    }

    /// Counts a request that failed. `verb` names the request.
    pub(super) fn error(&self, verb: &'static str) {
        counter!("bandog_backend_errors_total", "verb" => verb).increment(1);
    }

    /// Updates the gauges at the end of a round.
    pub(super) fn set_gauges(&mut self, holds: usize, waiting: usize, pending_releases: usize) {
        #[expect(clippy::cast_precision_loss, reason = "no client holds 2^52 locks")]
        let present = [holds as f64, waiting as f64, pending_releases as f64];
        for ((gauge, added), present) in
            [&self.holds, &self.waiting, &self.pending_releases].into_iter().zip(&mut self.added).zip(present)
        {
            if present != *added {
                gauge.increment(present - *added);
                *added = present;
            }
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.set_gauges(0, 0, 0);
    }
}
