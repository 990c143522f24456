//! What the library counts, as Prometheus reads it.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::{exit_code::ExitCode, fault::Fault, voice::is_plain};

/// Where durations are counted: from a claim's millisecond to a run of an hour.
const SECONDS: [f64; 14] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0];

/// The recorder's other end.
#[derive(Debug, Clone)]
pub(super) struct Figures(PrometheusHandle);

impl Figures {
    /// Counts from now on, in the whole process.
    pub(super) fn install() -> Result<Self, Fault> {
        let (recorder, figures) = Self::new()?;
        metrics::set_global_recorder(recorder).map_err(|error| internal(&error))?;
        Ok(figures)
    }

    fn new() -> Result<(metrics_exporter_prometheus::PrometheusRecorder, Self), Fault> {
        let builder = PrometheusBuilder::new().set_buckets(&SECONDS).map_err(|error| internal(&error))?;
        let recorder = builder.build_recorder();
        let figures = Self(recorder.handle());
        Ok((recorder, figures))
    }

    /// All of them, as text. What a name may have that steers a terminal is written out, as everywhere.
    pub(super) fn text(&self) -> String {
        let text = self.0.render();
        // In this format a backslash is written twice.
        let written = |c: char| match is_plain(c) || c == '\n' {
            true => c.to_string(),
            false => format!("\\{}", c.escape_debug()),
        };
        text.chars().map(written).collect()
    }

    /// Sorts in what has gathered; without it what nobody reads would pile up.
    pub(super) fn tidy(&self) {
        self.0.run_upkeep();
    }
}

fn internal(error: &dyn std::fmt::Display) -> Fault {
    Fault::new(ExitCode::Internal, format!("cannot count for /metrics: {error}"))
}
