//! The metrics of the library, in the format of Prometheus.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::{console::is_plain, exit_code::ExitCode, fault::Fault};

/// Upper limits of the buckets for durations, in seconds. A claim can take only a millisecond, and a run can take an
/// hour.
const SECONDS: [f64; 14] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0];

/// A handle of the metrics recorder.
#[derive(Debug, Clone)]
pub(super) struct Figures(PrometheusHandle);

impl Figures {
    /// Installs the recorder for the whole process.
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

    /// All metrics as text. Control characters in names are escaped, as in all output.
    pub(super) fn text(&self) -> String {
        let text = self.0.render();
        // In this format, two backslashes mean one backslash.
        let written = |c: char| match is_plain(c) || c == '\n' {
            true => c.to_string(),
            false => format!("\\{}", c.escape_debug()),
        };
        text.chars().map(written).collect()
    }

    /// Merges the collected samples. Without this upkeep, the samples accumulate while no client reads the metrics.
    pub(super) fn run_upkeep(&self) {
        self.0.run_upkeep();
    }
}

fn internal(error: &dyn std::fmt::Display) -> Fault {
    Fault::new(ExitCode::Internal, format!("cannot record metrics: {error}"))
}
