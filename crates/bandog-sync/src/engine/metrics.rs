//! What the engine counts, through the `metrics` facade. The names are in docs/observability.md.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// Handles of the recorder that was installed when the client was made.
pub(super) struct Metrics {
    acquired: Counter,
    refused: Counter,
    wait: Histogram,
    held: Histogram,
    renewals: Counter,
    lost: Counter,
    reaped: Counter,
    holds: Gauge,
    waiting: Gauge,
    owed: Gauge,
    /// What the gauges show of this client: they are shared by all clients of the process.
    shown: [f64; 3],
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
            reaped: counter!("bandog_reaped_total"),
            holds: gauge!("bandog_holds"),
            waiting: gauge!("bandog_waiting"),
            owed: gauge!("bandog_owed"),
            shown: [0.0; 3],
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

    pub(super) fn reaped(&self) {
        self.reaped.increment(1);
    }

    pub(super) fn error(&self, verb: &'static str) {
        counter!("bandog_backend_errors_total", "verb" => verb).increment(1);
    }

    /// How much there is of each at the end of a round.
    pub(super) fn levels(&mut self, holds: usize, waiting: usize, owed: usize) {
        #[expect(clippy::cast_precision_loss, reason = "nobody holds 2^52 locks")]
        let present = [holds as f64, waiting as f64, owed as f64];
        for ((gauge, shown), present) in
            [&self.holds, &self.waiting, &self.owed].into_iter().zip(&mut self.shown).zip(present)
        {
            if present != *shown {
                gauge.increment(present - *shown);
                *shown = present;
            }
        }
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.levels(0, 0, 0);
    }
}
