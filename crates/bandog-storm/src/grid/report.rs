//! The report of a run: for people, and as JSON.

use std::{collections::BTreeMap, path::PathBuf};

use serde_json::json;

use super::{
    check::{Findings, check},
    history::{History, Op},
};
use crate::settings::StoreKind;

/// The figures of one run.
#[derive(Debug)]
pub(super) struct Report {
    store: StoreKind,
    seed: u64,
    calls: usize,
    /// Number of calls of each kind of object, of each method and each result.
    results: BTreeMap<String, u64>,
    /// Number of messages that subscribers got.
    messages: usize,
    faults: BTreeMap<&'static str, u64>,
    stalls: usize,
    findings: Findings,
    /// Problems that the history does not contain, such as a worker that died.
    wrong: Vec<String>,
    /// The directory of the history, if it is kept.
    pub(super) kept: Option<PathBuf>,
}

impl Report {
    pub(super) fn new(store: StoreKind, seed: u64, history: &History, wrong: Vec<String>) -> Self {
        let (mut results, mut faults) = (BTreeMap::new(), BTreeMap::new());
        for call in &history.calls {
            let outcome = call.outcome.map_or("killed", |outcome| outcome.word());
            let result = format!("{} {} {outcome}", call.object.0.word(), word(call.op));
            *results.entry(result).or_default() += 1;
        }
        history.faults.iter().for_each(|fault| *faults.entry(fault.kind.word()).or_default() += 1);
        let messages = history.subscriptions.values().map(|subscription| subscription.events.len()).sum();
        let (calls, stalls, findings, kept) = (history.calls.len(), history.stalls.len(), check(history), None);
        Self { store, seed, calls, results, messages, faults, stalls, findings, wrong, kept }
    }

    pub(super) fn is_well(&self) -> bool {
        self.findings.violations.is_empty() && self.wrong.is_empty()
    }

    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json());
            return;
        }
        let Self { store, seed, calls, results, messages, faults, stalls, findings, wrong, kept } = self;
        println!("grid on {store}, seed {seed}: {calls} calls, {messages} events of subscribers");
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
        let Self { store, seed, calls, results, messages, faults, stalls, findings, wrong, kept } = self;
        json!({
            "store": store.to_string(), "seed": seed, "calls": calls, "results": results, "messages": messages,
            "faults": faults, "stalls": stalls, "pushed": findings.pushed, "delivered": findings.delivered,
            "excused": findings.excused, "overrun_ms": findings.worst_overrun / 1_000_000, "broken": findings.laws(),
            "violations": findings.report(), "wrong": wrong, "kept": kept, "well": self.is_well(),
        })
    }
}

/// The word of a method.
fn word(op: Op) -> String {
    let text = op.to_string();
    text.split(' ').next().unwrap_or_default().to_owned()
}
