//! The rows of the mutex in this build and in an older build of this program, in alternating runs.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::report::{Report, Wanted, median};

/// The parts that are compared, and the options of each run. The runs are short, because their number removes more of
/// the noise than their length.
const RUN: [&str; 7] = ["cycles", "one-name", "sqlite", "--seconds", "0.25", "--rounds", "1"];

/// The fields of a raw figure that name its row. All other fields are measured.
const NAMING: [&str; 4] = ["what", "workers", "tasks", "engine"];

/// The rates of one run, by row.
type Rates = BTreeMap<String, f64>;

/// Compares this build with the older one. Each round is a pair of runs.
pub(crate) fn measure(report: &mut Report, old: Option<&Path>) {
    let Some(old) = old else { return };
    let new = std::env::current_exe().expect("this program has a path");
    let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut means = Vec::new();
    for round in 0..report.rounds {
        let (of_old, of_new) = if round % 2 == 0 {
            let of_old = run(report, "old", old);
            (of_old, run(report, "new", &new))
        } else {
            let of_new = run(report, "new", &new);
            (run(report, "old", old), of_new)
        };
        let mut pair = Vec::new();
        for (row, rate) in &of_new {
            let Some(before) = of_old.get(row) else { continue };
            ratios.entry(row.clone()).or_default().push(rate / before);
            pair.push(rate / before);
        }
        assert!(!pair.is_empty(), "the two builds have no row in common");
        means.push(geometric_mean(&pair));
    }
    for (row, ratios) in &ratios {
        let (least, most) = range(ratios);
        let against = format!("{} pairs: ×{least:.2} to ×{most:.2}", ratios.len());
        report.row(format!("new / old: {row}"), format!("×{:.2}", median(ratios.clone())), against, "");
    }
    let (least, most) = range(&means);
    let all: Vec<f64> = ratios.into_values().map(median).collect();
    let mean = geometric_mean(&all);
    let against = format!("of single pairs: ×{least:.2} to ×{most:.2}");
    report.row(format!("new / old: geometric mean of {} rows", all.len()), format!("×{mean:.3}"), against, "≥ 1");
    report.judge("rows of the mutex, this build beside the older build", Wanted::AtLeast(1.0), Some(mean));
}

/// Runs one build, and returns its rates.
fn run(report: &mut Report, build: &str, program: &Path) -> Rates {
    let folder = tempfile::tempdir().expect("a folder");
    let keep = folder.path().join("figures.jsonl");
    let status = Command::new(program).args(RUN).arg("--keep").arg(&keep).stdout(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()));
    assert!(status.success(), "{} ended with {status}", program.display());
    let text = fs::read_to_string(&keep).expect("the program keeps its figures");
    let mut rates = Rates::new();
    for line in text.lines() {
        let figure: Value = serde_json::from_str(line).expect("a line of JSON");
        report.raw(json!({"what": "older", "build": build, "figure": figure}));
        // A part that measures both engines at once has a field for each of them. The fields of rows are texts.
        for field in ["ours", "own_thread", "current_runtime"] {
            let Some(rate) = figure[field].as_f64() else { continue };
            let names = NAMING.iter().filter_map(|name| match &figure[name] {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(format!("{number} tasks")),
                _ => None,
            });
            let engine = (field != "ours").then(|| field.replace('_', " "));
            let row = names.chain(engine).collect::<Vec<_>>().join(", ");
            rates.insert(row, rate);
        }
    }
    rates
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

fn range(figures: &[f64]) -> (f64, f64) {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    (least, figures.iter().copied().fold(0.0, f64::max))
}
