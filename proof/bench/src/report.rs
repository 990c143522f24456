//! Prints each figure as a line of JSON, and at the end a table of the medians.

use std::{
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// The size of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Full,
    /// This size only checks that every part still runs and ends. Its figures mean nothing.
    Short,
}

impl Size {
    /// The value for this size.
    pub(crate) fn pick<T>(self, full: T, short: T) -> T {
        match self {
            Self::Full => full,
            Self::Short => short,
        }
    }
}

/// The limit of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    AtLeast(f64),
    AtMost(f64),
    /// Less, by more than a hundredth: equal costs differ a little, because a measurement ends within a cycle.
    Below(f64),
}

impl Wanted {
    fn is_reached(self, measured: f64) -> bool {
        match self {
            Self::AtLeast(wanted) => measured >= wanted,
            Self::AtMost(wanted) => measured <= wanted,
            Self::Below(wanted) => measured < 0.99 * wanted,
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::AtLeast(wanted) => format!("≥ {wanted:.2}"),
            Self::AtMost(wanted) => format!("≤ {wanted:.2}"),
            Self::Below(wanted) => format!("< {wanted:.2}"),
        }
    }
}

pub(crate) struct Report {
    pub(crate) size: Size,
    pub(crate) rounds: usize,
    pub(crate) span: Duration,
    lines: Vec<String>,
    table: Vec<[String; 4]>,
    /// The figures that must be reached: figure, wanted, measured, reached.
    verdicts: Vec<[String; 4]>,
}

impl Report {
    pub(crate) fn new(size: Size, rounds: usize, span: Duration) -> Self {
        let mut report = Self { size, rounds, span, lines: Vec::new(), table: Vec::new(), verdicts: Vec::new() };
        let date = std::process::Command::new("date").arg("-uIminutes").output();
        let date = date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned()).unwrap_or_default();
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown").to_owned();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        report.raw(json!({"date": date, "cpu": cpu, "cores": cores, "load": load.trim(), "rounds": rounds, "seconds": span.as_secs_f64()}));
        report
    }

    /// Minimum time of a call in all rounds, in nanoseconds. The clock is read after each `calls` calls, whose arguments are
    /// their numbers.
    pub(crate) fn best(&self, calls: usize, mut call: impl FnMut(usize)) -> f64 {
        let slice = self.span.mul_f64(0.05).max(Duration::from_millis(1));
        let mut least = f64::INFINITY;
        for _ in 0..self.rounds.max(1) {
            let start = Instant::now();
            while start.elapsed() < slice {
                let batch = Instant::now();
                (0..calls).for_each(&mut call);
                least = least.min(batch.elapsed().as_secs_f64() * 1e9 / calls as f64);
            }
        }
        least
    }

    /// Prints and keeps one raw figure.
    pub(crate) fn raw(&mut self, figure: Value) {
        println!("{figure}");
        self.lines.push(figure.to_string());
    }

    /// Adds a row to the final table.
    pub(crate) fn row(&mut self, what: impl Into<String>, ours: String, against: String, target: &str) {
        let row = [what.into(), ours, against, target.to_owned()];
        self.raw(json!({"what": row[0], "ours": row[1], "against": row[2], "target": row[3]}));
        self.table.push(row);
    }

    /// Adds a figure that must be reached. Without a measured value, the figure was not measured.
    pub(crate) fn judge(&mut self, figure: &str, wanted: Wanted, measured: Option<f64>) {
        let Some(measured) = measured else {
            self.verdicts.push([figure.into(), String::new(), "not measured".into(), String::new()]);
            return;
        };
        let reached = wanted.is_reached(measured);
        self.raw(json!({"what": "figure", "figure": figure, "wanted": wanted.text(), "measured": measured,
            "reached": reached}));
        let reached = if reached { "yes" } else { "**no**" };
        self.verdicts.push([figure.into(), wanted.text(), format!("{measured:.2}"), reached.into()]);
    }

    pub(crate) fn finish(self, keep: Option<&Path>) -> ExitCode {
        println!("\n| what | ours | against | target |\n|---|---|---|---|");
        for [what, ours, against, target] in &self.table {
            println!("| {what} | {ours} | {against} | {target} |");
        }
        if !self.verdicts.is_empty() {
            println!("\n| figure | wanted | measured | reached |\n|---|---|---|---|");
        }
        for [figure, wanted, measured, reached] in &self.verdicts {
            println!("| {figure} | {wanted} | {measured} | {reached} |");
        }
        let Some(path) = keep else { return ExitCode::SUCCESS };
        match fs::write(path, self.lines.join("\n") + "\n") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("bench: {} cannot be written: {error}", path.display());
                ExitCode::FAILURE
            }
        }
    }
}

/// The median of the figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The figure below which this share of all figures lies, if there are any.
pub(crate) fn quantile(figures: &mut [f64], share: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index into the figures")]
    let index = (figures.len().saturating_sub(1) as f64 * share).round() as usize;
    figures.get(index).copied().unwrap_or(f64::NAN)
}

/// The quantiles of these durations, which are in seconds.
pub(crate) fn times(mut seconds: Vec<f64>) -> Value {
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&mut seconds, share) * 1e3);
    json!({"p50_ms": p50, "p99_ms": p99, "most_ms": most})
}
