//! The rows of other parts in this build and in an older build of this program, in alternating runs.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    driver::Row,
    report::{Report, Wanted, median},
};

/// The options of each run. The runs are short, because their number removes more of the noise than their length.
const RUN: [&str; 4] = ["--seconds", "0.25", "--rounds", "1"];
/// The fields with a rate. Older builds have one field for each engine.
const RATES: [&str; 4] = ["per_second", "ours", "own_thread", "current_runtime"];

/// Compares this build with the older one. Each round is a pair of runs of these parts.
pub(crate) fn measure(report: &mut Report, old: Option<&Path>, parts: &[String]) {
    let Some(old) = old else { return };
    let new = std::env::current_exe().expect("this program has a path");
    let pairs = Row::new(json!({"what": "older"}), &[])
        .side("new", || rates(&new, parts))
        .beside("old", || rates(old, parts))
        .measure(report);
    let (mut ratios, mut means) = (BTreeMap::<_, Vec<f64>>::new(), Vec::new());
    for pair in pairs.rounds("new") {
        let rows = pair.as_object().into_iter().flatten();
        let rows = rows.filter_map(|(row, ratio)| Some((row.strip_suffix("_ratio")?, ratio.as_f64()?)));
        let rows: Vec<_> = rows.collect();
        assert!(!rows.is_empty(), "the two builds have no row in common");
        means.push(geometric_mean(&rows.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>()));
        rows.into_iter().for_each(|(row, ratio)| ratios.entry(row).or_default().push(ratio));
    }
    let range = |figures: &[f64]| {
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        format!("{} pairs: ×{least:.2} to ×{:.2}", figures.len(), figures.iter().copied().fold(0.0, f64::max))
    };
    for (row, ratios) in &ratios {
        report.row(format!("new / old: {row}"), format!("×{:.2}", median(ratios.clone())), range(ratios), "");
    }
    let all: Vec<f64> = ratios.into_values().map(median).collect();
    let mean = geometric_mean(&all);
    let what = format!("new / old: geometric mean of {} rows", all.len());
    report.row(&what, format!("×{mean:.3}"), range(&means), "≥ 1");
    report.judge(&what, Wanted::AtLeast(1.0), Some(mean));
}

/// Runs one build, and returns the rates of bandog.
fn rates(program: &Path, parts: &[String]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let keep = folder.path().join("figures.jsonl");
    let status = Command::new(program).args(parts).args(RUN).arg("--keep").arg(&keep).stdout(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()));
    assert!(status.success(), "{} ended with {status}", program.display());
    let text = fs::read_to_string(&keep).expect("the program keeps its figures");
    let mut rates = json!({});
    for line in text.lines() {
        let figure: Value = serde_json::from_str(line).expect("a line of JSON");
        for field in RATES {
            let (Some(rate), None) = (figure[field].as_f64(), figure.get("beside")) else { continue };
            rates[row(&figure, field)] = json!(rate);
        }
    }
    rates
}

/// The name of a row: the texts of its raw figure, the number of tasks, and the engine.
fn row(figure: &Value, field: &str) -> String {
    let mut names = vec![];
    for (name, value) in figure.as_object().into_iter().flatten() {
        match value {
            Value::String(text) => names.push(text.clone()),
            Value::Number(tasks) if name == "tasks" => names.push(format!("{tasks} tasks")),
            _ => {}
        }
    }
    if ["own_thread", "current_runtime"].contains(&field) {
        names.push(field.replace('_', " "));
    }
    names.sort();
    names.join(", ")
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}
