//! The report of a run: for people, and as JSON.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::json;

use super::{call::Words, findings::Findings, recorded::Recorded};
use crate::settings::StoreKind;

/// The figures of a history.
#[derive(Debug)]
pub(crate) struct Figures {
    /// The command of the storm.
    mode: &'static str,
    calls: usize,
    /// The name and the number of what the clients have recorded besides their calls.
    others: (&'static str, usize),
    /// Number of calls of each kind of object, of each method and each result.
    results: BTreeMap<String, u64>,
    faults: BTreeMap<&'static str, u64>,
    stalls: usize,
    findings: Findings,
}

impl Figures {
    pub(crate) fn of<W: Words>(
        mode: &'static str,
        recorded: &Recorded<W>,
        others: (&'static str, usize),
        findings: Findings,
    ) -> Self {
        let (mut results, mut faults) = (BTreeMap::new(), BTreeMap::new());
        for call in &recorded.calls {
            let outcome = call.outcome.map_or("killed", |outcome| outcome.word());
            let (object, op) = (call.object.to_string(), call.op.to_string());
            let result = format!("{} {} {outcome}", first(&object, '.'), first(&op, ' '));
            *results.entry(result).or_default() += 1;
        }
        let disturbances = &recorded.disturbances;
        disturbances.faults.iter().for_each(|fault| *faults.entry(fault.kind.word()).or_default() += 1);
        let (calls, stalls) = (recorded.calls.len(), disturbances.stalls.len());
        Self { mode, calls, others, results, faults, stalls, findings }
    }
}

/// A run on one store.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) store: StoreKind,
    pub(super) seed: u64,
    pub(super) figures: Figures,
    /// Problems that the history does not contain, such as a worker that died.
    pub(super) wrong: Vec<String>,
    /// The directory of the history, if it is kept.
    pub(super) kept: Option<PathBuf>,
}

impl Report {
    pub(super) fn is_well(&self) -> bool {
        self.figures.findings.violations.is_empty() && self.wrong.is_empty()
    }

    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json());
            return;
        }
        let Self { store, seed, figures, wrong, kept } = self;
        let Figures { mode, calls, others, results, faults, stalls, findings } = figures;
        println!("{mode} on {store}, seed {seed}: {calls} calls, {} {}", others.1, others.0);
        for (result, count) in results {
            println!("  {result:<44}{count}");
        }
        println!("  {:<44}{}, {}", "elements: acknowledged, delivered", findings.pushed, findings.delivered);
        println!("  {:<44}{} ms", "longest time above a limit", findings.worst_overrun / 1_000_000);
        for (fault, count) in faults {
            println!("  fault: {fault:<37}{count}");
        }
        println!("  {:<44}{stalls}", "stalls of the machine");
        for (reason, count) in &findings.excused {
            println!("  allowed: {reason:<35} {count}");
        }
        for (law, count) in findings.laws() {
            println!("  BROKEN {law:<37}{count}");
        }
        findings.report().iter().chain(wrong).for_each(|what| println!("  {what}"));
        if let Some(kept) = kept {
            println!("  the history: {}", kept.display());
        }
        println!("{}", if self.is_well() { "nothing is wrong" } else { "something is wrong" });
    }

    fn json(&self) -> serde_json::Value {
        let Self { store, seed, figures, wrong, kept } = self;
        let Figures { mode, calls, others, results, faults, stalls, findings } = figures;
        json!({
            "mode": mode, "store": store.to_string(), "seed": seed, "calls": calls, "results": results,
            others.0: others.1, "faults": faults, "stalls": stalls, "pushed": findings.pushed,
            "delivered": findings.delivered, "excused": findings.excused,
            "overrun_ms": findings.worst_overrun / 1_000_000, "broken": findings.laws(),
            "violations": findings.report(), "wrong": wrong, "kept": kept, "well": self.is_well(),
        })
    }
}

/// The part of a text before the first such character.
fn first(text: &str, end: char) -> &str {
    text.split(end).next().unwrap_or_default()
}
