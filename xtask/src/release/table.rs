//! The results of the steps, as a table and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::checks::Outcome;

/// The result of a step.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) step: &'static str,
    pub(super) outcome: Outcome,
    pub(super) took: Duration,
}

impl Row {
    fn result(&self) -> &'static str {
        match &self.outcome {
            Ok(_) => "passed",
            Err(fault) if fault.is_unavailable() => "missing",
            Err(_) => "failed",
        }
    }

    fn note(&self) -> String {
        match &self.outcome {
            Ok(note) => note.clone(),
            Err(fault) => fault.to_string(),
        }
    }
}

/// A table with a line for each step. Only the first line of a note is shown.
pub(super) fn text(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.step.len()).max().unwrap_or_default().max("step".len());
    let line = |step: &str, result: &str, seconds: &str, note: &str| {
        let line = format!("{step:width$}  {result:7}  {seconds:>7}  {}", note.lines().next().unwrap_or_default());
        format!("{}\n", line.trim_end())
    };
    let mut table = line("step", "result", "seconds", "note");
    for row in rows {
        table += &line(row.step, row.result(), &format!("{:.1}", row.took.as_secs_f64()), &row.note());
    }
    table
}

/// An object with a list of the steps. `is_whole`: whether these are all steps.
pub(super) fn json(rows: &[Row], is_whole: bool) -> String {
    let step = |row: &Row| {
        let seconds = f64::from(u32::try_from(row.took.as_millis()).unwrap_or(u32::MAX)) / 1000.0;
        json!({ "step": row.step, "result": row.result(), "seconds": seconds, "note": row.note() })
    };
    let steps: Vec<Value> = rows.iter().map(step).collect();
    format!("{:#}\n", json!({ "ready": is_whole && rows.iter().all(|row| row.outcome.is_ok()), "steps": steps }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    fn rows() -> [Row; 3] {
        let row = |step, outcome, millis| Row { step, outcome, took: Duration::from_millis(millis) };
        [
            row("a", Ok("3 crates".into()), 1_240),
            row("other systems", Err(Fault::unavailable("missing")), 5),
            row("c", Err(Fault::failed("x\ny")), 100_000),
        ]
    }

    #[test]
    fn a_table_has_a_line_for_each_step() {
        let expected = "step           result   seconds  note\na              passed       1.2  3 crates\n\
                        other systems  missing      0.0  missing\nc              failed     100.0  x\n";
        assert_eq!(text(&rows()), expected);
    }

    #[test]
    fn json_has_whole_notes() {
        let value: Value = serde_json::from_str(&json(&rows(), true)).unwrap();
        assert_eq!(value["ready"], false);
        assert_eq!(value["steps"][2], json!({ "step": "c", "result": "failed", "seconds": 100.0, "note": "x\ny" }));
        assert_eq!(value["steps"][0]["seconds"], 1.24);
    }
}
